"""The outside of a private world: makes it, hands signals in and the exit status out.

Kept small: its imports are done before the world exists, on every run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Final, NoReturn

from ..nemesis.namespaces import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    die_with_parent,
    keep_mounts_private,
    leave,
    mount,
)

_HARNESS: Final = 4
"""`Exit.HARNESS`, which lives in a module that this one does without."""
_INSIDE: Final = "atleastonce.verifier.inside"
_FORWARDED: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


def main() -> int:
    """Make the world, run the command in it, and return its exit status."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED | {signal.SIGCHLD})
    try:
        leave(CLONE_NEWNS | CLONE_NEWPID | (CLONE_NEWNET if _has_network() else 0))
        keep_mounts_private()
    except OSError as error:
        sys.stderr.write(f"verify: a private world cannot be made: {error}; try --level 0\n")
        return _HARNESS
    waits, goes = os.pipe()
    child = os.fork()
    if child == 0:
        _begin_inside(waits, goes)
    os.close(waits)
    os.write(goes, b"g")
    status = _wait(child)
    if status < 0:
        name = signal.Signals(-status).name
        sys.stderr.write(f"verify: the run was ended by {name}; nothing of it is left running\n")
        return _HARNESS
    return status


def _has_network() -> bool:
    """Whether the run gets a network of its own; else it stays on the machine's loopback."""
    told = json.loads(os.environ.get("ATLEASTONCE_PRIVATE_WORLD", "{}"))
    return bool(told.get("has_network", True))


def _begin_inside(waits: int, goes: int) -> NoReturn:
    """Become the command, as the first process of the world."""
    try:
        os.close(goes)
        die_with_parent()
        # A wrapper that died before it could be watched leaves the pipe empty.
        if os.read(waits, 1) != b"g":
            os._exit(_HARNESS)
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED | {signal.SIGCHLD})
        command = (sys.executable, "-P", "-m", _INSIDE, *sys.argv[1:])
        os.execv(sys.executable, command)
    except OSError as error:
        os.write(2, f"verify: a private world cannot be entered: {error}\n".encode())
    os._exit(_HARNESS)


def _wait(child: int) -> int:
    """Forward signals until the child has ended; its exit code, or the signal that ended it, < 0.

    A signal of the terminal reaches the child without help, as it is in the same process group.
    """
    while True:
        told = signal.sigwaitinfo(_FORWARDED | {signal.SIGCHLD})
        if told.si_signo != signal.SIGCHLD:
            if told.si_code <= 0:
                os.kill(child, told.si_signo)
            continue
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    sys.exit(main())
