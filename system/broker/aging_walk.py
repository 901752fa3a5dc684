"""The leader's walk over the partitions, in search of what is too old; changes nothing.

Only a leader walks, and what it finds goes into the log as a proposal (`Retain`), so the walk
itself need not be deterministic. A pass looks at the partitions of the queues that have a rule and
in which something can be due by now; once an hour it looks at all partitions (for what is
remembered of messages that are gone, and for idle partitions). A step looks at `VISITS_MAX`
partitions, so that a pass over a million of them never holds up anything else. What was found is
looked at again in the next step, because one proposal lets go of a bounded number of messages.
"""

from __future__ import annotations

from typing import Final

from .aging import cut, is_idle, next_due_us, old_dead_letters
from .aging_records import Retain
from .options import QueueOptions
from .partition import Partition
from .queue import Queue
from .state import State

VISITS_MAX: Final = 1024
STEP_US: Final = 100_000
"""Between two steps of one pass."""

REST_US: Final = 1_000_000
LONG_REST_US: Final = 5_000_000
"""Between two passes, the long one when a pass took more than one step."""

FULL_PASS_US: Final = 3600 * 1_000_000


class AgingWalk:
    """Where the search stands.

    Attributes:
        next_us: When to take the next step.
    """

    def __init__(self, state: State) -> None:
        self.next_us = 0
        self._state = state
        self._queues: list[str] = []
        self._queue: Queue | None = None
        self._found: tuple[str, ...] = ()
        self._dead: tuple[str, ...] = ()
        self._names: list[str] = []
        self._dues: dict[str, tuple[QueueOptions, int]] = {}
        self._due_us = 0
        self._next_full_us = 0
        self._is_full = False
        self._is_long = False

    def step(self, now_us: int) -> Retain | None:
        """Look at some partitions; None when nothing is due there, or it is not time yet."""
        if now_us < self.next_us:
            return None
        partitions, dead = self._unfinished(now_us)
        if self._queue is None and not self._queues:
            self._begin(now_us, dead)
        visits = len(partitions)
        while visits < VISITS_MAX and self._next_queue(now_us):
            visits += self._visit(VISITS_MAX - visits, now_us, partitions)
        self._found, self._dead = tuple(dict.fromkeys(partitions)), tuple(dict.fromkeys(dead))
        if self._queue is not None or self._queues:
            self._is_long = True
            self.next_us = now_us + STEP_US
        else:
            self.next_us = now_us + (LONG_REST_US if self._is_long else REST_US)
        if not self._found and not self._dead:
            return None
        self.next_us = now_us + STEP_US
        return Retain(self._found, self._dead)

    def _unfinished(self, now_us: int) -> tuple[list[str], list[str]]:
        """Partitions and queues found last time of which one proposal did not get hold."""
        state = self._state
        partitions = [
            partition_id
            for partition_id in self._found
            if (partition := state.partition_by_id(partition_id)) is not None
            and self._is_due(state.queues[partition.queue], partition, now_us)
        ]
        dead = [
            name
            for name in self._dead
            if (queue := state.queues.get(name)) is not None and old_dead_letters(queue, now_us, 1)
        ]
        return partitions, dead

    def _begin(self, now_us: int, dead: list[str]) -> None:
        """Begin a pass. Cost: the queues."""
        self._is_full = now_us >= self._next_full_us
        if self._is_full:
            self._next_full_us = now_us + FULL_PASS_US
            self._dues.clear()
        self._is_long = False
        self._queues = []
        for queue in self._state.queues.values():
            if not queue.options.ages and not self._is_full:
                continue
            if old_dead_letters(queue, now_us, 1):
                dead.append(queue.name)
            options, due_us = self._dues.get(queue.name, (None, 0))
            if options is not queue.options or due_us <= now_us:
                self._queues.append(queue.name)
        self._queues.reverse()

    def _next_queue(self, now_us: int) -> bool:
        """Go on with a queue, the one at hand or the next; False at the end of the pass."""
        while self._queue is None and self._queues:
            queue = self._state.queues.get(self._queues.pop())
            if queue is not None:
                self._queue = queue
                # What is pushed from now on, perhaps to new partitions, is not due before this.
                self._due_us = now_us + min(queue.options.age_min_us or FULL_PASS_US, FULL_PASS_US)
                self._names = list(queue.partitions)
                self._names.reverse()
        return self._queue is not None

    def _visit(self, visits_max: int, now_us: int, found: list[str]) -> int:
        queue = self._queue
        assert queue is not None
        visits = 0
        while self._names and visits < visits_max:
            partition = queue.partitions.get(self._names.pop())
            visits += 1
            if partition is None:
                continue
            due_us = next_due_us(partition, queue.options, now_us)
            if due_us is not None:
                self._due_us = min(self._due_us, due_us)
            if self._is_due(queue, partition, now_us):
                found.append(partition.partition_id)
        if not self._names:
            self._queue = None
            self._dues[queue.name] = (queue.options, self._due_us)
        return max(visits, 1)

    def _is_due(self, queue: Queue, partition: Partition, now_us: int) -> bool:
        options = queue.options
        if options.ages and cut(partition, options, now_us).start > partition.log_start:
            return True
        departed_us = partition.oldest_departed_us
        if departed_us is not None and departed_us < now_us - options.memory_us:
            return True
        return self._is_full and is_idle(partition, now_us)
