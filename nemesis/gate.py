"""A gate between a process and its disk: each sync, and each write if asked for, passes or not.

The process runs under a filter of its system calls (`gated_start`), so it needs no privilege, knows
nothing of it, and can be killed while a call is held. Nobody else's calls ask: whoever serves the
gate must live as long as the process, or its syncs fail with ENOSYS.
"""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import select
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

STARTER: Final = Path(__file__).with_name("gated_start.py")
SYNCS: Final = ("fsync", "fdatasync")
WRITES: Final = ("pwrite64", "pwritev")

_NUMBERS: Final[dict[str, dict[str, int]]] = {
    "x86_64": {"fsync": 74, "fdatasync": 75, "pwrite64": 18, "pwritev": 296},
    "aarch64": {"fsync": 82, "fdatasync": 83, "pwrite64": 68, "pwritev": 70},
}
_RECEIVE: Final = 0xC0502100
_ANSWER: Final = 0xC0182101
_NOTICE: Final = struct.Struct("<QIIiIQ6Q")
_REPLY: Final = struct.Struct("<QqiI")
_CONTINUE: Final = 1
_VECTOR: Final = struct.Struct("<QQ")


class GateError(Exception):
    """A process cannot be gated; the message says why."""


@dataclass(frozen=True, slots=True)
class GateRule:
    """What becomes of a process's calls on its files while a fault lasts.

    Attributes:
        delay_ms: Each sync waits so long first.
        holds: No sync goes on before the rule ends.
        sync_error: `errno` of every sync; 0 for none.
        write_error: `errno` of every write; 0 for none.
        short: The first write of each file writes half of its bytes before that error comes.
        only: How the names of the files end that are meant; empty for all.
    """

    delay_ms: float = 0.0
    holds: bool = False
    sync_error: int = 0
    write_error: int = 0
    short: bool = False
    only: str = ""


@dataclass(slots=True)
class GateCounts:
    """What a rule has done: syncs that waited, calls that failed, writes that were cut short."""

    waited: int = 0
    failed: int = 0
    shortened: int = 0
    files: set[str] = field(default_factory=set)

    @property
    def hits(self) -> int:
        """All of them."""
        return self.waited + self.failed + self.shortened


@dataclass(frozen=True, slots=True)
class _Asked:
    id: int
    thread: int
    name: str
    arguments: tuple[int, ...]

    @property
    def descriptor(self) -> str:
        # The kernel looks at the low half of the register alone.
        return f"/proc/{self.thread}/fd/{self.arguments[0] & 0xFFFFFFFF}"


def starting(command: Sequence[str], door: socket.socket, *, writes: bool) -> list[str]:
    """The command that starts another one under the filter.

    Args:
        command: What to run; its first word is looked up in PATH.
        door: The far end of a pair, which the child inherits.
        writes: Whether writes ask, too: each costs 0.1 ms then.

    Raises:
        GateError: This kind of machine is not known.
    """
    numbers = _NUMBERS.get(platform.machine())
    if numbers is None:
        known = ", ".join(_NUMBERS)
        raise GateError(f"disks are gated on {known} alone, and this is {platform.machine()!r}")
    asked = ",".join(str(numbers[name]) for name in (*SYNCS, *(WRITES if writes else ())))
    return [sys.executable, "-IS", str(STARTER), str(door.fileno()), asked, *command]


async def listener_from(door: socket.socket, timeout_s: float) -> int:
    """The listener that a child sends; its descriptor is the caller's.

    Raises:
        GateError: The child could not install the filter, or ended, or was too slow.
    """
    with trio.move_on_after(timeout_s):
        await trio.lowlevel.wait_readable(door)
        said, rights, _, _ = socket.recv_fds(door, 200, 1)
        if rights:
            return rights[0]
        raise GateError(f"no gate before the disk: {said.decode() or 'the process ended'}")
    raise GateError(f"no gate before the disk after {timeout_s:g} s")


