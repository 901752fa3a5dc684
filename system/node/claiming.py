"""Pops on their way into the log: as many as will find something, and no more.

A pop enters the log when more is ready than the pops before it will take. A parked pop's claim is
proposed by whatever made it possible, in one entry with that where it can be: a push brings the
claim of what it stores along. It is answered where the outcome becomes known, before its own task
goes on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

import msgspec
import trio

from ..broker.commands import Pop, Push
from ..broker.machine import Machine
from .parking import Lane, ParkedPop, ParkingLot, lane_of
from .proposals import Proposals, Waiter

SMALL_COMMAND_BYTES: Final = 256

_Promise = tuple[Lane, str]


class Claiming:
    """Proposes pops; see the module.

    Args:
        machine: Knows what is ready.
        proposals: Where they enter the log.
        lot: Pops that wait.
        stamp_us: Tells the machine's time.
        forgets_askers: Planted: claims for those who have hung up, too.
    """

    def __init__(
        self,
        machine: Machine,
        proposals: Proposals,
        lot: ParkingLot,
        stamp_us: Callable[[], int],
        forgets_askers: bool,
    ) -> None:
        self._machine = machine
        self._proposals = proposals
        self._lot = lot
        self._stamp_us = stamp_us
        self._forgets_askers = forgets_askers
        self._ahead: Counter[Lane] = Counter()
        self._promised: set[_Promise] = set()

    def may_claim(self, command: Pop) -> bool:
        """Whether a pop would find something, also behind those that are on their way."""
        ahead = self._ahead[lane_of(command)] if self._ahead else 0
        return self._machine.can_pop_behind(command, ahead, self._stamp_us())

    def claim(self, command: Pop) -> Waiter:
        """Propose a pop."""
        waiter = self._gather(command)
        self._proposals.flush()
        return waiter

    def serve_queues(self, queues: Iterable[str]) -> None:
        """Propose the waiting pops of these queues that would find something."""
        for queue in queues:
            for lane in self._lot.lanes(queue):
                self._serve(lane)
        self._proposals.flush()

    def serve_lane(self, lane: Lane) -> None:
        """Propose the waiting pops of one lane that would find something."""
        if self._lot.first(lane) is not None:
            self._serve(lane)
            self._proposals.flush()

    def follow(self, push: Push) -> None:
        """Gather waiting pops behind a push that is gathered, for what it will make ready."""
        for queue in {item.queue for item in push.items}:
            for lane in self._lot.lanes(queue):
                self._follow(push, lane)

    def _follow(self, push: Push, lane: Lane) -> None:
        first = self._next(lane)
        if first is None:
            return
        for name in self._machine.partitions_made_ready(push, first.command, self._stamp_us()):
            promise = (lane, name)
            parked = self._next(lane)
            if parked is None:
                return
            if promise not in self._promised:
                self._promised.add(promise)
                self._claim_parked(parked, partial(self._promised.discard, promise))

    def _serve(self, lane: Lane) -> None:
        while (parked := self._next(lane)) is not None and self.may_claim(parked.command):
            self._ahead[lane] += 1
            self._claim_parked(parked, partial(self._applied, lane))
            if lane[2] is not None or not lane[0]:
                # How many could be served is not counted here: the next one goes behind this one.
                return

    def _next(self, lane: Lane) -> ParkedPop | None:
        """The first pop in a lane that may still be given something; who is late goes on alone."""
        while (parked := self._lot.first(lane)) is not None:
            is_late = trio.current_time() > parked.claims_until
            if not is_late and (self._forgets_askers or not parked.is_withdrawn()):
                return parked
            self._lot.wake(parked)
        return None

    def _claim_parked(self, parked: ParkedPop, on_end: Callable[[], None]) -> None:
        def end() -> None:
            on_end()
            parked.on_claimed()
            parked.moved.set()

        command = self._share(parked.command)
        self._lot.take(parked)
        parked.waiter = self._proposals.gather(command, SMALL_COMMAND_BYTES, end)

    def _gather(self, command: Pop) -> Waiter:
        lane = lane_of(command)
        self._ahead[lane] += 1
        on_end = partial(self._applied, lane)
        return self._proposals.gather(self._share(command), SMALL_COMMAND_BYTES, on_end)

    def _applied(self, lane: Lane) -> None:
        self._ahead[lane] -= 1
        if not self._ahead[lane]:
            del self._ahead[lane]

    def _share(self, command: Pop) -> Pop:
        if not command.autopilot:
            return command
        return msgspec.structs.replace(command, waiting=1 + self._lot.waiting(command))
