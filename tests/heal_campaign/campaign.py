"""One moment: a run with many faults, its verifier killed, `verify heal`, and a look around."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atleastonce.nemesis.ledger import read_ledger

from .remains import CAMPAIGN_VARIABLE, find_processes, find_things, wait_gone

NEMESES: Final = (
    "pause-nodes,kill-worker-state,kill-supervisor-workers,bump-clock,pause-kill,kill-lease-holder,"
    "drift-supervisor-clock"
)
AFTER_S: Final = (0.05, 14.0)
"""When the verifier is killed, counted from its start: before its first process, or amid faults."""

Wait = Callable[[subprocess.Popen[bytes], Path], None]
"""Returns when the run in this store is to be killed."""

_RUN_S: Final = 60
_HEAL_S: Final = 60.0
_SETTLE_S: Final = 0.5
"""A process that was told to die by the kernel may take so long to be gone."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What one kill came to.

    Attributes:
        number: Which one.
        after_s: When the verifier was killed.
        open_faults: What its ledger held open then.
        before: Processes of the run that lived right after.
        undone: What `verify heal` said that it did.
        heal_s: How long that took.
        left: What was left after it; empty is what is wanted.
    """

    number: int
    after_s: float
    open_faults: tuple[str, ...]
    before: int
    undone: tuple[str, ...]
    heal_s: float
    left: tuple[str, ...]

    def line(self) -> str:
        """Say it in one line."""
        told = f"left: {'; '.join(self.left)}" if self.left else "clean"
        return (
            f"{self.number}: killed after {self.after_s:.2f} s with {len(self.open_faults)} open "
            f"faults and {self.before} processes; healed in {self.heal_s:.2f} s, "
            f"{len(self.undone)} things undone; {told}"
        )


def try_moment(number: int, seed: int, folder: Path, nemeses: str = NEMESES) -> Moment:
    """Run, kill after a time that the seed draws, heal, look."""
    after_s = random.Random(f"{seed}/{number}").uniform(*AFTER_S)

    def wait(run: subprocess.Popen[bytes], _: Path) -> None:
        with suppress(subprocess.TimeoutExpired):
            run.wait(after_s)

    return kill_and_heal(number, seed, folder, nemeses, wait)


def kill_and_heal(number: int, seed: int, folder: Path, nemeses: str, wait: Wait) -> Moment:
    """Run, kill when a wait is over, heal, look."""
    mark = f"{os.getpid()}-{seed}-{number}"
    store = folder / f"moment{number}"
    begun_s = time.monotonic()
    run = subprocess.Popen(
        [
            *(sys.executable, "-m", "atleastonce.verifier", "run", "jobs", "--nemesis", nemeses),
            *("--time-limit", str(_RUN_S), "--interval", "2", "--set", "first_s=0.2"),
            *("--seed", str(seed + number), "--store", str(store), "--quiet"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, CAMPAIGN_VARIABLE: mark},
        start_new_session=True,
    )
    try:
        wait(run, store)
    finally:
        run.kill()
        run.wait()
    after_s = time.monotonic() - begun_s
    before = len(find_processes(mark))
    held = open_faults(store)
    # Without the mark: the process that heals is not one of those that must be gone.
    undone, heal_s = _heal(store)
    left = [*wait_gone(mark, _SETTLE_S), *find_things(store), *_again(store)]
    return Moment(number, after_s, held, before, tuple(undone), heal_s, tuple(left))


def open_faults(store: Path) -> tuple[str, ...]:
    """What the ledgers of a store hold open now."""
    return tuple(
        fault
        for ledger in store.glob("*/*/ledger.jsonl")
        for fault in read_ledger(ledger).open_faults
    )


def _heal(store: Path) -> tuple[list[str], float]:
    begun_s = time.monotonic()
    store.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-m", "atleastonce.verifier", "heal", "--store", str(store)],
        capture_output=True,
        text=True,
        timeout=_HEAL_S,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if not line.startswith("nothing to heal")]
    if done.returncode != 0:
        lines.append(f"heal ended with status {done.returncode}: {done.stderr.strip()[-200:]}")
    return lines, time.monotonic() - begun_s


def _again(store: Path) -> list[str]:
    """What keeps a ledger open after the heal; a second heal would have something to do."""
    ledgers = store.glob("*/*/ledger.jsonl")
    return [f"open ledger {path}" for path in ledgers if not read_ledger(path).closed]
