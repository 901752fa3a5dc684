"""What the supervisor asks of Linux that Python has no name for."""

from __future__ import annotations

import ctypes
import os
import signal
import struct
from pathlib import Path
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_SO_PEERCRED_FORMAT: Final = "3i"

PEER_CREDENTIALS_BYTES: Final = struct.calcsize(_SO_PEERCRED_FORMAT)

_libc = ctypes.CDLL(None, use_errno=True)


def _prctl(option: int, value: int) -> None:
    if _libc.prctl(option, value, 0, 0, 0) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))


def die_with_parent(number: signal.Signals) -> None:
    """Have the kernel send this process a signal when the thread that started it ends.

    Compare `os.getppid()` afterwards: a parent that died earlier sends nothing.
    """
    _prctl(_PR_SET_PDEATHSIG, int(number))


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent dies."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def thread_count() -> int:
    """Return the number of threads of this process, foreign ones included."""
    return len(os.listdir("/proc/self/task"))


def open_sockets() -> frozenset[str]:
    """Return the sockets that this process holds, as the kernel names them."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return frozenset(found)


def boot_id() -> str:
    """Return the id of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def peer_credentials(raw: bytes) -> tuple[int, int]:
    """Return (pid, uid) from what SO_PEERCRED gave."""
    pid, uid, _gid = struct.unpack(_SO_PEERCRED_FORMAT, raw)
    return pid, uid


def kill_group(leader: int) -> bool:
    """SIGKILL a process group; False when nobody is in it."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
