"""What a run starts and breaks, on disk before it happens, so that a later process can undo it.

A ledger is JSON lines, each synced before the act that it announces. It belongs to the process
that wrote its first line; once that one is dead, `heal` undoes what the ledger left open.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import msgspec

from ..histories.errors import FORMAT_VERSION
from ..histories.host import this_host
from .process import ProcessGoneError, is_alive, is_stopped, opened, send, start_time
from .world import Target

FILE_NAME: Final = "ledger.jsonl"
_GONE_WAIT_S: Final = 5.0
_POLL_S: Final = 0.01

LedgerEvent = Literal["run", "process", "opened", "healed", "closed"]


class LedgerLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `ledger.jsonl`.

    Attributes:
        event: run (the owner), process (one was started), opened and healed (a fault), closed.
        t_ns: CLOCK_MONOTONIC.
        wall_ns: Wall clock beside it.
        boot: The host's boot id, in the first line; after a reboot no process is left.
        pid: The owner, or the process that was started.
        start_time: Its identity, see `world.Target`.
        name: What the process is, such as `n1`.
        fault: Id of the fault.
        kind: Of the fault.
        targets: The processes that the fault hits.
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

    Raises:
        OSError: The disk refuses; nothing may be broken then.
    """

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._file = os.open(path, flags, 0o644)
        pid = os.getpid()
        self._write("run", boot=this_host().boot, pid=pid, start_time=start_time(pid))
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def process_started(self, target: Target) -> None:
        """A process was started that must not outlive the run."""
        self._write("process", pid=target.pid, start_time=target.start_time, name=target.name)

    def fault_opened(self, fault: str, kind: str, targets: Sequence[Target]) -> None:
        """A fault is about to hit these processes."""
        self._write("opened", fault=fault, kind=kind, targets=tuple(targets))

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
        pid: int = 0,
        start_time: str = "",
        name: str = "",
        fault: str = "",
        kind: str = "",
        targets: tuple[Target, ...] = (),
    ) -> None:
        line = LedgerLine(
            event=event,
            t_ns=time.monotonic_ns(),
            wall_ns=time.time_ns(),
            boot=boot,
            pid=pid,
            start_time=start_time,
            name=name,
            fault=fault,
            kind=kind,
            targets=targets,
            v=FORMAT_VERSION,
        )
        _append(self._file, msgspec.json.encode(line) + b"\n")


def _append(descriptor: int, line: bytes) -> None:
    written = os.write(descriptor, line)
    if written != len(line):
        raise OSError(f"short write: {written} of {len(line)} bytes")
    os.fsync(descriptor)


@dataclass(slots=True)
class LedgerState:
    """What a ledger says.

    Attributes:
        owner: The process that ran it; None if not even the first line is there.
        boot: The boot that it ran in.
        processes: All that were started.
        open_faults: Opened and not healed, by id.
        closed: The run ended, or was healed.
        torn: The last line is incomplete.
    """

    owner: Target | None = None
    boot: str = ""
    processes: list[Target] = field(default_factory=list)
    open_faults: dict[str, LedgerLine] = field(default_factory=dict)
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
            state.boot = line.boot
        elif line.event == "process":
            state.processes.append(Target(line.pid, line.start_time, line.name))
        elif line.event == "opened":
            state.open_faults[line.fault] = line
        elif line.event == "healed":
            state.open_faults.pop(line.fault, None)
        else:
            state.closed = True
    return state


def open_ledgers(store_root: Path) -> list[Path]:
    """The ledgers below a store that are not closed and whose owner is dead, sorted."""
    found = []
    for path in sorted(store_root.glob(f"*/*/{FILE_NAME}")):
        if path.parent.parent.is_symlink() or path.parent.is_symlink():
            continue
        state = read_ledger(path)
        if not state.closed and not _is_owned(state):
            found.append(path)
    return found


def _is_owned(state: LedgerState) -> bool:
    return (
        state.owner is not None
        and state.boot == this_host().boot
        and state.owner.pid != os.getpid()
        and is_alive(state.owner)
    )


def heal(path: Path) -> list[str]:
    """Undo what a dead run left open: continue what is stopped, kill what is left, and close it.

    A process is touched only if its start time is still the one that the ledger names. Healing
    twice does nothing more. Blocks until the killed processes are gone, for at most 5 s each.

    Returns:
        One plain sentence for each thing that was undone.

    Raises:
        LedgerInUseError: The run is alive.
        OSError: A process may not be signalled, or the ledger not be written.
    """
    state = read_ledger(path)
    if state.closed:
        return []
    if _is_owned(state):
        assert state.owner is not None, state
        raise LedgerInUseError(path, state.owner.pid)
    done: list[str] = []
    if state.boot == this_host().boot:
        known = dict.fromkeys(state.processes)
        known |= dict.fromkeys(t for fault in state.open_faults.values() for t in fault.targets)
        for target in known:
            done += _end(target, state)
    for fault in state.open_faults.values():
        names = ", ".join(target.name for target in fault.targets)
        done.append(f"closed fault {fault.fault} on {names}")
    _close(path, state)
    return done


def _end(target: Target, state: LedgerState) -> list[str]:
    """Continue and kill one process, if it is still there."""
    done = []
    try:
        with opened(target) as descriptor:
            if is_stopped(target):
                send(descriptor, signal.SIGCONT)
                cause = next(
                    (f.fault for f in state.open_faults.values() if target in f.targets), None
                )
                why = f", which fault {cause} had stopped" if cause else ""
                done.append(f"continued {target.name} (pid {target.pid}){why}")
            send(descriptor, signal.SIGKILL)
            deadline_s = time.monotonic() + _GONE_WAIT_S
            while is_alive(target) and time.monotonic() < deadline_s:
                time.sleep(_POLL_S)
    except ProcessGoneError:
        return done
    if is_alive(target):
        done.append(
            f"{target.name} (pid {target.pid}) does not die of SIGKILL; it hangs in the kernel"
        )
    else:
        done.append(f"killed {target.name} (pid {target.pid}), left over from a dead run")
    return done


def _close(path: Path, state: LedgerState) -> None:
    line = LedgerLine(
        event="closed", t_ns=time.monotonic_ns(), wall_ns=time.time_ns(), v=FORMAT_VERSION
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        # A torn last line would swallow this one.
        _append(descriptor, b"\n" * state.torn + msgspec.json.encode(line) + b"\n")
    finally:
        os.close(descriptor)
