"""One owner for the death of every process of a run.

The verifier is a child subreaper (`prctl(2)`), so that a worker whose parent was killed becomes
its child and is still reaped, with the raw wait status, by a process that lives on. Nothing else
in the verifier waits for a child.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec
import trio

from ..histories.deaths import Role, death_of
from ..histories.host import this_host
from ..histories.lines import LineWriter

_PR_SET_CHILD_SUBREAPER: Final = 36
_KILL_ROUNDS: Final = 200
_KILL_PAUSE_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Identity:
    """What a process was.

    Attributes:
        role: worker, fork-server, master or node; stranger for a supervisor that is refused,
            links for what carries packets, witness for a program that told its time of day.
        node: Name of the node, for nodes.
        popping: A pop's answer may have been unread when it died.
    """

    role: Role
    node: str | None = None
    popping: bool = False


def become_subreaper() -> None:
    """Make orphaned descendants children of this process.

    Raises:
        OSError: The kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_CHILD_SUBREAPER): {os.strerror(code)}")


class Reaper:
    """Collects wait statuses and writes a death record for each.

    Args:
        path: `reaped.jsonl`.
        identify: Says what an orphan was that nobody registered.
    """

    def __init__(self, path: Path, identify: Callable[[int], Identity]) -> None:
        self._lines = LineWriter(path)
        self._identify = identify
        self._host = this_host()
        self._known: dict[int, tuple[Identity, subprocess.Popen[bytes]]] = {}
        self._statuses: dict[int, int] = {}
        self._news = trio.Event()

    def register(self, child: subprocess.Popen[bytes], identity: Identity) -> None:
        """Say what a child is, right after it was spawned, before the next checkpoint."""
        self._known[child.pid] = (identity, child)
        self._statuses.pop(child.pid, None)

    def status(self, pid: int) -> int | None:
        """Return the raw wait status of a reaped process; None while it lives."""
        return self._statuses.get(pid)

    async def wait_exit(self, pid: int) -> int:
        """Wait until the process was reaped and return its raw wait status."""
        while (status := self._statuses.get(pid)) is None:
            await self._news.wait()
        return status

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Reap for ever."""
        with trio.open_signal_receiver(signal.SIGCHLD) as deaths:
            task_status.started()
            self.reap_now()
            async for _ in deaths:
                self.reap_now()

    def reap_now(self) -> int:
        """Reap whatever is dead and return how many that were."""
        reaped = 0
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                break
            if found is None or found.si_pid == 0:
                break
            # Named before it is reaped: until then nobody else can get its number.
            identity, child = self._known.pop(found.si_pid, (None, None))
            identity = identity or self._identify(found.si_pid)
            _, status = os.waitpid(found.si_pid, 0)
            if child is not None:
                child.returncode = os.waitstatus_to_exitcode(status)
            self._record(found.si_pid, status, identity)
            reaped += 1
        if reaped:
            self._news.set()
            self._news = trio.Event()
        return reaped

    def _record(self, pid: int, status: int, identity: Identity) -> None:
        death = death_of(
            status,
            pid,
            identity.role,
            t_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            host=self._host.name,
            boot=self._host.boot,
        )
        self._lines.write(
            msgspec.structs.replace(death, node=identity.node, popping=identity.popping)
        )
        self._statuses[pid] = status

    def kill_all(self, spared: frozenset[int]) -> int:
        """Kill and reap every descendant but the spared ones; return how many were left alive.

        Blocking, for at most four seconds, and usable outside trio.
        """
        for _ in range(_KILL_ROUNDS):
            self.reap_now()
            living = descendants() - spared
            if not living:
                return 0
            for pid in living:
                _kill(pid)
            time.sleep(_KILL_PAUSE_S)
        return len(descendants() - spared)

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return  # It was faster.


def descendants() -> frozenset[int]:
    """Return every descendant of this process that is not reaped yet, from /proc."""
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue  # It was reaped while we looked.
            parent = int(stat.rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: set[int] = set()
    ahead = [os.getpid()]
    while ahead:
        for child in children.get(ahead.pop(), ()):
            found.add(child)
            ahead.append(child)
    return frozenset(found)
