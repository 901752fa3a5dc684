"""When time alone makes something ready on a serving leader: timers, leases, holds."""

from __future__ import annotations

import math
from typing import Final

import trio

from ..broker.machine import Machine
from .clock import NodeClock
from .desk import LeaderDesk
from .leadership import Leadership

_FIRING_PAUSE_S: Final = 0.02


class DueAlarm:
    """Wakes the desk at the next instant at which something is due."""

    def __init__(
        self, machine: Machine, desk: LeaderDesk, leadership: Leadership, clock: NodeClock
    ) -> None:
        self._machine = machine
        self._desk = desk
        self._leadership = leadership
        self._clock = clock
        self._scope: trio.CancelScope | None = None

    async def run(self) -> None:
        """Wake the desk, until cancelled."""
        while True:
            with trio.CancelScope(deadline=self._next_due()) as self._scope:
                await trio.sleep_forever()
            self._scope = None
            if self._leadership.is_serving:
                self._desk.attend_time()

    def bring_forward(self) -> None:
        """Something may be due earlier than was known."""
        if self._scope is not None:
            at = self._next_due()
            if at < self._scope.deadline:
                self._scope.deadline = at

    def _next_due(self) -> float:
        if not self._leadership.is_serving:
            return math.inf
        if self._desk.is_firing:
            return trio.current_time() + _FIRING_PAUSE_S
        due_us = self._machine.next_due_us(self._desk.stamp_us())
        return math.inf if due_us is None else self._clock.trio_time_of_broker(due_us)
