"""The two times that a node's cores are told, both in microseconds.

Raft's time is trio's clock. The broker's time is the cluster's own: it begins at the first
leader's time of day and from then on is handed from leader to leader. A node follows it by the
stamps that it applies and by what the leader says once a second, and between these by its own
monotonic clock. Nobody's time of day can make it jump.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

SLEW_DIVISOR: Final = 200
"""A leader corrects the broker's time towards its time of day by 1/200 of the time that passes."""


class NodeClock:
    """Reads trio's clock, so that a test's virtual time moves everything.

    Args:
        start_us: The broker's time now, as this node believes it.
        wall_us: Reads the time of day, UTC; None when it must not matter.
        is_guess: Whether `start_us` is only this node's time of day: the first stamp of another
            node's then replaces it, also by an earlier one.

    Attributes:
        is_guess: Whether nothing has been heard yet of the cluster's own time.
    """

    def __init__(
        self, start_us: int, wall_us: Callable[[], int] | None = None, is_guess: bool = False
    ) -> None:
        self._wall_us = wall_us
        self.is_guess = is_guess
        self._offset_us = start_us - self.now_us()
        self._slewed_us = self.now_us()

    def now_us(self) -> int:
        """Time that never goes back, from an unknown origin: what the raft core is told."""
        return int(trio.current_time() * 1_000_000)

    def broker_us(self) -> int:
        """UTC as the cluster believes it: what a leader's planner is told."""
        return self.now_us() + self._offset_us

    def time_of_day_us(self) -> int:
        """What this node takes for the time of day, UTC; the broker's time if it has none."""
        return self.broker_us() if self._wall_us is None else self._wall_us()

    def observe(self, stamp_us: int, is_live: bool) -> None:
        """Take in the stamp of an applied entry: the broker's time is at least that.

        Args:
            stamp_us: The stamp.
            is_live: Whether the entry is new, and not from this node's log at its start.
        """
        if stamp_us > self.broker_us() or (self.is_guess and is_live):
            self.follow(stamp_us)

    def follow(self, broker_us: int) -> None:
        """Take over the leader's time, wherever it is."""
        self._offset_us = broker_us - self.now_us()
        self.is_guess = False

    def lead(self) -> None:
        """This node's time is the cluster's from now on."""
        self.is_guess = False
        self._slewed_us = self.now_us()

    def slew(self) -> None:
        """For a serving leader: come a little closer to the time of day (see `SLEW_DIVISOR`)."""
        now_us = self.now_us()
        passed_us, self._slewed_us = now_us - self._slewed_us, now_us
        if self._wall_us is not None:
            step_max_us = passed_us // SLEW_DIVISOR
            missing_us = self._wall_us() - self.broker_us()
            self._offset_us += max(-step_max_us, min(step_max_us, missing_us))

    def trio_time(self, now_us: int) -> float:
        """The instant of trio's clock at which `now_us()` has reached `now_us`."""
        return (now_us + 1) / 1_000_000

    def trio_time_of_broker(self, broker_us: int) -> float:
        """The instant of trio's clock at which `broker_us()` will have reached `broker_us`."""
        return self.trio_time(broker_us - self._offset_us)
