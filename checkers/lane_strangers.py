"""The rule of a failure lane about supervisors that are to be refused their state directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .findings import Finding
from .world import World

INTRUDE: Final = "intrude"
"""Operation whose ok value is what became of such a supervisor; see `Intrusion`."""
EXIT_REFUSED: Final = 2


class Intrusion(msgspec.Struct, frozen=True):
    """One attempt.

    Attributes:
        kind: What is wrong with the directory.
        directory: The directory.
        exit: Exit status of the process; None when it was killed because it went on.
        lines: What it wrote.
        left: What it left in the directory.
    """

    kind: str
    directory: str
    exit: int | None
    lines: tuple[str, ...]
    left: tuple[str, ...] = ()


def read_intrusions(world: World) -> list[tuple[int, Intrusion]]:
    """Return all attempts with their times, in order."""
    return [
        (op.time_ns, msgspec.convert(op.value, Intrusion))
        for op in world.run.ops
        if op.f == INTRUDE and op.type == "ok"
    ]


def missing_intrusions(world: World, expected: Sequence[str]) -> str:
    """Say which attempts were not made; empty when all were."""
    made = {intrusion.kind for _, intrusion in read_intrusions(world)}
    absent = [kind for kind in expected if kind not in made]
    return f"no supervisor was started in a directory that is {', '.join(absent)}" if absent else ""


def judge_intrusions(world: World) -> Iterator[Finding]:
    """Yield each supervisor that was not refused in one line, or that left something behind."""
    for at, intrusion in read_intrusions(world):
        for wrong in _wrongs(intrusion):
            text = f"a supervisor in a directory that is {intrusion.kind} {wrong}"
            yield Finding("lane-owner", None, text, at, at)


def _wrongs(intrusion: Intrusion) -> Iterator[str]:
    if intrusion.exit is None:
        yield "went on and had to be killed"
    elif intrusion.exit != EXIT_REFUSED:
        yield f"ended with exit status {intrusion.exit}; the lane expects {EXIT_REFUSED}"
    lines = [line for line in intrusion.lines if intrusion.directory in line]
    if len(intrusion.lines) != 1 or not lines:
        yield f"wrote {len(intrusion.lines)} lines; the lane expects one that names the directory"
    if intrusion.left:
        yield f"left {', '.join(intrusion.left)} in it"
