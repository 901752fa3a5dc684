"""The broker's tables, and the few moves that every command is made of."""

from __future__ import annotations

from collections import deque

from ..bugs import NO_BUGS, Bugs
from .claims import Claims
from .inspection_replies import TraceRow
from .kv import KvTable
from .lease import Position
from .message import Contents, Message
from .mint import Mint
from .options import implicit_options
from .outcomes import Outcomes
from .partition import Partition
from .planted import without_memory, without_payload
from .queue import Queue
from .readiness import Cursor, Group, Readiness
from .replies import DeadLetter
from .retention import Retention
from .stream_table import StreamTable
from .timers import TimerTable


class State:
    """Everything that the log's entries have built.

    Attributes:
        now_us: The latest stamp.
        queues: By name.
        partitions: By partition id.
        readiness: Which partitions are ready for whom.
        claims: Live claims.
        retention: Completed messages.
        timers: Waiting timers.
        kv: Key/value rows, permits of locks among them.
        traces: What consumers said about messages, oldest first.
        streams: State of streaming queries.
        outcomes: First answers.
        touched: Queues that changed since the node last asked; no outcome depends on it.
        dedup_since_us: Messages stored up to this stamp are not recognized as duplicates; always
            0 without the defect `dedup-lost-on-failover`.
    """

    def __init__(self, bugs: Bugs = NO_BUGS) -> None:
        self._bugs = bugs
        self.now_us = 0
        self.queues: dict[str, Queue] = {}
        self.partitions: dict[str, Partition] = {}
        self.readiness = Readiness(ignores_leases="lease-ignored-on-pop" in bugs)
        self.claims = Claims()
        self.retention = Retention()
        self.timers = TimerTable()
        self.kv = KvTable()
        self.traces: deque[TraceRow] = deque()
        self.streams = StreamTable()
        self.outcomes = Outcomes()
        self.touched: set[str] = set()
        self.dedup_since_us = 0
        self.partitions_made = 0
        self.cursors_made = 0

    def queue_for(self, name: str, mint: Mint) -> Queue:
        """The queue, created with implicit options when absent."""
        queue = self.queues.get(name)
        if queue is None:
            queue = Queue(name, mint.new_id(), self.now_us, implicit_options())
            self.queues[name] = queue
        return queue

    def partition_for(self, queue: Queue, name: str) -> Partition:
        """The partition, created when absent, with a cursor for every registered group."""
        partition = queue.partitions.get(name)
        if partition is None:
            self.partitions_made += 1
            partition = Partition(self.partitions_made, queue.name, name)
            queue.partitions[name] = partition
            self.partitions[partition.partition_id] = partition
            for group in queue.groups.values():
                if group.is_registered:
                    self.add_cursor(group, partition, group.since_us)
        return partition

    def duplicate_of(
        self, queue: Queue, partition: Partition, transaction_id: str
    ) -> Message | None:
        """The message in the partition's dedup window with this transaction id."""
        known = partition.stored(transaction_id)
        if (
            known is not None
            and known.created_us + queue.options.dedup_us > self.now_us
            and known.created_us > self.dedup_since_us
        ):
            return known
        return None

    def append(
        self, queue: Queue, partition: Partition, message_id: str, contents: Contents
    ) -> Message:
        """Store a message at the end of a partition."""
        transaction_id, payload, trace_id, producer_sub, request_id = contents
        message = Message(
            partition.end,
            message_id,
            transaction_id,
            self.now_us,
            payload,
            trace_id,
            producer_sub,
            request_id,
        )
        partition.append(message)
        for cursor in partition.cursors:
            self.readiness.refresh(cursor, self.now_us)
        self.touched.add(queue.name)
        return message

    def register(self, group: Group, since_us: int) -> None:
        """Give the group a cursor in every partition that lacks one, now and from now on."""
        group.is_registered = True
        group.since_us = since_us
        for partition in group.queue.partitions.values():
            if partition.number not in group.cursors:
                self.add_cursor(group, partition, since_us)

    def add_cursor(self, group: Group, partition: Partition, since_us: int) -> Cursor:
        """Start at the first message created at or after an instant."""
        self.cursors_made += 1
        cursor = Cursor(self.cursors_made, partition, group, partition.first_since(since_us) - 1)
        group.cursors[partition.number] = cursor
        partition.cursors.append(cursor)
        self.readiness.add(cursor)
        self.readiness.refresh(cursor, self.now_us)
        return cursor

    def move(self, cursor: Cursor, position: Position) -> None:
        """Change a cursor's position and everything that depends on it."""
        before = cursor.position
        cursor.position = position
        old, new = before.lease, position.lease
        if old is not None and (new is None or new.lease_id != old.lease_id):
            self.claims.drop(old.lease_id, cursor)
        if position.committed != before.committed:
            assert position.committed > before.committed, (
                f"cursor went back from {before.committed} to {position.committed}"
            )
            memory_us = cursor.group.queue.options.memory_us
            self.retention.note(cursor.partition, self.now_us, memory_us)
        if self.readiness.refresh(cursor, self.now_us):
            self.touched.add(cursor.group.queue.name)

    def seek(self, cursor: Cursor, committed: int) -> None:
        """Put a cursor anywhere in its partition; its lease and its memory go."""
        lease = cursor.position.lease
        if lease is not None:
            self.claims.drop(lease.lease_id, cursor)
        cursor.position = Position(committed)
        memory_us = cursor.group.queue.options.memory_us
        self.retention.note(cursor.partition, self.now_us, memory_us)
        if self.readiness.refresh(cursor, self.now_us):
            self.touched.add(cursor.group.queue.name)

    def drop_cursor(self, cursor: Cursor) -> None:
        """Remove a group's place in a partition."""
        lease = cursor.position.lease
        if lease is not None:
            self.claims.drop(lease.lease_id, cursor)
        self.readiness.remove(cursor)
        del cursor.group.cursors[cursor.partition.number]
        cursor.partition.cursors.remove(cursor)

    def file_dead_letter(
        self, cursor: Cursor, offset: int, error: str, retries: int, mint: Mint
    ) -> None:
        """Put a copy of a message into its queue's dead letters."""
        queue, partition = cursor.group.queue, cursor.partition
        message = partition.at(offset)
        if "dead-letter-without-payload" in self._bugs:
            message = without_payload(message)
        letter = DeadLetter(
            mint.new_id(),
            message,
            partition.partition_id,
            queue.name,
            partition.name,
            cursor.group.name,
            error,
            retries,
            self.now_us,
        )
        queue.dead[letter.dead_letter_id] = letter

    def forget_released(self) -> None:
        """Forget every released lease; only the defect `ack-forgotten-on-failover` does."""
        for partition in self.partitions.values():
            for cursor in partition.cursors:
                cursor.position = without_memory(cursor.position)

    def drop_queue(self, queue: Queue) -> None:
        """Remove a queue with messages, cursors, registrations and dead letters."""
        for group in queue.groups.values():
            for cursor in group.cursors.values():
                lease = cursor.position.lease
                if lease is not None:
                    self.claims.drop(lease.lease_id, cursor)
                self.readiness.remove(cursor)
        for partition in queue.partitions.values():
            self.retention.release(partition)
            del self.partitions[partition.partition_id]
        del self.queues[queue.name]
        self.touched.add(queue.name)
