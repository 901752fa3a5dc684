"""How long completed payloads stay in memory.

The state of this broker lives in memory. A message is *completed* in a partition once every cursor
there has passed it. Completed messages stay readable (fetch, a new group from the beginning) until
all completed payloads of the machine together exceed a budget; then the partition whose messages
were completed first lets go of them, and its log start moves up. Transaction ids outlive payloads
for the queue's dedup window, 15 minutes at least. Messages that some cursor has not passed, and
partitions that no group has ever touched, are never let go. For retention by time see `aging`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from .partition import Partition

COMPLETED_BYTES_MAX: Final = 64 << 20
MESSAGE_BYTES: Final = 512
"""Counted for each completed message beside its payload."""


class Retention:
    """The queue of completed messages, oldest completion first.

    Attributes:
        completed_bytes: What they weigh now.
    """

    __slots__ = ("_budget", "_completed", "completed_bytes")

    def __init__(self, budget: int = COMPLETED_BYTES_MAX) -> None:
        self._budget = budget
        self._completed: deque[tuple[Partition, int, int]] = deque()
        self.completed_bytes = 0

    def note(self, partition: Partition, now_us: int, memory_us: int) -> None:
        """A cursor of the partition has moved. Cost: its groups plus the messages completed."""
        through = _passed_by_all(partition)
        first = max(partition.completed, partition.log_start)
        if through > first:
            run = partition.slice(first, through - first)
            weight = sum(len(message.payload) + MESSAGE_BYTES for message in run)
            self._completed.append((partition, through, weight))
            self.completed_bytes += weight
            partition.completed = through
        while self.completed_bytes > self._budget:
            self._let_go()
        partition.forget(now_us - memory_us)

    def release(self, partition: Partition) -> None:
        """The partition is deleted."""
        kept: deque[tuple[Partition, int, int]] = deque()
        for entry in self._completed:
            if entry[0] is partition:
                self.completed_bytes -= entry[2]
            else:
                kept.append(entry)
        self._completed = kept

    def _let_go(self) -> None:
        partition, to, weight = self._completed.popleft()
        self.completed_bytes -= weight
        through = _passed_by_all(partition)
        if through < to:
            # A group that came later has not read them yet; it notes them again when it has.
            partition.completed = min(partition.completed, through)
        partition.trim(min(to, through))


def _passed_by_all(partition: Partition) -> int:
    cursors = partition.cursors
    if not cursors:
        # Its groups are deleted: whoever comes next may read everything that is still there.
        return partition.log_start
    if len(cursors) == 1:
        return cursors[0].position.committed + 1
    return min(cursor.position.committed for cursor in cursors) + 1
