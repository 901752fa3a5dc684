"""Answer bodies of what operators ask and do."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType


class TraceBody(msgspec.Struct, rename="camel"):
    """One trace."""

    id: str
    transaction_id: str
    partition_id: str
    consumer_group: str
    trace_names: list[str]
    event_type: str
    data: Raw
    created_at: str


class GroupDeletedBody(msgspec.Struct, rename="camel"):
    """What a deletion removed."""

    success: bool
    consumer_group: str
    deleted_partitions: int
    metadata_deleted: bool
    queue_name: str | UnsetType = UNSET


class GroupSoughtBody(msgspec.Struct, rename="camel"):
    """What a seek moved; `updated` and `partition` for a single partition."""

    success: bool
    consumer_group: str
    queue_name: str
    seek_to_end: bool
    target_timestamp: str | None
    partitions_updated: int
    partition: str | UnsetType = UNSET
    updated: bool | UnsetType = UNSET


class ResubscribedBody(msgspec.Struct, rename="camel"):
    """How many registrations changed."""

    success: bool
    consumer_group: str
    new_timestamp: str
    rows_updated: int


class ReplayedAsBody(msgspec.Struct):
    """The push that a replay made; snake case as in a push's answer."""

    index: int
    message_id: str
    transaction_id: str
    queueName: str  # noqa: N815 - the wire mixes both cases in this body
    status: str
    offset: int


class ReplayedBody(msgspec.Struct, rename="camel"):
    """What became of a dead letter."""

    success: bool
    result: str
    queue: str
    partition: str
    consumer_group: str
    dlq_id: str
    original_transaction_id: str
    replayed_as: ReplayedAsBody
    dlq_row_removed: bool


class PurgedBody(msgspec.Struct, rename="camel"):
    """How many dead letters went."""

    success: bool
    deleted: int
    queue: str
    consumer_group: str | None


class ConsumptionBody(msgspec.Struct, rename="camel"):
    """What one group did with a message."""

    name: str
    group: str
    consumed: bool
    lease_expires_at: str | None


class MessageBody(msgspec.Struct, rename="camel"):
    """One message with its surroundings."""

    id: str
    transaction_id: str
    trace_id: str | None
    producer_sub: str | None
    data: Raw
    payload: Raw
    created_at: str
    partition_id: str
    partition: str
    queue: str
    namespace: str
    task: str
    offset: int
    status: str
    error_message: str | None
    retry_count: int
    lease_expires_at: str | None
    consumer_groups: list[ConsumptionBody]


class MessagesBody(msgspec.Struct):
    """A page of messages."""

    messages: list[MessageBody]
    pagination: dict[str, int]


class CountsBody(msgspec.Struct):
    """Messages of a queue or a partition."""

    total: int
    pending: int
    processing: int
    dead_letter: int = msgspec.field(name="deadLetter", default=0)
    completed: int | UnsetType = UNSET


class PartitionBody(msgspec.Struct, rename="camel"):
    """One partition."""

    id: str
    name: str
    messages: CountsBody
    stats: CountsBody
    log_start: int
    high_watermark: int
    oldest_message: str | None
    newest_message: str | None
    queue: str | UnsetType = UNSET


class QueueBody(msgspec.Struct, rename="camel"):
    """One queue; `partitions` is a number in lists and a list in details."""

    id: str
    name: str
    queue: str
    namespace: str
    task: str
    created_at: str
    partitions: int | list[PartitionBody]
    messages: CountsBody
    totals: CountsBody
    options: dict[str, int | bool] | UnsetType = UNSET
    config: dict[str, int | bool] | UnsetType = UNSET


class QueuesBody(msgspec.Struct):
    """All queues, or a page of them."""

    queues: list[QueueBody]
    pagination: dict[str, int] | UnsetType = UNSET


class GroupBody(msgspec.Struct, rename="camel"):
    """One group in one queue."""

    name: str
    topics: list[str]
    queue_name: str
    members: int
    partition_cursors: int
    partitions_with_lag: int
    total_lag: int
    max_time_lag: int
    state: str
    subscription_mode: str | None
    subscription_timestamp: str | None
    conflation: bool


class LaggingBody(msgspec.Struct):
    """One group that is behind; snake case on this route only."""

    consumer_group: str
    queue_name: str
    partitions_with_lag: int
    total_lag: int
    lag_seconds: int


class ChangedPartitionBody(msgspec.Struct, rename="camel"):
    """One partition that was written to."""

    name: str
    id: str
    last_offset: int
    log_start: int
    last_write_at: str


class ChangedEntryBody(msgspec.Struct):
    """Partitions of one queue; `next` continues a full page."""

    queue: str
    partitions: list[ChangedPartitionBody]
    next: str | None
    error: str | UnsetType = UNSET


class ChangedBody(msgspec.Struct, rename="camel"):
    """In request order."""

    safe_time: str
    entries: list[ChangedEntryBody]


class FoundOffsetBody(msgspec.Struct, rename="camel"):
    """One log's offset at a time; nulls when nothing was stored so late."""

    queue: str
    partition: str
    offset: int | None
    ts: str | None
    high_watermark: int
    log_start_offset: int
    error: str | UnsetType = UNSET


class OffsetsBody(msgspec.Struct):
    """In request order."""

    entries: list[FoundOffsetBody]
