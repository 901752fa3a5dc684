"""Linux namespaces: making and entering them, being root in one's own (`namespaces(7)`)."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

CLONE_NEWTIME: Final = 0x80
CLONE_NEWNS: Final = 0x20000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000
MS_NOSUID: Final = 2
MS_NODEV: Final = 4
MS_NOEXEC: Final = 8
_MNT_DETACH: Final = 2
_MS_REC: Final = 0x4000
_MS_PRIVATE: Final = 1 << 18
_HERE: Final = "/proc/thread-self/ns/net"
_PR_SET_PDEATHSIG: Final = 1

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Leave namespaces for new ones (`unshare(2)`); a new user namespace needs a single thread.

    Raises:
        OSError: The kernel refuses.
    """
    _check(_libc.unshare(flags), "unshare")


def leave(flags: int) -> None:
    """Leave namespaces for new ones, in which the caller is root.

    Root needs no user namespace for that, unless it was stripped of its capabilities, as in most
    containers. Anybody else gets one.

    Raises:
        OSError: The kernel, or a policy of the machine, forbids it.
    """
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        try:
            unshare(flags)
        except PermissionError:
            pass
        else:
            return
    unshare(CLONE_NEWUSER | flags)
    map_root(user, group)


def die_with_parent() -> None:
    """Have the kernel kill this process when the thread that forked it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def map_root(user: int, group: int) -> None:
    """Be root in a user namespace that was just made, and nobody more than before outside it.

    Raises:
        OSError: A policy of the machine forbids it.
    """
    Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1", encoding="ascii")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1", encoding="ascii")


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """Mount a file system (`mount(2)`).

    Raises:
        OSError: The kernel refuses.
    """
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()
    )
    _check(result, f"mount {kind} on {target}")


def unmount(target: str, *, detach: bool = False) -> None:
    """Unmount a file system (`umount2(2)`).

    Args:
        target: Where it is.
        detach: Take it away at once, although it is in use.

    Raises:
        OSError: It is in use, or the kernel refuses.
    """
    _check(_libc.umount2(target.encode(), _MNT_DETACH if detach else 0), f"umount {target}")


def keep_mounts_private() -> None:
    """Keep what is mounted from now on in this mount namespace to itself.

    Raises:
        OSError: The kernel refuses.
    """
    mount("none", "/", "", _MS_REC | _MS_PRIVATE)


def new_network() -> int:
    """Make a network namespace and return a descriptor of it; the calling thread stays where it is.

    Raises:
        OSError: The kernel refuses.
    """
    back = os.open(_HERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        unshare(CLONE_NEWNET)
        try:
            return os.open(_HERE, os.O_RDONLY | os.O_CLOEXEC)
        finally:
            _check(_libc.setns(back, CLONE_NEWNET), "setns")
    finally:
        os.close(back)


def enter_network(namespace: int) -> None:
    """Move the calling thread into a network namespace; threads and children it makes follow.

    Raises:
        OSError: The kernel refuses.
    """
    _check(_libc.setns(namespace, CLONE_NEWNET), "setns")


@contextmanager
def inside_network(namespace: int) -> Iterator[None]:
    """Be in a network namespace for the length of a block, in this thread; never await inside.

    Raises:
        OSError: The kernel refuses.
    """
    back = os.open(_HERE, os.O_RDONLY | os.O_CLOEXEC)
    try:
        enter_network(namespace)
        try:
            yield
        finally:
            enter_network(back)
    finally:
        os.close(back)
