"""What a run starts and breaks, on disk before it happens, so that a later process can undo it.

A ledger is JSON lines, each synced before the act that it announces. It belongs to the process
that wrote its first line; once that one is dead, `healing.heal` undoes what the ledger left open.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from ..histories.errors import FORMAT_VERSION
from ..histories.host import this_host
from ..histories.ops import Json
from .process import is_alive
from .world import Target

FILE_NAME: Final = "ledger.jsonl"

PRIVATE: Final = "private"
"""Name in the first line of a run in a private world."""

LedgerEvent = Literal["run", "process", "made", "gone", "opened", "owes", "healed", "closed"]


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `ledger.jsonl`.

    Attributes:
        event: run (the owner), process (one was started), made and gone (a thing that is no
            process), opened, owes and healed (a fault), closed.
        t_ns: CLOCK_MONOTONIC.
        wall_ns: Wall clock beside it.
        boot: The host's boot id, in the first line; after a reboot no process is left.
        pid: The owner, or the process that was started.
        start_time: Its identity, see `world.Target`.
        name: What the process or thing is, such as `n1`.
        fault: Id of the fault.
        kind: Of the fault.
        targets: The processes that the fault hits.
        mark: What stands in the environment of all that the run starts; in the first line.
        undo: What else must be undone, by kind of thing; see `undo.UNDO`.
    """

    event: LedgerEvent
    t_ns: int
    wall_ns: int
    boot: str = ""
    pid: int = 0
    start_time: str = ""
    name: str = ""
    fault: str = ""
    kind: str = ""
    targets: tuple[Target, ...] = ()
    mark: str = ""
    undo: dict[str, Json] = {}
    v: int = msgspec.field(default=0)


class LedgerInUseError(Exception):
    """The run that owns the ledger is still alive.

    Attributes:
        path: The ledger.
        pid: Its owner.
    """

    def __init__(self, path: Path, pid: int) -> None:
        super().__init__(f"{path} belongs to a run that is alive (pid {pid}); stop that one first")
        self.path = path
        self.pid = pid


class Ledger:
    """The ledger of a run, open for writing by its owner.

    Each call returns after an fsync, about 0.2 ms.

    Args:
        path: Of the file.
        owner: Whose end is the end of all its processes, in a private world; else this process,
            whose processes may outlive it.
        mark: What stands in the environment of all that the run starts; see `strays`.

    Raises:
        OSError: The disk refuses; nothing may be broken then.
    """

    def __init__(self, path: Path, owner: Target | None = None, mark: str = "") -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644)
        name = "" if owner is None else PRIVATE
        owner = owner or Target.of(os.getpid(), "verify")
        self._write(
            "run",
            boot=this_host().boot,
            pid=owner.pid,
            start_time=owner.start_time,
            name=name,
            mark=mark,
        )
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def process_started(self, target: Target) -> None:
        """A process was started that must not outlive the run."""
        self._write("process", pid=target.pid, start_time=target.start_time, name=target.name)

    def thing_made(self, name: str, undo: dict[str, Json]) -> None:
        """Something that is no process is about to be made, and must not outlive the run.

        Args:
            name: What it is, unique in the run.
            undo: How to be rid of it, by kind of thing; see `undo.UNDO`.
        """
        self._write("made", name=name, undo=undo)

    def thing_gone(self, name: str) -> None:
        """It is no more."""
        self._write("gone", name=name)

    def fault_opened(
        self,
        fault: str,
        kind: str,
        targets: Sequence[Target],
        undo: dict[str, Json] | None = None,
    ) -> None:
        """A fault is about to hit these processes, and these things, by kind; see `undo.UNDO`."""
        self._write("opened", fault=fault, kind=kind, targets=tuple(targets), undo=undo or {})

    def fault_owes(self, fault: str, undo: dict[str, Json]) -> None:
        """An opened fault is about to touch more things."""
        self._write("owes", fault=fault, undo=undo)

    def fault_healed(self, fault: str) -> None:
        """A fault was undone."""
        self._write("healed", fault=fault)

    def close(self) -> None:
        """The run is over and nothing of it is left; a second call does nothing."""
        if self._file >= 0:
            self._write("closed")
            os.close(self._file)
            self._file = -1

    def _write(
        self,
        event: LedgerEvent,
        *,
        boot: str = "",
        mark: str = "",
        pid: int = 0,
        start_time: str = "",
        name: str = "",
        fault: str = "",
        kind: str = "",
        targets: tuple[Target, ...] = (),
        undo: dict[str, Json] | None = None,
    ) -> None:
        line = LedgerLine(
            event=event,
            t_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            boot=boot,
            mark=mark,
            pid=pid,
            start_time=start_time,
            name=name,
            fault=fault,
            kind=kind,
            targets=targets,
            undo=undo or {},
            v=FORMAT_VERSION,
        )
        _append(self._file, msgspec.json.encode(line) + b"\n")


