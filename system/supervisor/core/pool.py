"""The pool: when each slot starts a worker, and the circuit that stops a crash loop."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from ...bugs import NO_BUGS, Bugs
from .exits import Exit

CRASH_LIMIT: Final = 5
_NO_VERDICT: Final = (Exit.TIMEOUT, Exit.STOPPED, Exit.KILLED)


class Circuit(StrEnum):
    """`CLOSED` lets workers start, `OPEN` none, `PROBING` watches one."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """How a pool restarts its workers.

    Attributes:
        backoff_us: Delay after the first crash in a row; each further one doubles it.
        backoff_max_us: The longest delay, and how long an open circuit waits before a probe.
        stable_after_us: A worker that ran this long is healthy: its end counts as no crash, and
            a probe that reaches it closes the circuit.
    """

    backoff_us: int
    backoff_max_us: int
    stable_after_us: int

    def delay_us(self, crashes: int) -> int:
        """Return the delay after the `crashes`-th crash in a row, `crashes` >= 1."""
        return min(self.backoff_us << (crashes - 1), self.backoff_max_us)


@dataclass(slots=True)
class _Slot:
    """One place of the pool: empty until `due_us`, then starting, then running."""

    due_us: int
    starting: bool = False
    started_us: int | None = None
    closing: bool = False

    @property
    def is_vacant(self) -> bool:
        return not self.starting and self.started_us is None

    @property
    def is_empty(self) -> bool:
        return self.is_vacant and not self.closing


@dataclass(slots=True)
class Pool:
    """Slots, one worker each; a slot that closes takes no other worker, and may be opened again.

    Crashes are counted over the pool, not by slot. Five in a row open the circuit; then one
    worker at a time is tried, and only that probe can close it, by running `stable_after_us` or
    by ending cleanly. While the circuit is not closed the other workers' ends count for nothing.

    Attributes:
        workers: Number of slots at first.
        policy: Delays and bounds.
        circuit: State of the circuit.
        crashes: Crashes in a row.
        bugs: Planted defects; `circuit-closed-by-sibling` lives here.
    """

    workers: int
    policy: RestartPolicy
    circuit: Circuit = Circuit.CLOSED
    crashes: int = 0
    bugs: Bugs = NO_BUGS
    _slots: list[_Slot] = field(init=False)
    _last_crash_us: int | None = None
    _probe: int | None = None
    _probe_due_us: int = 0

    def __post_init__(self) -> None:
        self._slots = [_Slot(due_us=0) for _ in range(self.workers)]

    @property
    def active(self) -> int:
        """How many slots are open, with a worker or waiting for one."""
        return sum(not slot.closing for slot in self._slots)

    @property
    def draining(self) -> int:
        """How many slots close with the worker that they still have."""
        return sum(slot.closing and not slot.is_vacant for slot in self._slots)

    def vacant(self) -> tuple[int, ...]:
        """Return the open slots that no worker has and none is starting for."""
        return tuple(n for n, slot in enumerate(self._slots) if slot.is_empty)

    def open(self, now_us: int) -> int:
        """Open one more slot, due at once; return it."""
        for n, slot in enumerate(self._slots):
            if slot.closing and slot.is_vacant:
                slot.closing, slot.due_us = False, now_us
                return n
        self._slots.append(_Slot(due_us=now_us))
        return len(self._slots) - 1

    def close(self, slot: int) -> None:
        """Close a slot: when its worker ends, no other one starts."""
        self._slots[slot].closing = True

    def is_closing(self, slot: int) -> bool:
        """Tell whether a slot takes no other worker."""
        return self._slots[slot].closing

    def due(self, now_us: int) -> tuple[int, ...]:
        """Return the slots to start now; each must be answered by `started` or `start_failed`."""
        self._close_if_stable(now_us)
        empty = [n for n, slot in enumerate(self._slots) if slot.is_empty]
        if self.circuit is Circuit.CLOSED:
            due = [n for n in empty if self._slots[n].due_us <= now_us]
        elif self.circuit is Circuit.OPEN and now_us >= self._probe_due_us and empty:
            due = empty[:1]
            self.circuit, self._probe = Circuit.PROBING, due[0]
        else:
            due = []
        for n in due:
            self._slots[n].starting = True
        return tuple(due)

    def next_us(self) -> int | None:
        """Return when `due` should be called next, or None while only an event can matter."""
        if self.circuit is Circuit.PROBING:
            started_us = self._probe_started_us()
            return None if started_us is None else started_us + self.policy.stable_after_us
        empty = [slot.due_us for slot in self._slots if slot.is_empty]
        if not empty:
            return None
        return min(empty) if self.circuit is Circuit.CLOSED else self._probe_due_us

    def started(self, slot: int, now_us: int) -> None:
        """Note that the slot's worker runs."""
        state = self._slots[slot]
        assert state.starting, f"slot {slot} was not starting: {state}"
        state.starting, state.started_us = False, now_us

    def start_failed(self, slot: int, now_us: int) -> None:
        """Note that the slot's worker could not be started: counted as a crash."""
        state = self._slots[slot]
        assert state.starting, f"slot {slot} was not starting: {state}"
        state.starting, state.started_us = False, now_us
        self.ended(slot, Exit.CRASH, now_us)

    def ended(self, slot: int, exit_kind: Exit, now_us: int) -> None:
        """Note that the slot's worker ended, and decide when the slot starts again."""
        self._close_if_stable(now_us)
        state = self._slots[slot]
        assert state.started_us is not None, f"slot {slot} had no worker: {state}"
        ran_us = now_us - state.started_us
        state.started_us, state.due_us = None, now_us
        if self._probe == slot:
            self._probe_ended(exit_kind, now_us)
        elif self.circuit is not Circuit.CLOSED:
            if "circuit-closed-by-sibling" in self.bugs and exit_kind is not Exit.CRASH:
                self._close(now_us)
        elif exit_kind in (Exit.CLEAN, Exit.RECYCLE) or ran_us >= self.policy.stable_after_us:
            self._reset()
        elif exit_kind is Exit.CRASH:
            self._crashed(state, now_us)

    def _crashed(self, slot: _Slot, now_us: int) -> None:
        last_us = self._last_crash_us
        if last_us is not None and now_us - last_us >= self.policy.stable_after_us:
            self.crashes = 0
        self.crashes += 1
        self._last_crash_us = now_us
        if self.crashes >= CRASH_LIMIT:
            self._open(now_us + self.policy.backoff_max_us)
        else:
            slot.due_us = now_us + self.policy.delay_us(self.crashes)

    def _probe_ended(self, exit_kind: Exit, now_us: int) -> None:
        if exit_kind in (Exit.CLEAN, Exit.RECYCLE):
            self._close(now_us)
        elif exit_kind in _NO_VERDICT:
            self._open(now_us)
        else:
            self._open(now_us + self.policy.backoff_max_us)

    def _close_if_stable(self, now_us: int) -> None:
        started_us = self._probe_started_us()
        if started_us is not None and now_us - started_us >= self.policy.stable_after_us:
            self._close(now_us)

    def _probe_started_us(self) -> int | None:
        return None if self._probe is None else self._slots[self._probe].started_us

    def _open(self, probe_due_us: int) -> None:
        self.circuit, self._probe, self._probe_due_us = Circuit.OPEN, None, probe_due_us

    def _close(self, now_us: int) -> None:
        self.circuit, self._probe = Circuit.CLOSED, None
        self._reset()
        for slot in self._slots:
            slot.due_us = min(slot.due_us, now_us)

    def _reset(self) -> None:
        self.crashes, self._last_crash_us = 0, None
