"""What the end of a worker means: its raw wait status and its exit marker, made one word."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from ...bugs import NO_BUGS, Bugs

MEMORY_EXIT: Final = 12
_SIGKILL: Final = 9
_ASKING_SIGNALS: Final = (12, 15)
_SIGNAL_MASK: Final = 0x7F


class Exit(StrEnum):
    """How a worker ended.

    `CLEAN` and `RECYCLE` (it had grown past its memory limit) are the worker's own choice;
    `TIMEOUT` is a worker that killed itself because its job overran. `STOPPED` (it was asked to)
    and `KILLED` (the lease could not be kept, or the fork server died) are the supervisor's own
    doing, which says nothing about the worker and is known only to who did it. All else is a
    `CRASH`.
    """

    CLEAN = "clean"
    RECYCLE = "recycle"
    TIMEOUT = "timeout"
    STOPPED = "stopped"
    KILLED = "killed"
    CRASH = "crash"


def exit_signal(status: int) -> int | None:
    """Return the signal that ended a process, or None; `status` is what Linux's wait(2) gave."""
    return status & _SIGNAL_MASK or None


def exit_code(status: int) -> int | None:
    """Return the exit code of a process that ended by itself, or None."""
    return None if status & _SIGNAL_MASK else (status >> 8) & 0xFF


def classify_exit(
    status: int, marker: str | None, bugs: Bugs = NO_BUGS, *, was_asked: bool = False
) -> Exit:
    """Classify the end of a worker.

    A marker counts only with the exit that belongs to it, so that a worker which wrote one and
    then died of something else is a crash.

    Args:
        status: Raw wait status.
        marker: What the worker left behind: `timeout`, `memory`, `restart` or nothing.
        bugs: Planted defects; `timeout-counts-as-crash` lives here.
        was_asked: Whether the supervisor had asked it to end, as a pause or a restart does.
    """
    if was_asked and (exit_code(status) == 0 or exit_signal(status) in _ASKING_SIGNALS):
        return Exit.STOPPED
    if exit_code(status) == 0:
        return Exit.CLEAN
    if marker == "memory" and exit_code(status) == MEMORY_EXIT:
        return Exit.RECYCLE
    if marker == "timeout" and exit_signal(status) == _SIGKILL:
        return Exit.CRASH if "timeout-counts-as-crash" in bugs else Exit.TIMEOUT
    return Exit.CRASH
