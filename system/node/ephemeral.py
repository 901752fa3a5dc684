"""Ephemeral queues at the leader: their messages live in its memory, and die with its leadership.

Every node sends requests for them to the leader, as all others. A new leader begins with what was
declared, empty, and under a new epoch, so that acks of what the last one delivered are `stale`.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import trio

from ..broker.machine import Machine
from ..broker.ring_actions import (
    AckRing,
    DeleteRing,
    ListRings,
    PopRing,
    PushRing,
    ResetRing,
    RingDepth,
)
from ..broker.rings import Rings
from ..http import render_ephemeral
from ..http.routes import Answer, RingRequest
from .asker import Asker
from .leadership import Leadership

_ROUNDING_S = 0.001


class EphemeralDesk:
    """Serves ephemeral queues while this node leads.

    Args:
        machine: Knows what is declared.
        leadership: Who leads.
    """

    def __init__(self, machine: Machine, leadership: Leadership) -> None:
        self._machine = machine
        self._leadership = leadership
        self._rings: Rings | None = None
        self._term = 0
        self._waiting: dict[str, set[trio.Event]] = {}

    def rings(self) -> Rings:
        """What this leadership holds."""
        if self._rings is None or self._term != self._leadership.term:
            self._term = self._leadership.term
            self._rings = Rings(os.urandom(6).hex(), self._machine.declared_rings)
        return self._rings

    def close(self) -> None:
        """This node leads no longer: all is gone, and who waits is to ask the next leader."""
        self._rings = None
        for events in self._waiting.values():
            for event in events:
                event.set()

    def sweep(self, now_us: int) -> None:
        """Drop what is too old or unused, now and then."""
        if self._rings is not None:
            self._rings.sweep(now_us)

    def act(self, request: RingRequest, now_us: int) -> Answer:
        """Carry out what needs no waiting; a deletion leaves the declaration to the caller."""
        rings, action = self.rings(), request.action
        match action:
            case PushRing():
                pushed = rings.push(action.queue, action.partition, action.payloads, now_us)
                if pushed.pushed:
                    self._wake(action.queue)
                return render_ephemeral.pushed(pushed)
            case PopRing():
                return self._take(action, now_us)
            case AckRing():
                outcomes = [
                    (name, rings.ack(action.queue, action.group, name, completes, now_us))
                    for name, completes in action.acks
                ]
                if any(outcome == "redelivered" for _, outcome in outcomes):
                    self._wake(action.queue)
                return render_ephemeral.acked(outcomes)
            case ResetRing():
                return render_ephemeral.was_reset(action.queue, rings.reset(action.queue))
            case DeleteRing():
                return render_ephemeral.deleted(action.queue, rings.remove(action.queue), False)
            case ListRings():
                found = [rings.gauges(name, now_us) for name in rings.names()]
                gauges = [each for each in found if each is not None]
                return render_ephemeral.listed(gauges, rings.held_bytes)
            case RingDepth():
                known = rings.gauges(action.queue, now_us)
                group = action.group
                rows = known.partitions if known is not None and group is None else ()
                if group is not None:
                    rows = rings.pending(action.queue, group)
                return render_ephemeral.depth(known, group, rows)

    async def pop(
        self, request: RingRequest, asker: Asker, deadline: float, stamp_us: Callable[[], int]
    ) -> Answer | None:
        """Wait for messages; None when this node does not lead any longer."""
        action = request.action
        assert isinstance(action, PopRing), f"{type(action).__name__} does not wait"
        found_at: float | None = None
        while self._leadership.is_serving:
            now_us, now = stamp_us(), trio.current_time()
            rings = self.rings()
            ready = rings.ready(action.queue, action.partition, action.group, now_us)
            window = rings.options(action.queue).window
            if ready and found_at is None:
                found_at = now
            ends = deadline if found_at is None else min(deadline, found_at + window.ms / 1000)
            is_over = asker.impatient or now >= ends
            if (ready and is_over) or ready >= max(1, min(action.batch, window.count)):
                return (
                    render_ephemeral.popped(action.queue, [])
                    if asker.gone
                    else self._take(action, now_us)
                )
            if is_over and found_at is None:
                return render_ephemeral.popped(action.queue, [])
            if not ready:
                found_at = None
                ends = deadline
                due_us = rings.next_due_us(action.queue, action.partition, action.group)
                if due_us is not None:
                    ends = min(ends, now + max(0, due_us - now_us) / 1_000_000 + _ROUNDING_S)
            await self._hold(action.queue, asker, ends)
        return None

    async def _hold(self, queue: str, asker: Asker, until: float) -> None:
        event = trio.Event()
        events = self._waiting.setdefault(queue, set())
        events.add(event)
        try:
            await asker.hold(event, until)
        finally:
            events.discard(event)
            if not events and self._waiting.get(queue) is events:
                del self._waiting[queue]

    def _take(self, action: PopRing, now_us: int) -> Answer:
        rings = self.rings()
        taken = rings.pop(
            action.queue, action.partition, action.group, action.batch, action.is_final, now_us
        )
        return render_ephemeral.popped(
            action.queue, [(rings.id_of(message), message) for message in taken]
        )

    def _wake(self, queue: str) -> None:
        for event in self._waiting.get(queue, ()):
            event.set()
