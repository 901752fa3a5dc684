"""What a node may hold, and when its disk counts as full."""

from __future__ import annotations

from typing import Final

import msgspec

_GIB: Final = 1 << 30


class NodeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Bounds of one node; all of them are settings.

    Attributes:
        waiting_requests_max: Requests that wait in the node for their outcome; one more push is
            answered 429. What gives room (acks, extends, deletes, reads) may fill twice as much.
        waiting_bytes_max: The same for their bodies, in bytes; a single one always has room.
        receiving_bytes_max: Bodies that are still arriving, in bytes; the request that grows beyond
            it is answered 429 and its connection closed.
        connections_max: Client connections; one more is answered 429 and closed.
        disk_high_percent: Used space from which on pushes are answered 507; 100 never.
        disk_low_percent: Used space from which down they are taken again.
        disk_enough_bytes: With this much free, the file system counts as not full, whatever the
            percentage.
        data_bytes_max: A budget for the data folder; the percentages then count of it, and not
            of the file system. None for no budget.
    """

    waiting_requests_max: int = 1024
    waiting_bytes_max: int = 64 << 20
    receiving_bytes_max: int = 256 << 20
    connections_max: int = 1024
    disk_high_percent: float = 85.0
    disk_low_percent: float = 80.0
    disk_enough_bytes: int = 8 * _GIB
    data_bytes_max: int | None = None

    def trouble(self) -> str | None:
        """What is wrong with the values, if anything is."""
        for name in (
            "waiting_requests_max",
            "waiting_bytes_max",
            "receiving_bytes_max",
            "connections_max",
        ):
            if getattr(self, name) < 1:
                return f"{name}: {getattr(self, name)} is less than 1"
        low, high = self.disk_low_percent, self.disk_high_percent
        if not 0 < low <= high <= 100:
            return (
                f"want 0 < disk_low_percent <= disk_high_percent <= 100, got {low:g} and {high:g}"
            )
        if self.disk_enough_bytes < 0:
            return f"disk_enough_bytes: {self.disk_enough_bytes} is negative"
        if self.data_bytes_max is not None and self.data_bytes_max < 1:
            return f"data_bytes_max: {self.data_bytes_max} is less than 1"
        return None


DEFAULT_LIMITS: Final = NodeLimits()
