"""What a run looks like while it runs."""

from __future__ import annotations

import dataclasses
import io

import trio
import trio.testing
from rich.console import Console

from atleastonce.verifier.live import Board, NodeRow, Rates, picture, plain_line, show_plain

BOARD = Board(
    phase="load",
    elapsed_s=12.3,
    nodes=(NodeRow("n1", "leader", 3, 120, 0), NodeRow("n2", "down")),
    workers=4,
    running=2,
    faults=("kill-leader n2",),
    dispatched=240,
    completed=230,
    retried=12,
    given_up=4,
)


def test_plain_line_is_one_line_of_ascii_with_all_counts() -> None:
    line = plain_line(BOARD, (20.0, 19.0))

    assert line.isascii()
    assert "\n" not in line
    for part in ("12.3 s", "n1:leader/t3", "n2:down", "dispatched 240 (20/s)", "running 2"):
        assert part in line
    for part in ("completed 230 (19/s)", "retried 12", "given up 4", "open: kill-leader n2"):
        assert part in line


def test_picture_shows_nodes_jobs_and_open_faults() -> None:
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(picture(BOARD, (20.0, 19.0)))
    text = console.export_text()

    for part in ("n1", "leader", "120", "down", "240", "230", "kill-leader n2", "20/s"):
        assert part in text


def test_operations_stand_for_jobs_where_there_are_none() -> None:
    board = dataclasses.replace(BOARD, operations=("send ok 7", "poll fail 1 ok 9"))
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(picture(board, (0.0, 0.0)))

    for text in (plain_line(board, (0.0, 0.0)), console.export_text()):
        assert "send ok 7, poll fail 1 ok 9" in text
        assert "dispatched" not in text


def test_rates_are_over_the_last_seconds() -> None:
    rates = Rates()
    for second in range(10):
        board = dataclasses.replace(BOARD, dispatched=second * 20, completed=second * 10)
        found = rates.update(float(second), board)

    assert found == (20.0, 10.0)


def test_rates_are_zero_at_the_first_look() -> None:
    assert Rates().update(1.0, BOARD) == (0.0, 0.0)


def test_plain_view_writes_one_line_a_second() -> None:
    lines: list[str] = []

    async def watch() -> None:
        with trio.move_on_after(4.5):
            await show_plain(lambda: BOARD, lines.append)

    trio.run(watch, clock=trio.testing.MockClock(autojump_threshold=0))

    assert len(lines) == 5
