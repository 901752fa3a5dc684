"""What workers leave behind: whoever is above them adopts it, and ends and buries it.

Master and fork server adopt what loses its parent. What outlives both is known by a variable that
every process below a fork server inherits, and ended when the next supervisor starts there.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Container
from pathlib import Path
from typing import Final

MARK: Final = "ATLEASTONCE_STARTED_UNDER"
"""Variable that names the state directory of the supervisor under which a process was started."""


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


def mark_of(root: Path) -> str:
    """Return what `MARK` is for a state directory: the directory itself, not only its name.

    Containers that see each other's processes may use the same name for different directories.
    """
    seen = root.stat()
    return f"{seen.st_dev}:{seen.st_ino}:{root.resolve()}"


def kill_marked(root: Path) -> list[int]:
    """SIGKILL every process that was started under a state directory; return those found.

    Only for who holds the directory's locks, when none of its fork servers lives. Neither this
    process nor one above it is touched.
    """
    wanted = f"{MARK}={mark_of(root)}".encode()
    kept = _lineage()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) in kept:
            continue
        try:
            # First, so that a number that is taken anew meanwhile is not mistaken for this one.
            pidfd = os.pidfd_open(int(entry.name))
        except OSError:
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                found.append(int(entry.name))
        except OSError:
            continue
        finally:
            os.close(pidfd)
    return found


def _lineage() -> set[int]:
    """Return this process and all above it."""
    found, pid = set[int](), os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
        except OSError:
            break
    return found


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
