"""Pops that found nothing and wait, without a thread and without a log entry.

Pops of one queue, group and pinned partition wait in one lane, first come, first served. Whoever
proposes the claim of the first takes it out of its lane (see `claiming`): one message never moves a
hundred pops of which ninety-nine would find nothing.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from enum import Enum

from ..broker.commands import Pop
from .bell import Bell
from .proposals import Waiter

Lane = tuple[str, str, str | None]


class Verdict(Enum):
    """Why a parked pop goes on."""

    WAITING = "waiting"
    TAKEN = "taken"
    WOKEN = "woken"
    SENT_AWAY = "sent away"


def lane_of(command: Pop) -> Lane:
    """Where a pop waits."""
    return (command.queue, command.group, command.partition)


class ParkedPop:
    """One waiting pop.

    Attributes:
        command: What it asks for.
        claims_until: From then on it claims nothing any more, by trio's clock.
        is_withdrawn: Whether whoever asks waits no longer.
        moved: Set when there is an outcome; when `TAKEN`, once that of `waiter` is known.
        verdict: What happened.
        waiter: Its claim, when `TAKEN`.
        on_claimed: Called at the outcome of `waiter`, before `moved` is set; must not await.
    """

    __slots__ = (
        "claims_until",
        "command",
        "is_withdrawn",
        "moved",
        "on_claimed",
        "verdict",
        "waiter",
    )

    def __init__(self, command: Pop, claims_until: float, is_withdrawn: Callable[[], bool]) -> None:
        self.command = command
        self.claims_until = claims_until
        self.is_withdrawn = is_withdrawn
        self.moved = Bell()
        self.verdict = Verdict.WAITING
        self.waiter: Waiter | None = None
        self.on_claimed: Callable[[], None] = lambda: None


class ParkingLot:
    """All parked pops of a leader."""

    def __init__(self) -> None:
        self._lanes: dict[str, dict[Lane, OrderedDict[ParkedPop, None]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def waiting(self, command: Pop) -> int:
        """How many pops wait in this command's lane."""
        lane = lane_of(command)
        return len(self._lanes.get(lane[0], {}).get(lane, ()))

    def by_queue(self) -> dict[str, int]:
        """How many pops wait for each queue. Cost: the lanes."""
        return {
            queue: sum(len(pops) for pops in lanes.values()) for queue, lanes in self._lanes.items()
        }

    def park(
        self,
        command: Pop,
        in_front: bool,
        claims_until: float = math.inf,
        is_withdrawn: Callable[[], bool] = lambda: False,
    ) -> ParkedPop:
        """Wait, behind all others, or before them for a pop that was moved for nothing."""
        parked = ParkedPop(command, claims_until, is_withdrawn)
        lane = lane_of(command)
        pops = self._lanes.setdefault(lane[0], {}).setdefault(lane, OrderedDict())
        pops[parked] = None
        if in_front:
            pops.move_to_end(parked, last=False)
        self._count += 1
        return parked

    def leave(self, parked: ParkedPop) -> None:
        """Stop waiting; fine if it does not wait any longer."""
        if parked.verdict is Verdict.WAITING:
            self._remove(parked)

    def lanes(self, queue: str) -> list[Lane]:
        """The lanes in which somebody waits for a queue."""
        return list(self._lanes.get(queue, ()))

    def first(self, lane: Lane) -> ParkedPop | None:
        """Who waits in a lane for longest."""
        pops = self._lanes.get(lane[0], {}).get(lane)
        return next(iter(pops)) if pops else None

    def take(self, parked: ParkedPop) -> None:
        """Its claim is to be proposed; the caller sets `waiter`, and `moved` at the outcome."""
        self._remove(parked)
        parked.verdict = Verdict.TAKEN

    def wake(self, parked: ParkedPop) -> None:
        """It is to look for itself what it can still get."""
        self._move(parked, Verdict.WOKEN)

    def send_all_away(self) -> None:
        """End every wait; this node serves no pops any longer."""
        for lanes in list(self._lanes.values()):
            for pops in list(lanes.values()):
                for parked in list(pops):
                    self._move(parked, Verdict.SENT_AWAY)

    def _move(self, parked: ParkedPop, verdict: Verdict) -> None:
        self._remove(parked)
        parked.verdict = verdict
        parked.moved.set()

    def _remove(self, parked: ParkedPop) -> None:
        lane = lane_of(parked.command)
        lanes = self._lanes[lane[0]]
        del lanes[lane][parked]
        self._count -= 1
        if not lanes[lane]:
            del lanes[lane]
            if not lanes:
                del self._lanes[lane[0]]