def _append(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    if written != len(line):
        raise OSError(f"short write: {written} of {len(line)} bytes")
    os.fsync(descriptor)


Thing = tuple[str, dict[str, Json]]
"""A kind of thing, a key of `undo.UNDO`, and which one."""


def things_of(undo: dict[str, Json]) -> list[Thing]:
    """The things of an `undo` object, whose values are one object or a list of them."""
    found: list[Thing] = []
    for kind, value in undo.items():
        each = value if isinstance(value, list) else [value]
        found += [(kind, one) for one in each if isinstance(one, dict)]
    return found


@dataclass(slots=True)
class LedgerState:
    """What a ledger says.

    Attributes:
        owner: The process that ran it; None if not even the first line is there.
        boot: The boot that it ran in.
        mark: What stands in the environment of all that it started; empty if nothing does.
        is_private: Its processes, whose numbers mean nothing elsewhere, end with the owner.
        processes: All that were started.
        open_faults: Opened and not healed, by id.
        owed: What these must undo, by id: pairs of a kind of thing and one of it.
        things: What the run itself made and did not take away, by name; likewise.
        closed: The run ended, or was healed.
        torn: The last line is incomplete.
    """

    owner: Target | None = None
    boot: str = ""
    mark: str = ""
    is_private: bool = False
    processes: list[Target] = field(default_factory=list)
    open_faults: dict[str, LedgerLine] = field(default_factory=dict)
    owed: dict[str, list[Thing]] = field(default_factory=dict)
    things: dict[str, list[Thing]] = field(default_factory=dict)
    closed: bool = False
    torn: bool = False


def read_ledger(path: Path) -> LedgerState:
    """Read a ledger; a line that cannot be read is left out, as the last one is after a death."""
    state = LedgerState()
    content = path.read_bytes()
    state.torn = bool(content) and not content.endswith(b"\n")
    for text in content.splitlines():
        try:
            line = msgspec.json.decode(text, type=LedgerLine)
        except msgspec.MsgspecError:
            continue
        if line.event == "run":
            state.owner = Target(line.pid, line.start_time, "verify")
            state.is_private = line.name == PRIVATE
            state.boot = line.boot
            state.mark = line.mark
        elif line.event == "process":
            state.processes.append(Target(line.pid, line.start_time, line.name))
        elif line.event == "opened":
            state.open_faults[line.fault] = line
            state.owed[line.fault] = things_of(line.undo)
        elif line.event == "owes":
            state.owed.setdefault(line.fault, []).extend(things_of(line.undo))
        elif line.event == "healed":
            state.open_faults.pop(line.fault, None)
            state.owed.pop(line.fault, None)
        elif line.event == "made":
            state.things[line.name] = things_of(line.undo)
        elif line.event == "gone":
            state.things.pop(line.name, None)
        else:
            state.closed = True
    return state


def is_owned(state: LedgerState) -> bool:
    """Whether another process that is alive owns the ledger."""
    return (
        state.owner is not None
        and state.boot == this_host().boot
        and state.owner.pid != os.getpid()
        and is_alive(state.owner)
    )


def close_ledger(path: Path, state: LedgerState) -> None:
    """Write that nothing of the run is left."""
    line = LedgerLine(
        event="closed", t_ns=time.monotonic_ns(), wall_ns=time.time_ns(), v=FORMAT_VERSION
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        # A torn last line would swallow this one.
        _append(descriptor, b"\n" * state.torn + msgspec.json.encode(line) + b"\n")
    finally:
        os.close(descriptor)
