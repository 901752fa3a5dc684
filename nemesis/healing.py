"""Undoes what a dead run left open, in a fixed order, from its ledger alone.

First what holds others up is opened: gates, frozen groups, rules of packets, stopped processes,
limits. Then processes are killed, which only now can die of it; and last goes what they used.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from ..histories.host import this_host
from .ledger import (
    FILE_NAME,
    LedgerInUseError,
    LedgerState,
    Thing,
    close_ledger,
    is_owned,
    read_ledger,
)
from .process import ProcessGoneError, is_alive, is_stopped, opened, send, send_to
from .strays import find_strays
from .undo import UNDO, Phase, UndoError
from .world import Target

_GONE_WAIT_S: Final = 5.0
_PUT_OFF: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_POLL_S: Final = 0.01


def open_ledgers(store_root: Path) -> list[Path]:
    """The ledgers below a store that are not closed and whose owner is dead, sorted."""
    found = []
    for path in sorted(store_root.glob(f"*/*/{FILE_NAME}")):
        if path.parent.parent.is_symlink() or path.parent.is_symlink():
            continue
        state = read_ledger(path)
        if not state.closed and not is_owned(state):
            found.append(path)
    return found


def heal(path: Path) -> list[str]:
    """Undo what a dead run left open, and close its ledger.

    A process is touched only if its start time is still the one that the ledger names. Healing
    twice does nothing more. What cannot be undone is said, and leaves the ledger open. Blocks
    until the killed processes are gone, for at most 5 s each; a Ctrl-C meanwhile takes effect
    afterwards.

    Returns:
        One plain sentence for each thing that was undone.

    Raises:
        LedgerInUseError: The run is alive.
        OSError: A process may not be signalled, or the ledger not be written.
    """
    with _undisturbed():
        return _heal(path)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Put off what would break off the healing in the middle; it takes effect afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Handlers run in the main thread alone.
        return
    # A mask would hold for this thread only: another one could take the signal meanwhile.
    came: list[int] = []
    handlers = {number: signal.getsignal(number) for number in _PUT_OFF}
    heard = {n: known for n, known in handlers.items() if known not in (None, signal.SIG_IGN)}
    for number in heard:
        signal.signal(number, lambda caught, _: came.append(caught))
    try:
        yield
    finally:
        for number, known in heard.items():
            signal.signal(number, known)
        for caught in dict.fromkeys(came):
            signal.raise_signal(caught)


def _heal(path: Path) -> list[str]:
    state = read_ledger(path)
    if state.closed:
        return []
    if is_owned(state):
        assert state.owner is not None, state
        raise LedgerInUseError(path, state.owner.pid)
    done: list[str] = []
    left = 0
    if state.boot == this_host().boot:
        for phase in Phase:
            lines, failed = _undo(state, phase)
            done += lines
            left += failed
            if phase is Phase.CONTINUE:
                done += _continue(state)
            elif phase is Phase.KILL:
                for target in _processes(state):
                    done += _kill(target)
                done += _kill_strays(state.mark)
    for fault in state.open_faults.values():
        names = ", ".join(target.name for target in fault.targets)
        done.append(f"closed fault {fault.fault} on {names}" if names else f"closed {fault.fault}")
    if not left:
        close_ledger(path, state)
    return done


def _undo(state: LedgerState, phase: Phase) -> tuple[list[str], int]:
    """Undo the things of one phase, the newest first; how many could not be."""
    lines: list[str] = []
    failed = 0
    for kind, which in reversed(list(_things(state))):
        if kind not in UNDO:
            if phase is Phase.REMAINS:
                lines.append(f"cannot undo {kind!r}: this version does not know such a thing")
                failed += 1
            continue
        if UNDO[kind].phase is not phase:
            continue
        try:
            lines += UNDO[kind].undo(which)
        except (UndoError, OSError) as error:
            lines.append(f"could not undo {kind}: {error}")
            failed += 1
    return lines, failed


def _things(state: LedgerState) -> Iterable[Thing]:
    for things in (*state.things.values(), *state.owed.values()):
        yield from things


def _processes(state: LedgerState) -> dict[Target, None]:
    if state.is_private:
        return {}
    known = dict.fromkeys(state.processes)
    return known | dict.fromkeys(t for fault in state.open_faults.values() for t in fault.targets)


def _continue(state: LedgerState) -> list[str]:
    """Continue whatever is stopped."""
    done = []
    for target in _processes(state):
        if not is_stopped(target):
            continue
        try:
            send_to(target, signal.SIGCONT)
        except ProcessGoneError:
            continue
        cause = next((f.fault for f in state.open_faults.values() if target in f.targets), None)
        why = f", which fault {cause} had stopped" if cause else ""
        done.append(f"continued {target.name} (pid {target.pid}){why}")
    return done


def _kill_strays(mark: str) -> list[str]:
    """Kill what the run's processes have started, until none of it is left."""
    done: list[str] = []
    deadline_s = time.monotonic() + _GONE_WAIT_S
    while mark and time.monotonic() < deadline_s:
        strays = find_strays(mark)
        if not strays:
            break
        for stray in strays:
            with suppress(ProcessGoneError):
                send_to(stray, signal.SIGKILL)
                told = f"killed {stray.name}, left over from a dead run"
                done += [told] if told not in done else []
        time.sleep(_POLL_S)
    return done


def _kill(target: Target) -> list[str]:
    """Kill one process, if it is still there."""
    try:
        with opened(target) as descriptor:
            send(descriptor, signal.SIGKILL)
            deadline_s = time.monotonic() + _GONE_WAIT_S
            while is_alive(target) and time.monotonic() < deadline_s:
                time.sleep(_POLL_S)
    except ProcessGoneError:
        return []
    if is_alive(target):
        return [f"{target.name} (pid {target.pid}) does not die of SIGKILL; it hangs in the kernel"]
    return [f"killed {target.name} (pid {target.pid}), left over from a dead run"]
