"""Pops that found nothing and wait, without a thread and without a log entry.

Pops of one queue, group and pinned partition wait in one lane, first come, first served. A change
of their queue wakes the first of each lane. Each woken pop that gets something wakes two more: a
burst of messages reaches all who can be served within a few rounds, and one message never wakes
a hundred pops of which ninety-nine would find nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

import trio

from ..broker.commands import Pop

Lane = tuple[str, str, str | None]

WAKES_PER_SUCCESS: Final = 2


class Verdict(Enum):
    """Why a parked pop goes on."""

    WAITING = "waiting"
    WOKEN = "woken"
    SENT_AWAY = "sent away"


def lane_of(command: Pop) -> Lane:
    """Where a pop waits."""
    return (command.queue, command.group, command.partition)


class ParkedPop:
    """One waiting pop.

    Attributes:
        command: What it asks for.
        moved: Set when `verdict` is no longer `WAITING`.
        verdict: What happened.
    """

    __slots__ = ("command", "moved", "verdict")

    def __init__(self, command: Pop) -> None:
        self.command = command
        self.moved = trio.Event()
        self.verdict = Verdict.WAITING


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

    def park(self, command: Pop, in_front: bool) -> ParkedPop:
        """Wait, behind all others, or before them for a pop that was woken for nothing."""
        parked = ParkedPop(command)
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

    def wake_queues(self, queues: Iterable[str], can_pop: Callable[[Pop], bool]) -> None:
        """Wake the first pop of each lane of these queues, where it can be served."""
        for queue in queues:
            for lane in list(self._lanes.get(queue, ())):
                self.wake_lane(lane, 1, can_pop)

    def wake_lane(self, lane: Lane, count: int, can_pop: Callable[[Pop], bool]) -> None:
        """Wake up to `count` pops of one lane, oldest first, while they can be served."""
        for _ in range(count):
            pops = self._lanes.get(lane[0], {}).get(lane)
            if not pops:
                return
            first = next(iter(pops))
            if not can_pop(first.command):
                return
            self._move(first, Verdict.WOKEN)

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
