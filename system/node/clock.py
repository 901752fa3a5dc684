"""The two times that a node's cores are told, both in microseconds."""

from __future__ import annotations

import trio


class NodeClock:
    """Reads trio's clock, so that a test's virtual time moves everything.

    Args:
        wall_us: UTC now. The broker's time starts there and then advances with the monotonic
            clock, so a jump of the time of day moves no lease.
    """

    def __init__(self, wall_us: int) -> None:
        self._offset_us = wall_us - self.now_us()

    def now_us(self) -> int:
        """Time that never goes back, from an unknown origin: what the raft core is told."""
        return int(trio.current_time() * 1_000_000)

    def broker_us(self) -> int:
        """UTC as this node believes it: what a leader's planner is told."""
        return self.now_us() + self._offset_us

    def trio_time(self, now_us: int) -> float:
        """The instant of trio's clock at which `now_us()` has reached `now_us`."""
        return (now_us + 1) / 1_000_000

    def trio_time_of_broker(self, broker_us: int) -> float:
        """The instant of trio's clock at which `broker_us()` has reached `broker_us`."""
        return self.trio_time(broker_us - self._offset_us)
