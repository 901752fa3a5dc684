"""A planner that only planted defects use: it stamps by its node's time of day."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from ..broker.commands import Batch, Command, encode_batch
from ..broker.planner import Planner
from ..bugs import Bugs

DEFECTS = frozenset({"lease-by-time-of-day", "stamp-goes-back"})


class OwnClockPlanner(Planner):
    """Under `lease-by-time-of-day` stamps follow this node's time of day, and still only rise.

    Under `stamp-goes-back` they follow it backwards, too.
    """

    def __init__(
        self,
        entropy: Callable[[int], bytes],
        last_us: int,
        wall_us: Callable[[], int],
        bugs: Bugs,
    ) -> None:
        super().__init__(entropy, last_us)
        self._wall_us = wall_us
        self._may_go_back = "stamp-goes-back" in bugs

    def plan(self, clock_us: int, commands: Sequence[Command]) -> bytes:  # noqa: ARG002
        """See `Planner.plan`; the clock of all nodes is not asked."""
        if not self._may_go_back:
            return super().plan(self._wall_us(), commands)
        self.last_us = self._wall_us()
        return encode_batch(Batch(self.last_us, self._entropy(8), tuple(commands)))


def planner_for(last_us: int, time_of_day_us: Callable[[], int], bugs: Bugs) -> Planner:
    """Return the planner of a new leader, after the last stamp that was applied."""
    if bugs.isdisjoint(DEFECTS):
        return Planner(os.urandom, last_us)
    return OwnClockPlanner(os.urandom, last_us, time_of_day_us, bugs)
