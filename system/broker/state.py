"""The broker's tables, and the few moves that every command is made of."""

from __future__ import annotations

from collections import deque
from typing import Any

from ..bugs import NO_BUGS, Bugs
from .changes import Changes, Dirty
from .claims import Claims
from .cursors import Cursor, Group
from .ephemeral_options import DeclareRing
from .evicted import payload_key, slim_letter
from .inspection_replies import TraceRow
from .kv import KvTable
from .lease import Position
from .message import Message, Run
from .mint import Mint
from .options import QueueOptions, implicit_options
from .outcomes import Outcomes
from .partition import Partition
from .planted import without_memory, without_payload
from .position_notes import PositionNotes
from .queue import Queue
from .readiness import Readiness
from .replies import DeadLetter
from .retention import Retention
from .rows import MessageStore
from .stream_table import StreamTable
from .timers import TimerTable


class State:
    """Everything that the log's entries have built.

    Attributes:
        now_us: The latest stamp.
        queues: By name.
        partitions: By number.
        readiness: Which partitions are ready for whom.
        claims: Live claims.
        retention: Completed messages.
        timers: Waiting timers.
        kv: Key/value rows, permits of locks among them.
        traces: What consumers said about messages, oldest first.
        traces_changed: By id.
        streams: State of streaming queries.
        rings: Declarations of ephemeral queues, by name.
        rings_changed: By name.
        notes: What positions carry.
        outcomes: First answers.
        changes: What of all this no checkpoint has yet.
        messages: Where payloads are that have left memory; None when none ever do.
        is_awaited: Whether anybody waits for the replies that are being made.
        touched: Queues that changed since the node last asked; no outcome depends on it.
        dedup_since_us: Messages stored up to this stamp are not recognized as duplicates; always
            0 without the defect `dedup-lost-on-failover`.
    """

    def __init__(self, bugs: Bugs = NO_BUGS, messages: MessageStore | None = None) -> None:
        self._bugs = bugs
        self.now_us = 0
        self.changes = Changes()
        self.messages = messages
        self.queues: dict[str, Queue] = {}
        self.partitions: dict[int, Partition] = {}
        self.readiness = Readiness(self.changes, "lease-ignored-on-pop" in bugs)
        self.claims = Claims(self.changes)
        self.retention = Retention(self.changes)
        self.timers = TimerTable(self.changes, messages)
        self.kv = KvTable()
        self.traces: deque[TraceRow] = deque()
        self.traces_changed: Dirty[str, TraceRow] = Dirty()
        self.streams = StreamTable()
        self.rings: dict[str, DeclareRing] = {}
        self.rings_changed: Dirty[str, DeclareRing] = Dirty()
        self.notes = PositionNotes()
        self.outcomes = Outcomes()
        self.is_awaited = True
        self.touched: set[str] = set()
        self.dedup_since_us = 0
        self.queues_made = 0
        self.groups_made = 0
        self.partitions_made = 0
        self.cursors_made = 0
        self.claims_made = 0

    @property
    def made(self) -> tuple[int, int, int, int, int]:
        """The counters of minted numbers."""
        return (
            self.queues_made,
            self.groups_made,
            self.partitions_made,
            self.cursors_made,
            self.claims_made,
        )

    @made.setter
    def made(self, counters: tuple[int, int, int, int, int]) -> None:
        (
            self.queues_made,
            self.groups_made,
            self.partitions_made,
            self.cursors_made,
            self.claims_made,
        ) = counters

    def forget_changes(self) -> None:
        """All of this has rows already."""
        changes = self.changes
        tables: tuple[Dirty[Any, Any], ...] = (
            changes.queues,
            changes.groups,
            changes.partitions,
            changes.cursors,
            changes.runs,
            changes.claims,
            changes.letters,
            self.retention.changed,
            self.timers.changed,
            self.kv.changed,
            self.traces_changed,
            self.streams.queries_changed,
            self.streams.rows_changed,
            self.rings_changed,
            self.notes.changed,
            self.outcomes.changed,
        )
        for table in tables:
            table.take()
        changes.take_lost_payloads()

    def queue_for(self, name: str, mint: Mint) -> Queue:
        """The queue, created with implicit options when absent."""
        return self.queues.get(name) or self.add_queue(name, mint, implicit_options())

    def add_queue(self, name: str, mint: Mint, options: QueueOptions) -> Queue:
        """Create a queue."""
        self.queues_made += 1
        queue = Queue(self.queues_made, name, mint.new_id(), self.now_us, options)
        self.queues[name] = queue
        self.changes.queues.add(queue.number, queue)
        return queue

    def add_group(self, queue: Queue, name: str) -> Group:
        """Create a consumer group that is not registered yet."""
        self.groups_made += 1
        group = Group(self.groups_made, name, queue)
        queue.groups[name] = group
        self.changes.groups.add(group.number, group)
        return group

    def drop_group(self, group: Group) -> None:
        """Remove a consumer group that has no cursors any longer."""
        del group.queue.groups[group.name]
        self.changes.groups.drop(group.number)

    def partition_by_id(self, partition_id: str) -> Partition | None:
        """The partition with an id, as the wire carries it."""
        if not (partition_id.isascii() and partition_id.isdigit()) or len(partition_id) > 19:
            return None
        partition = self.partitions.get(int(partition_id))
        return (
            partition if partition is not None and partition.partition_id == partition_id else None
        )

    def partition_for(self, queue: Queue, name: str) -> Partition:
        """The partition, created when absent, with a cursor for every registered group."""
        partition = queue.partitions.get(name)
        if partition is None:
            self.partitions_made += 1
            partition = Partition(self.partitions_made, queue.name, name)
            queue.partitions[name] = partition
            self.partitions[partition.number] = partition
            self.changes.partitions.add(partition.number, partition)
            for group in queue.groups.values():
                if group.is_registered:
                    self.add_cursor(group, partition, group.since_us)
        return partition

    def duplicate_of(
        self, queue: Queue, partition: Partition, transaction_id: str
    ) -> tuple[Run, int] | None:
        """Run and offset of the message in the partition's dedup window with this id."""
        offset = partition.find(transaction_id)
        if offset is None:
            return None
        run = partition.run_at(offset)
        if run.created_us + queue.options.dedup_us > self.now_us and (
            run.created_us > self.dedup_since_us
        ):
            return run, offset
        return None

    def append(self, partition: Partition, run: Run) -> None:
        """Store messages at the end of a partition. Cost: their ids, and the groups there."""
        partition.append(run)
        self.changes.runs.add((partition.number, run.first), run)
        for cursor in partition.cursors:
            self.readiness.refresh(cursor, self.now_us)
        self.touched.add(partition.queue)

    def register(self, group: Group, since_us: int) -> None:
        """Give the group a cursor in every partition that lacks one, now and from now on."""
        group.is_registered = True
        group.since_us = since_us
        self.changes.groups.change(group.number, group)
        for partition in group.queue.partitions.values():
            if partition.number not in group.cursors:
                self.add_cursor(group, partition, since_us)

    def add_cursor(self, group: Group, partition: Partition, since_us: int) -> Cursor:
        """Start at the first message created at or after an instant."""
        self.cursors_made += 1
        position = Position(partition.first_since(since_us) - 1)
        cursor = Cursor(self.cursors_made, partition, group, position)
        group.cursors[partition.number] = cursor
        partition.cursors = (*partition.cursors, cursor)
        self.changes.cursors.add(cursor.number, cursor)
        self.readiness.refresh(cursor, self.now_us)
        return cursor

    def move(self, cursor: Cursor, position: Position) -> None:
        """Change a cursor's position and everything that depends on it."""
        before = cursor.position
        cursor.position = position
        self.changes.cursors.change(cursor.number, cursor)
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
        self.changes.cursors.change(cursor.number, cursor)
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
        self.changes.cursors.drop(cursor.number)
        partition = cursor.partition
        self.notes.drop((cursor.group.number, partition.number))
        del cursor.group.cursors[partition.number]
        partition.cursors = tuple([each for each in partition.cursors if each is not cursor])

    def delivered(self, partition: Partition, first: int, end: int) -> tuple[Message, ...]:
        """The messages of a delivery; none when nobody waits for it."""
        if not self.is_awaited:
            return ()
        return tuple(partition.messages(first, end - first, self.messages))

    def file_dead_letter(
        self, cursor: Cursor, offset: int, error: str, retries: int, mint: Mint
    ) -> None:
        """Put a copy of a message into its queue's dead letters."""
        queue, partition = cursor.group.queue, cursor.partition
        message = partition.message(offset, self.messages)
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
        self.changes.letters.add(letter.dead_letter_id, letter)

    def drop_dead_letter(self, queue: Queue, dead_letter_id: str) -> None:
        """Remove a dead letter."""
        if not self.changes.letters.is_fresh(dead_letter_id):
            self.changes.lost_payloads.add(payload_key(dead_letter_id))
        del queue.dead[dead_letter_id]
        self.changes.letters.drop(dead_letter_id)

    def lose_letter_payload(self, letter: DeadLetter) -> None:
        """A dead letter's payload is in the store; the dead letter may be gone by now."""
        queue = self.queues.get(letter.queue)
        if queue is not None and queue.dead.get(letter.dead_letter_id) is letter:
            queue.dead[letter.dead_letter_id] = slim_letter(letter)

    def forget_released(self) -> None:
        """Forget every released lease; only the defect `ack-forgotten-on-failover` does."""
        for partition in self.partitions.values():
            for cursor in partition.cursors:
                cursor.position = without_memory(cursor.position)
                self.changes.cursors.change(cursor.number, cursor)

    def trim(self, partition: Partition, to: int) -> None:
        """Move a log start up to an offset."""
        for run in partition.trim(to):
            self.changes.departed(partition, run)
        self.changes.partitions.change(partition.number, partition)

    def forget(self, partition: Partition, before_us: int) -> None:
        """Forget the transaction ids of messages that are gone and older than an instant."""
        for run in partition.forget(before_us):
            self.changes.forgotten(partition, run)

    def drop_partitions(self, partitions: list[Partition]) -> None:
        """Remove partitions with messages and cursors. Cost: those, and all completions."""
        if not partitions:
            return
        self.retention.release(set(partitions))
        for partition in partitions:
            for cursor in list(partition.cursors):
                self.drop_cursor(cursor)
            for run in partition.remembered():
                if run.first + run.count > partition.log_start:
                    self.changes.departed(partition, run)
                self.changes.forgotten(partition, run)
            self.changes.partitions.drop(partition.number)
            del self.partitions[partition.number]
            del self.queues[partition.queue].partitions[partition.name]

    def close(self) -> None:
        """Undo what keeps the objects of a state alive that nobody uses any longer.

        Cost: the cursors.
        """
        for partition in self.partitions.values():
            for cursor in partition.cursors:
                cursor.before = cursor.behind = None
            partition.cursors = ()
        for queue in self.queues.values():
            queue.partitions.clear()
            for group in queue.groups.values():
                group.cursors.clear()

    def drop_queue(self, queue: Queue) -> None:
        """Remove a queue with messages, cursors, registrations and dead letters."""
        self.drop_partitions(list(queue.partitions.values()))
        for group in list(queue.groups.values()):
            self.drop_group(group)
        for dead_letter_id in list(queue.dead):
            self.drop_dead_letter(queue, dead_letter_id)
        self.changes.queues.drop(queue.number)
        del self.queues[queue.name]
        self.touched.add(queue.name)
