"""What operators are told, before HTTP gives it a shape. Times are UTC microseconds."""

from __future__ import annotations

import msgspec

from .message import Message


class TraceRow(msgspec.Struct, frozen=True):
    """One trace; `data` is JSON bytes."""

    trace_id: str
    partition_id: str
    transaction_id: str
    group: str
    names: tuple[str, ...]
    event: str
    data: bytes
    created_us: int


class TraceAdded(msgspec.Struct, frozen=True):
    """The id of a new trace."""

    trace_id: str


class TracesReply(msgspec.Struct, frozen=True):
    """Traces, oldest first."""

    rows: tuple[TraceRow, ...]


class TraceNamesReply(msgspec.Struct, frozen=True):
    """Names and how many traces each has, in order."""

    names: tuple[tuple[str, int], ...]


class GroupDeleted(msgspec.Struct, frozen=True):
    """How many cursors went, and whether a registration did."""

    group: str
    queue: str | None
    cursors: int
    metadata: bool


class GroupSought(msgspec.Struct, frozen=True):
    """How many cursors a seek moved; None partitions means that there is no such place."""

    group: str
    queue: str
    partition: str | None
    since_us: int | None
    moved: int | None


class GroupResubscribed(msgspec.Struct, frozen=True):
    """How many registrations changed."""

    group: str
    since_us: int
    registrations: int


class DeadLetterReplayed(msgspec.Struct, frozen=True):
    """What became of a dead letter; empty `dead_letter_id` means that it is not there."""

    dead_letter_id: str
    original_transaction_id: str = ""
    group: str = ""
    queue: str = ""
    partition: str = ""
    transaction_id: str = ""
    message_id: str = ""
    offset: int = 0
    is_duplicate: bool = False


class DeadLettersPurged(msgspec.Struct, frozen=True):
    """How many dead letters went."""

    queue: str
    group: str | None
    deleted: int


class Consumption(msgspec.Struct, frozen=True):
    """What one group did with a message."""

    group: str
    consumed: bool
    lease_expires_us: int | None


class MessageView(msgspec.Struct, frozen=True):
    """A retained message (or a dead letter's copy) with its surroundings.

    Attributes:
        message: The message.
        partition_id: Its partition.
        partition: That one's name.
        queue: Its queue.
        namespace: Label of the queue.
        task: Label of the queue.
        status: "pending", "processing", "completed" or "dead_letter".
        groups: What each group with a cursor there did with it.
        error: Of the dead letter.
        retries: Of the dead letter, else the highest of the cursors that stand at the message.
    """

    message: Message
    partition_id: str
    partition: str
    queue: str
    namespace: str
    task: str
    status: str
    groups: tuple[Consumption, ...]
    error: str = ""
    retries: int = 0


class MessageReply(msgspec.Struct, frozen=True):
    """The message, or None."""

    view: MessageView | None


class MessagesReply(msgspec.Struct, frozen=True):
    """A page of messages, newest first."""

    views: tuple[MessageView, ...]
    limit: int
    offset: int


class PartitionView(msgspec.Struct, frozen=True):
    """One partition and its counts over all groups (pending: of the slowest)."""

    name: str
    partition_id: str
    log_start: int
    end: int
    pending: int
    processing: int
    oldest_us: int | None
    newest_us: int | None


class QueueView(msgspec.Struct, frozen=True):
    """One queue."""

    queue_id: str
    name: str
    namespace: str
    task: str
    created_us: int
    options: dict[str, int | bool]
    partitions: tuple[PartitionView, ...]
    dead: int


class QueuesReply(msgspec.Struct, frozen=True):
    """Queues in order of creation."""

    queues: tuple[QueueView, ...]


class GroupView(msgspec.Struct, frozen=True):
    """One group in one queue; `lag_s` is the age of its oldest undelivered message."""

    group: str
    queue: str
    is_registered: bool
    since_us: int
    cursors: int
    lagging_cursors: int
    lag: int
    lag_s: int
    processing: int
    conflates: bool = False


class GroupsReply(msgspec.Struct, frozen=True):
    """Groups by queue, in order of creation."""

    groups: tuple[GroupView, ...]


class ChangedPartition(msgspec.Struct, frozen=True):
    """One partition that was written to."""

    name: str
    partition_id: str
    last_offset: int
    log_start: int
    last_write_us: int


class ChangedEntry(msgspec.Struct, frozen=True):
    """Partitions of one queue; None for an unknown queue. `after` continues a full page."""

    queue: str
    partitions: tuple[ChangedPartition, ...] | None
    after: str | None = None


class ChangedReply(msgspec.Struct, frozen=True):
    """In request order; all writes stamped up to `safe_us` are counted."""

    safe_us: int
    entries: tuple[ChangedEntry, ...]


class FoundOffset(msgspec.Struct, frozen=True):
    """The first message at or after an instant, and the log's bounds.

    Attributes:
        queue: As asked.
        partition: As asked.
        offset: None when nothing was stored so late.
        created_us: When that message was stored.
        high_watermark: The next message's offset.
        log_start: The oldest retained one's.
        error: Empty, or that there is no such queue.
    """

    queue: str
    partition: str
    offset: int | None = None
    created_us: int | None = None
    high_watermark: int = 0
    log_start: int = 0
    error: str = ""


class OffsetsReply(msgspec.Struct, frozen=True):
    """In request order."""

    entries: tuple[FoundOffset, ...]


class PartitionsReply(msgspec.Struct, frozen=True):
    """(queue, partition) pairs of a page, and how many partitions there are in all."""

    partitions: tuple[tuple[str, PartitionView], ...]
    total: int
    limit: int
    offset: int