class DiskGate:
    """The gate of one node, over all of its processes.

    Args:
        folder: Only files below it are meant by rules; all others pass.

    Attributes:
        counts: Of the present rule, or the last one.
        floors: Size up to which a file is durable, by device and inode, as its syncs tell.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = os.path.realpath(folder) + os.sep
        self._rule: GateRule | None = None
        self._ended = trio.Event()
        self.counts = GateCounts()
        self.floors: dict[tuple[int, int], int] = {}

    def begin(self, rule: GateRule) -> None:
        """Put a rule in force, from the next call on."""
        assert self._rule is None, f"{self._rule} is still in force before {self._folder}"
        self._rule, self._ended = rule, trio.Event()
        self.counts = GateCounts()

    def end(self) -> GateCounts:
        """Take the rule away, let go of what it holds, and return what it did; fine without one."""
        self._rule = None
        self._ended.set()
        return self.counts

    async def serve(self, listener: int) -> None:
        """Answer a process's calls until it has ended; closes the listener."""
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        try:
            async with trio.open_nursery() as held:
                while True:
                    await trio.lowlevel.wait_readable(listener)
                    events = sum(events for _, events in poll.poll(0))
                    if events & select.POLLIN:
                        asked = _receive(listener)
                        if asked is not None:
                            self._decide(listener, asked, held)
                    # A call that a stop took back is asked again later.
                    elif events:
                        break
                held.cancel_scope.cancel()
        finally:
            os.close(listener)

    def _decide(self, listener: int, asked: _Asked, held: trio.Nursery) -> None:
        rule = self._rule
        path = "" if rule is None else _path_of(asked)
        if rule is None or not path.startswith(self._folder) or not path.endswith(rule.only):
            self._pass(listener, asked)
        elif asked.name in SYNCS:
            self.counts.files.add(path)
            if rule.sync_error:
                self.counts.failed += 1
                _answer(listener, asked, error=rule.sync_error)
            elif rule.holds or rule.delay_ms:
                self.counts.waited += 1
                held.start_soon(self._wait, listener, asked, rule)
            else:
                self._pass(listener, asked)
        elif rule.write_error:
            self._refuse_write(listener, asked, rule, path)
        else:
            self._pass(listener, asked)

    async def _wait(self, listener: int, asked: _Asked, rule: GateRule) -> None:
        with trio.move_on_after(float("inf") if rule.holds else rule.delay_ms / 1000):
            await self._ended.wait()
        self._pass(listener, asked)

    def _refuse_write(self, listener: int, asked: _Asked, rule: GateRule, path: str) -> None:
        if rule.short and path not in self.counts.files:
            self.counts.files.add(path)
            written = _write_half(asked)
            if written:
                self.counts.shortened += 1
                _answer(listener, asked, value=written)
                return
        self.counts.files.add(path)
        self.counts.failed += 1
        _answer(listener, asked, error=rule.write_error)

    def _pass(self, listener: int, asked: _Asked) -> None:
        if asked.name in SYNCS:
            # The one that asks is the one that writes, so nothing is added before it is durable.
            with suppress(OSError):
                found = os.stat(asked.descriptor)
                self.floors[found.st_dev, found.st_ino] = found.st_size
        _answer(listener, asked, goes_on=True)


def _receive(listener: int) -> _Asked | None:
    """The next call that waits; None if its thread has died meanwhile."""
    buffer = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, buffer)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    id_, thread, _, number, _, _, *arguments = _NOTICE.unpack(buffer)
    names = {known: name for name, known in _NUMBERS[platform.machine()].items()}
    return _Asked(id_, thread, names[number], tuple(arguments))


def _answer(
    listener: int, asked: _Asked, *, error: int = 0, value: int = 0, goes_on: bool = False
) -> None:
    reply = _REPLY.pack(asked.id, value, -error, _CONTINUE if goes_on else 0)
    # Whoever was killed meanwhile needs no answer.
    with suppress(FileNotFoundError):
        fcntl.ioctl(listener, _ANSWER, reply)


def _path_of(asked: _Asked) -> str:
    with suppress(OSError):
        return os.readlink(asked.descriptor)
    return ""


def _write_half(asked: _Asked) -> int:
    """Write the first half of what a call writes, in its stead; returns how many bytes."""
    _, address, length, offset = asked.arguments[:4]
    with suppress(OSError), open(f"/proc/{asked.thread}/mem", "rb", buffering=0) as memory:
        parts = [(address, length)]
        if asked.name == "pwritev":
            memory.seek(address)
            parts = list(_VECTOR.iter_unpack(memory.read(_VECTOR.size * length)))
        data = b"".join(_read_parts(memory.fileno(), parts))
        half = data[: len(data) // 2]
        file = os.open(asked.descriptor, os.O_WRONLY | os.O_CLOEXEC)
        try:
            return os.pwrite(file, half, offset) if half else 0
        finally:
            os.close(file)
    return 0


def _read_parts(memory: int, parts: Iterable[tuple[int, int]]) -> Iterable[bytes]:
    for address, length in parts:
        yield os.pread(memory, length, address)
