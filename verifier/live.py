"""What a run looks like while it runs: a live table on a terminal, elsewhere a line a second."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

import trio
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

_RICH_PAUSE_S: Final = 0.25
_PLAIN_PAUSE_S: Final = 1.0
_RATE_SPAN_S: Final = 3.0
_STYLES: Final = {"leader": "bold green", "down": "bold red", "paused": "bold yellow"}


class View(StrEnum):
    """How much is shown while a run runs."""

    RICH = "rich"
    PLAIN = "plain"
    QUIET = "quiet"


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as its own `/health` tells it; `state` is its role, or down, or silent."""

    name: str
    state: str
    term: int = 0
    commit: int = 0
    lag: int = 0


@dataclass(frozen=True, slots=True)
class Board:
    """Everything that is shown at one moment.

    Attributes:
        phase: What the run is doing.
        elapsed_s: Since the run began.
        nodes: The nodes in order.
        workers: Living workers.
        running: Workers that are inside a job.
        faults: Open faults in words.
        dispatched: Jobs that the broker accepted.
        open_dispatches: Dispatches whose answer is awaited.
        started: Runs begun.
        completed: Runs completed.
        retried: Runs that were not a first attempt.
        given_up: Jobs given up.
        operations: What clients did, in words; stands for the counts of jobs where there are none.
    """

    phase: str
    elapsed_s: float
    nodes: tuple[NodeRow, ...] = ()
    workers: int = 0
    running: int = 0
    faults: tuple[str, ...] = ()
    dispatched: int = 0
    open_dispatches: int = 0
    started: int = 0
    completed: int = 0
    retried: int = 0
    given_up: int = 0
    operations: tuple[str, ...] = ()


@dataclass(slots=True)
class Rates:
    """Dispatches and completions a second over the last few seconds."""

    _past: deque[tuple[float, int, int]] = field(default_factory=deque)

    def update(self, now_s: float, board: Board) -> tuple[float, float]:
        """Add a moment and return dispatched and completed a second."""
        past = self._past
        past.append((now_s, board.dispatched, board.completed))
        while len(past) > 2 and now_s - past[1][0] >= _RATE_SPAN_S:
            past.popleft()
        then_s, dispatched, completed = past[0]
        span_s = max(now_s - then_s, 1e-9)
        if len(past) == 1:
            return 0.0, 0.0
        return (board.dispatched - dispatched) / span_s, (board.completed - completed) / span_s


def plain_line(board: Board, rates: tuple[float, float]) -> str:
    """Say one moment in one line of ASCII."""
    nodes = " ".join(
        f"{node.name}:{node.state}" + (f"/t{node.term}" if node.state == "leader" else "")
        for node in board.nodes
    )
    faults = f" | open: {', '.join(board.faults)}" if board.faults else ""
    done = ", ".join(board.operations) or (
        f"dispatched {board.dispatched} ({rates[0]:.0f}/s) running {board.running}"
        f" completed {board.completed} ({rates[1]:.0f}/s) retried {board.retried}"
        f" given up {board.given_up}"
    )
    return f"{board.elapsed_s:6.1f} s {board.phase:<9} {nodes} | {done}{faults}"


def picture(board: Board, rates: tuple[float, float]) -> Group:
    """Draw one moment for a terminal."""
    nodes = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("node", "role"):
        nodes.add_column(name)
    for name in ("term", "commit", "lag"):
        nodes.add_column(name, justify="right")
    for node in board.nodes:
        known = (str(node.term), str(node.commit), str(node.lag)) if node.term else ("", "", "")
        nodes.add_row(node.name, Text(node.state, _STYLES.get(node.state, "")), *known)
    jobs = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name in ("dispatched", "running", "completed", "retried", "given up", "workers"):
        jobs.add_column(name, justify="right")
    values = (board.dispatched, board.running, board.completed, board.retried, board.given_up)
    jobs.add_row(*(str(value) for value in values), str(board.workers))
    jobs.add_row(f"{rates[0]:.0f}/s", "", f"{rates[1]:.0f}/s", "", "", "", style="dim")
    head = Text.assemble((board.phase, "bold"), f"  {board.elapsed_s:.1f} s")
    faults = Text("faults  ", "dim")
    faults.append(", ".join(board.faults) or "none open", "bold yellow" if board.faults else "dim")
    done = Text(", ".join(board.operations)) if board.operations else jobs
    return Group(head, nodes, done, faults)


async def show_rich(look: Callable[[], Board]) -> None:
    """Redraw four times a second on standard error."""
    rates = Rates()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True) as live:
        while True:
            board = look()
            live.update(picture(board, rates.update(time.monotonic(), board)), refresh=True)
            await trio.sleep(_RICH_PAUSE_S)


async def show_plain(look: Callable[[], Board], write: Callable[[str], None]) -> None:
    """Write one line a second."""
    rates = Rates()
    while True:
        board = look()
        write(plain_line(board, rates.update(time.monotonic(), board)))
        await trio.sleep(_PLAIN_PAUSE_S)
