"""How long completed messages stay in the log.

A message is *completed* in a partition once every cursor there has passed it. Completed messages
stay readable (fetch, a new group from the beginning) until
all completed messages of the machine together exceed a budget; then the partition whose messages
were completed first lets go of them, and its log start moves up. Transaction ids outlive messages
for the queue's dedup window, 15 minutes at least. Messages that some cursor has not passed, and
partitions that no group has ever touched, are never let go. For retention by time see `aging`.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import msgspec

from .changes import Changes, Dirty
from .partition import Partition

COMPLETED_BYTES_MAX: Final = 64 << 20
MESSAGE_BYTES: Final = 512
"""Counted for each completed message beside its payload."""


class Completion(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Messages of a partition that were completed together: those below `through`."""

    number: int
    partition: Partition
    through: int
    weight: int


class Retention:
    """The queue of completed messages, oldest completion first.

    Attributes:
        completed_bytes: What they weigh now.
        changed: By a rising number that only orders them.
    """

    __slots__ = ("_budget", "_changes", "_completed", "_last", "changed", "completed_bytes")

    def __init__(self, changes: Changes, budget: int = COMPLETED_BYTES_MAX) -> None:
        self._budget = budget
        self._changes = changes
        self._last = 0
        self._completed: deque[Completion] = deque()
        self.changed: Dirty[int, Completion] = Dirty()
        self.completed_bytes = 0

    def note(self, partition: Partition, now_us: int, memory_us: int) -> None:
        """A cursor of the partition has moved. Cost: its groups plus the runs completed."""
        through = _passed_by_all(partition)
        first = max(partition.completed, partition.log_start)
        if through > first:
            weight = partition.weight(first, through) + MESSAGE_BYTES * (through - first)
            completion = Completion(self._last + 1, partition, through, weight)
            self.put(completion)
            self.changed.add(completion.number, completion)
            partition.completed = through
            self._changes.partitions.change(partition.number, partition)
        while self.completed_bytes > self._budget:
            self._let_go()
        for run in partition.forget(now_us - memory_us):
            self._changes.forgotten(partition, run)

    def put(self, completion: Completion) -> None:
        """Count a completion behind all others."""
        self._last = completion.number
        self._completed.append(completion)
        self.completed_bytes += completion.weight

    def release(self, partitions: set[Partition]) -> None:
        """The partitions are deleted. Cost: all completions."""
        kept: deque[Completion] = deque()
        for completion in self._completed:
            if completion.partition in partitions:
                self.completed_bytes -= completion.weight
                self.changed.drop(completion.number)
            else:
                kept.append(completion)
        self._completed = kept

    def _let_go(self) -> None:
        completion = self._completed.popleft()
        partition, to = completion.partition, completion.through
        self.changed.drop(completion.number)
        self.completed_bytes -= completion.weight
        through = _passed_by_all(partition)
        if through < to:
            # A group that came later has not read them yet; it notes them again when it has.
            partition.completed = min(partition.completed, through)
        for run in partition.trim(min(to, through)):
            self._changes.departed(partition, run)
        self._changes.partitions.change(partition.number, partition)


def _passed_by_all(partition: Partition) -> int:
    cursors = partition.cursors
    if not cursors:
        # Its groups are deleted: whoever comes next may read everything that is still there.
        return partition.log_start
    if len(cursors) == 1:
        return cursors[0].position.committed + 1
    return min(cursor.position.committed for cursor in cursors) + 1
