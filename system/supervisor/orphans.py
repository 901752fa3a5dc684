"""What workers leave behind: the master adopts it, and ends and buries it."""

from __future__ import annotations

import os
import signal
from collections.abc import Container
from pathlib import Path


def bury_orphans(kept: Container[int]) -> None:
    """Reap adopted processes that have ended.

    Args:
        kept: Children that someone else waits for; while one of them is dead and not yet reaped,
            orphans behind it wait too.
    """
    while True:
        try:
            seen = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if seen is None or seen.si_pid in kept:
            return
        os.waitpid(seen.si_pid, 0)


def kill_orphans() -> list[int]:
    """SIGKILL every child of this process, reap the dead ones, and return the rest."""
    left = []
    for pid in _children():
        os.kill(pid, signal.SIGKILL)
        reaped, _ = os.waitpid(pid, os.WNOHANG)
        if not reaped:
            left.append(pid)
    return left


def _children() -> list[int]:
    """Return the children of this process, zombies included."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            fields = (entry / "stat").read_bytes().rpartition(b")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(fields[1]) == os.getpid():
            found.append(int(entry.name))
    return found
