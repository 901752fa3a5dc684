"""Who may wait in this node: a bound on requests and bytes, so that latency stays bounded too.

A request that finds no room is answered 429 at once, and nothing of it is applied. Pushes find
no room first: what settles messages makes room for everybody, and so may wait for longer.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from ..broker.administrative import AddTrace, ReplayDeadLetter
from ..broker.commands import (
    Ack,
    Command,
    Cycle,
    Pop,
    Push,
    ScheduleTimer,
    Timers,
    Transaction,
    TransactionPush,
)
from ..broker.kv_operations import Kv, KvPut
from ..http.answer import Answer, error_answer
from .counters import Counters
from .limits import NodeLimits

RESERVE_FACTOR: Final = 2
"""How much more than pushes the requests that make room may fill."""


def grows(command: Command) -> bool:
    """Whether a command stores payloads, rather than making room or changing little."""
    if isinstance(command, Push):
        return True
    if isinstance(command, Pop | Ack):
        return False
    if isinstance(command, Transaction):
        operations = (*command.operations, *command.timers, *command.kv)
        return any(isinstance(each, TransactionPush | ScheduleTimer | KvPut) for each in operations)
    if isinstance(command, Timers):
        return any(isinstance(each, ScheduleTimer) for each in command.operations)
    if isinstance(command, Kv):
        return any(isinstance(each, KvPut) for each in command.operations)
    if isinstance(command, Cycle):
        return bool(command.push_items) or any(row.value is not None for row in command.state_ops)
    return isinstance(command, AddTrace | ReplayDeadLetter)


def overloaded_answer() -> Answer:
    """429: nothing was applied, and a little later there is room again."""
    text = "more requests wait in this node than it may hold"
    return error_answer(429, "overloaded", text, retry_after_s=1)


class Admission:
    """Counts the requests that wait here.

    Attributes:
        requests: How many.
        bytes: Their bodies.
    """

    def __init__(self, limits: NodeLimits, counters: Counters) -> None:
        self.requests = 0
        self.bytes = 0
        self._limits = limits
        self._counters = counters

    def has_room(self, requests: int, held_bytes: int, size: int, may_grow: bool) -> bool:
        """Whether one more may wait beside so many requests and bytes."""
        factor = 1 if may_grow else RESERVE_FACTOR
        fits = not held_bytes or held_bytes + size <= factor * self._limits.waiting_bytes_max
        return fits and requests < factor * self._limits.waiting_requests_max

    def enter(self, size: int, may_grow: bool) -> bool:
        """Take a place, which must be left again; False when there is none."""
        if not self.has_room(self.requests, self.bytes, size, may_grow):
            self._counters.refused_overload += 1
            return False
        self.requests += 1
        self.bytes += size
        return True

    def leave(self, size: int) -> None:
        """Give a place back."""
        self.requests -= 1
        self.bytes -= size

    def place(self, size: int, may_grow: bool) -> Place:
        """Hold a place for as long as the block runs; gives False when there is none."""
        return Place(self, size, may_grow)


class Place:
    """Room for one request, as a context manager."""

    __slots__ = ("_admission", "_is_held", "_may_grow", "_size")

    def __init__(self, admission: Admission, size: int, may_grow: bool) -> None:
        self._admission = admission
        self._size = size
        self._may_grow = may_grow
        self._is_held = False

    def __enter__(self) -> bool:
        """Take the room, if there is any."""
        self._is_held = self._admission.enter(self._size, self._may_grow)
        return self._is_held

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back."""
        if self._is_held:
            self._admission.leave(self._size)
