"""Exit markers: one small file by which a worker says why it is about to end."""

from __future__ import annotations

import os
import signal
from enum import StrEnum
from pathlib import Path
from typing import Final

MEMORY_EXIT: Final = 12
"""Exit status of a worker that ended at its memory limit."""


class ExitMark(StrEnum):
    """Why a worker ended by its own decision."""

    TIMEOUT = "timeout"
    MEMORY = "memory"
    RESTART = "restart"


def write_mark(directory: str | Path, pid: int, mark: ExitMark) -> None:
    """Leave a marker for process `pid`; complete or absent, whenever the process dies.

    Raises:
        OSError: The directory cannot be written.
    """
    path = _path(directory, pid)
    temporary = path.with_suffix(".exit.tmp")
    temporary.write_text(mark.value, encoding="ascii")
    temporary.rename(path)


def take_mark(directory: str | Path, pid: int, status: int) -> ExitMark | None:
    """Consume the marker of a reaped process.

    Args:
        directory: The supervisor's state directory.
        pid: The reaped process.
        status: Its raw wait status; a marker that does not fit it counts for nothing.

    Returns:
        The marker, or None when there is none or the process ended in another way.
    """
    path = _path(directory, pid)
    try:
        text = path.read_text(encoding="ascii")
    except FileNotFoundError:
        return None
    path.unlink(missing_ok=True)
    try:
        mark = ExitMark(text)
    except ValueError:
        return None
    return mark if fits(mark, status) else None


def fits(mark: ExitMark, status: int) -> bool:
    """Whether a raw wait status is the one that belongs to a marker."""
    match mark:
        case ExitMark.TIMEOUT:
            return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        case ExitMark.MEMORY:
            return os.WIFEXITED(status) and os.WEXITSTATUS(status) == MEMORY_EXIT
        case ExitMark.RESTART:
            return os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0


def clear_marks(directory: str | Path) -> None:
    """Delete every marker; a master does so at start, before any worker lives."""
    for path in Path(directory).glob("*.exit*"):
        path.unlink(missing_ok=True)


def _path(directory: str | Path, pid: int) -> Path:
    return Path(directory) / f"{pid}.exit"
