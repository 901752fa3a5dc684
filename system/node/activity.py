"""What a leader has done for each queue, minute by minute, for the analytics routes.

Kept in memory, for a day at most and never replicated: a new leader begins with nothing. Times are
the broker's, in UTC microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from ..broker.aging_records import Retain, RetainReply
from ..broker.commands import Ack, Command, Pop, Transaction, TransactionAck, TransactionPush
from ..broker.machine import Machine
from ..broker.replies import AckReply, PopReply, PushReply, Reply, TransactionReply

MINUTE_US: Final = 60 * 1_000_000
MINUTES_MAX: Final = 24 * 60
ROWS_MAX: Final = 50_000
"""Rows kept over all minutes; the oldest minutes go first."""


class Tally(msgspec.Struct, gc=False):
    """What was done for one queue in one minute, or in several together.

    Attributes:
        lag_ms: Sum of the ages of popped messages at their delivery.
        lag_ms_max: The highest of them.
        parked: Sum of samples of waiting pops.
        samples: How many samples.
        conflated: Messages that last-value delivery skipped.
        retained: Messages let go by `retentionSeconds`.
        completed: By `completedRetentionSeconds`.
        evicted: By `maxWaitTimeSeconds`.
        sweeps: Steps that let go of something.
    """

    push_requests: int = 0
    push_messages: int = 0
    pop_messages: int = 0
    pop_empty: int = 0
    ack_requests: int = 0
    ack_success: int = 0
    ack_failed: int = 0
    dead_lettered: int = 0
    transactions: int = 0
    conflated: int = 0
    partitions_deleted: int = 0
    lag_ms: int = 0
    lag_ms_max: int = 0
    parked: int = 0
    samples: int = 0
    retained: int = 0
    completed: int = 0
    evicted: int = 0
    sweeps: int = 0

    def add(self, other: Tally) -> None:
        """Count another tally in."""
        for name in self.__struct_fields__:
            if name == "lag_ms_max":
                self.lag_ms_max = max(self.lag_ms_max, other.lag_ms_max)
            else:
                setattr(self, name, getattr(self, name) + getattr(other, name))


class Activity:
    """Counts what this node serves as leader.

    Args:
        machine: Knows which queue a partition belongs to.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._minutes: deque[tuple[int, dict[str, Tally]]] = deque()
        self._rows = 0

    def clear(self) -> None:
        """Another node leads."""
        self._minutes.clear()
        self._rows = 0

    def note(self, command: Command, reply: Reply, now_us: int) -> None:
        """A command was carried out. Cost: its items."""
        if isinstance(reply, PushReply):
            self._push(reply, now_us)
        elif isinstance(reply, PopReply):
            self._pop(command, reply, now_us)
        elif isinstance(command, Ack) and isinstance(reply, AckReply):
            self._ack(command, reply, now_us)
        elif isinstance(command, Transaction) and isinstance(reply, TransactionReply):
            self._transaction(command, reply, now_us)
        elif isinstance(command, Retain) and isinstance(reply, RetainReply):
            for row in reply.queues:
                tally = self.tally(row.queue, now_us)
                tally.retained += row.retained
                tally.completed += row.completed
                tally.evicted += row.evicted
                tally.partitions_deleted += row.partitions
                tally.sweeps += 1

    def sample(self, parked: Mapping[str, int], now_us: int) -> None:
        """Take in how many pops wait for each queue, now and then."""
        for queue, count in parked.items():
            tally = self.tally(queue, now_us)
            tally.parked += count
            tally.samples += 1

    def tally(self, queue: str, now_us: int) -> Tally:
        """The row of a queue in the minute that an instant is in."""
        minute = now_us // MINUTE_US
        minutes = self._minutes
        if not minutes or minutes[-1][0] < minute:
            minutes.append((minute, {}))
            while minutes and (
                minutes[0][0] <= minute - MINUTES_MAX
                or (self._rows > ROWS_MAX and len(minutes) > 1)
            ):
                self._rows -= len(minutes.popleft()[1])
        rows = minutes[-1][1]
        tally = rows.get(queue)
        if tally is None:
            tally = rows[queue] = Tally()
            self._rows += 1
        return tally

    def between(self, from_us: int, to_us: int) -> Iterator[tuple[int, str, Tally]]:
        """(instant of the minute, queue, tally) of all minutes that begin in a range."""
        for minute, rows in self._minutes:
            if from_us <= minute * MINUTE_US <= to_us:
                for queue, tally in rows.items():
                    yield minute * MINUTE_US, queue, tally

    def _push(self, reply: PushReply, now_us: int) -> None:
        counts: dict[str, int] = {}
        for item in reply.items:
            counts[item.queue] = counts.get(item.queue, 0) + (item.status == "queued")
        for queue, count in counts.items():
            tally = self.tally(queue, now_us)
            tally.push_requests += 1
            tally.push_messages += count

    def _pop(self, command: Command, reply: PopReply, now_us: int) -> None:
        if not reply.runs:
            if isinstance(command, Pop) and command.queue:
                self.tally(command.queue, now_us).pop_empty += 1
            return
        for run in reply.runs:
            if not run.messages:
                continue
            tally = self.tally(run.queue, now_us)
            first_ms = max(0, now_us - run.messages[0].created_us) // 1000
            last_ms = max(0, now_us - run.messages[-1].created_us) // 1000
            tally.pop_messages += len(run.messages)
            # Ages fall from the first to the last message of a run.
            tally.lag_ms += (first_ms + last_ms) * len(run.messages) // 2
            tally.lag_ms_max = max(tally.lag_ms_max, first_ms)

    def _ack(self, command: Ack, reply: AckReply, now_us: int) -> None:
        counts: dict[str, list[int]] = {}
        for item, answer in zip(command.items, reply.items, strict=True):
            is_done = answer.success and item.status == "completed"
            row = counts.setdefault(item.partition_id, [0, 0, 0])
            row[0] += is_done
            row[1] += not is_done
            row[2] += answer.dlq
        for partition_id, (done, failed, dead) in counts.items():
            queue = self._machine.queue_of(partition_id)
            if queue is not None:
                tally = self.tally(queue, now_us)
                tally.ack_requests += 1
                tally.ack_success += done
                tally.ack_failed += failed
                tally.dead_lettered += dead

    def _transaction(self, command: Transaction, reply: TransactionReply, now_us: int) -> None:
        if reply.reason:
            return
        touched: set[str] = set()
        for operation in command.operations:
            queue: str | None = None
            if isinstance(operation, TransactionPush):
                queue = operation.item.queue
                self.tally(queue, now_us).push_messages += 1
            elif isinstance(operation, TransactionAck):
                queue = self._machine.queue_of(operation.item.partition_id)
                if queue is not None:
                    self.tally(queue, now_us).ack_success += operation.item.status == "completed"
            if queue is not None:
                touched.add(queue)
        for queue in touched:
            self.tally(queue, now_us).transactions += 1
