"""Answer bodies as the wire names them.

Payloads are `msgspec.Raw`: spliced in, never re-encoded.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET, Raw, UnsetType

from .kv_bodies import KvBody
from .render_positions import TransactionPositionBody


class PushedBody(msgspec.Struct):
    """One item of a push's answer; snake case here only."""

    index: int
    message_id: str
    transaction_id: str
    queueName: str  # noqa: N815 - the wire mixes both cases in this body
    status: str
    offset: int


class PoppedBody(msgspec.Struct, rename="camel"):
    """One message of a pop."""

    id: str
    transaction_id: str
    trace_id: str | None
    data: Raw
    producer_sub: str | None
    created_at: str
    partition_id: str
    partition: str
    queue: str
    lease_id: str
    consumer_group: str
    delivery_attempt: int
    offset: int


class AutopilotBody(msgspec.Struct, rename="camel"):
    """What autopilot chose."""

    partitions: int
    batch: int
    wait_ms: int


class PopBody(msgspec.Struct, rename="camel"):
    """A pop that found something."""

    success: bool
    queue: str
    partition: str
    partition_id: str
    lease_id: str
    consumer_group: str
    messages: list[PoppedBody]
    partitions_claimed: int
    autopilot: AutopilotBody | UnsetType = UNSET
    conflation: bool | UnsetType = UNSET
    conflation_conflict: bool | UnsetType = UNSET


class AckedBody(msgspec.Struct, rename="camel"):
    """One item of an ack's answer."""

    index: int
    transaction_id: str
    success: bool
    error: str | None
    lease_released: bool
    dlq: bool
    noop: bool
    conflated: int | UnsetType = UNSET


class ExtendBody(msgspec.Struct, rename="camel"):
    """A lease extension: three equal deadlines, the earliest of the lease."""

    lease_id: str
    success: bool
    renewed: int
    new_expires_at: str | None
    expires_at: str | None
    lease_expires_at: str | None = msgspec.field(name="lease_expires_at")


class TransactionAckBody(msgspec.Struct, rename="camel"):
    """An ack inside a transaction's results."""

    index: int
    type: str
    success: bool
    transaction_id: str
    error: None
    dlq: bool


class TransactionPushBody(msgspec.Struct, rename="camel"):
    """A pushed item inside a transaction's results."""

    index: int
    type: str
    success: bool
    transaction_id: str
    message_id: str
    queue_name: str
    duplicate: bool | UnsetType = UNSET


class TimerBody(msgspec.Struct, rename="camel"):
    """One timer operation's result; the last three only inside a transaction."""

    ok: bool
    status: str
    queue: str
    timer_key: str
    txn: str | None
    message_id: str | None
    deliver_at: str | None
    index: int | UnsetType = UNSET
    op_index: int | UnsetType = UNSET
    type: str | UnsetType = UNSET


class TimersBody(msgspec.Struct):
    """Results of POST /timers."""

    results: list[TimerBody]


TransactionElement = TransactionAckBody | TransactionPushBody | TimerBody | TransactionPositionBody


class TransactionBody(msgspec.Struct, rename="camel"):
    """A transaction that committed or rolled back."""

    transaction_id: str
    success: bool
    reason: str | UnsetType
    error: str | UnsetType
    results: list[TransactionElement | KvBody]
    ok: bool | UnsetType = UNSET
    failed_index: int | UnsetType = UNSET
    kv_reason: str | UnsetType = UNSET
    version: int | UnsetType = UNSET
    value: Raw | UnsetType | None = UNSET


class TimerRowBody(msgspec.Struct, rename="camel"):
    """One waiting timer; `found` only when asked for by key."""

    queue: str
    timer_key: str
    partition: str
    deliver_at: str
    txn: str
    message_id: str
    payload: str
    attempts: int = 0
    last_error: None = None
    encrypted: bool = False
    found: bool | UnsetType = UNSET


class TimerMissingBody(msgspec.Struct, rename="camel"):
    """A timer that is not waiting."""

    found: bool
    queue: str
    timer_key: str


class TimerListBody(msgspec.Struct, rename="camel"):
    """A page of timers."""

    rows: list[TimerRowBody]
    truncated: bool
    next_after: str | None


class ConfigureBody(msgspec.Struct, rename="camel"):
    """All effective options."""

    configured: bool
    queue_id: str
    partition_id: None
    queue: str
    namespace: str
    task: str
    storage: str
    options: dict[str, int | bool]


class DeletedQueueBody(msgspec.Struct):
    """Whether a queue was deleted."""

    deleted: bool
    queue: str
    existed: bool
    message: str | UnsetType = UNSET


class DeletedLettersBody(msgspec.Struct, rename="camel"):
    """Dead letters of one message that were removed."""

    success: bool
    partition_id: str
    transaction_id: str
    deleted: int


class PartitionDepthBody(msgspec.Struct):
    """One partition's counts."""

    partition: str
    pending: int
    processing: int
    ready: int


class DepthBody(msgspec.Struct, rename="camel"):
    """A queue's counts for one group."""

    queue: str
    group: str | None
    pending: int
    processing: int
    ready: int
    partitions_pending: int
    partitions_ready: int
    conflation: bool
    effective_pending: int
    effective_ready: int
    partitions: list[PartitionDepthBody]


class DeadLetterBody(msgspec.Struct, rename="camel"):
    """One dead letter."""

    id: str
    transaction_id: str
    partition_id: str
    queue: str
    partition: str
    consumer_group: str
    error_message: str
    retry_count: int
    data: Raw
    producer_sub: str | None
    created_at: str
    failed_at: str


class PaginationBody(msgspec.Struct):
    """Which page."""

    limit: int
    offset: int


class DlqBody(msgspec.Struct):
    """A page of dead letters; `total` is its length."""

    messages: list[DeadLetterBody]
    pagination: PaginationBody
    total: int


class FetchRecordBody(msgspec.Struct, rename="camel"):
    """One record."""

    offset: int
    transaction_id: str
    payload: Raw
    ts: str


class FetchEntryBody(msgspec.Struct, rename="camel"):
    """One partition's records and bounds."""

    queue: str
    partition: str
    records: list[FetchRecordBody]
    high_watermark: int
    log_start_offset: int
    error: str | UnsetType = UNSET


class FetchBody(msgspec.Struct):
    """A fetch's answer."""

    entries: list[FetchEntryBody]
