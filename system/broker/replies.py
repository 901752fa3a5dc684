"""Replies: what the machine says to each command and query, before HTTP gives it a shape.

All records are immutable. Times are UTC microseconds, payloads are JSON bytes.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .aging_records import RetainReply
from .ephemeral_options import RingDeclared, RingRemoved
from .inspection_replies import (
    ChangedReply,
    DeadLetterReplayed,
    DeadLettersPurged,
    GroupDeleted,
    GroupResubscribed,
    GroupSought,
    GroupsReply,
    MessageReply,
    MessagesReply,
    OffsetsReply,
    PartitionsReply,
    QueuesReply,
    TraceAdded,
    TraceNamesReply,
    TracesReply,
)
from .kv_replies import KvPrecondition, KvReply, KvResult, LocksReply
from .message import Message
from .position_records import PositionResult, PositionsReply
from .stream_replies import CycleReply, QueryRegistered, StreamStateReply

PushStatus = Literal["queued", "duplicate"]


class PushedItem(msgspec.Struct, frozen=True, gc=False):
    """One pushed item's result; a duplicate names the message that was stored first."""

    message_id: str
    transaction_id: str
    queue: str
    status: PushStatus
    offset: int


class PushReply(msgspec.Struct, frozen=True):
    """In request order."""

    items: tuple[PushedItem, ...]


class ClaimedRun(msgspec.Struct, frozen=True, gc=False):
    """A contiguous run of one partition's messages handed to a consumer."""

    partition: str
    partition_id: str
    attempt: int
    messages: tuple[Message, ...]
    queue: str = ""


class PopReply(msgspec.Struct, frozen=True):
    """A claim, or nothing.

    Attributes:
        queue: The queue; empty when the pop went by labels (each run then has its own).
        group: The consumer group.
        lease_id: One for all runs; empty with auto-ack and when nothing was claimed. It is what
            `TakeBack` takes when the requester has vanished.
        runs: Empty when nothing was ready: the pop parks again or is answered 204.
        autopilot: (partitions, batch, wait_ms) when the machine filled in a knob.
        conflates: Whether the group gets only the newest messages.
        conflicts: Whether the pop asked for it and did not get it, or the other way round.
    """

    queue: str
    group: str
    lease_id: str
    runs: tuple[ClaimedRun, ...]
    autopilot: tuple[int, int, int] | None = None
    conflates: bool = False
    conflicts: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing was claimed."""
        return not self.runs


class AckedItem(msgspec.Struct, frozen=True, tag=True, gc=False):
    """One ack's result; `error` is empty exactly when `success`.

    `conflated` says how many messages the ack retired that were never delivered.
    """

    transaction_id: str
    success: bool
    error: str = ""
    lease_released: bool = False
    dlq: bool = False
    noop: bool = False
    conflated: int | None = None


class AckReply(msgspec.Struct, frozen=True):
    """In request order, one for each item."""

    items: tuple[AckedItem, ...]


class ExtendReply(msgspec.Struct, frozen=True):
    """How many leases were prolonged, and the earliest new deadline."""

    lease_id: str
    renewed: int
    expires_us: int | None


class TransactionPushed(msgspec.Struct, frozen=True, tag=True):
    """One pushed item's result inside a transaction."""

    transaction_id: str
    message_id: str
    queue: str
    duplicate: bool = False


class TimerResult(msgspec.Struct, frozen=True, tag=True):
    """One timer operation's result; `ok` is false exactly for an absent timer."""

    ok: bool
    status: Literal["scheduled", "rescheduled", "cancelled", "absent"]
    queue: str
    key: str
    transaction_id: str | None
    message_id: str | None
    deliver_us: int | None


class TransactionReply(msgspec.Struct, frozen=True):
    """A committed bundle's results, or why it rolled back (`reason` is empty on success).

    Attributes:
        transaction_id: Minted for this bundle.
        results: Acks and pushed items in order, then KV, timers, positions.
        reason: "", "rejected_ack", "duplicate", "queue_not_found" or "kv_precondition".
        error: A text that contains "rolled back"; empty on success.
        lost: Which KV operation did not hold.
    """

    transaction_id: str
    results: tuple[AckedItem | TransactionPushed | KvResult | TimerResult | PositionResult, ...]
    reason: str = ""
    error: str = ""
    lost: KvPrecondition | None = None


class TimersReply(msgspec.Struct, frozen=True):
    """In request order."""

    results: tuple[TimerResult, ...]


class FireReply(msgspec.Struct, frozen=True):
    """How many timers fired."""

    fired: int


class TakeBackReply(msgspec.Struct, frozen=True):
    """Whether the claim was undone."""

    taken_back: bool


class ConfigureReply(msgspec.Struct, frozen=True):
    """All effective options by their camelCase names."""

    queue: str
    queue_id: str
    namespace: str
    task: str
    options: dict[str, int | bool]


class DeleteQueueReply(msgspec.Struct, frozen=True):
    """Whether the queue existed."""

    queue: str
    existed: bool


class DeleteDeadLetterReply(msgspec.Struct, frozen=True):
    """How many dead letters were removed; none means 404."""

    partition_id: str
    transaction_id: str
    deleted: int


class PartitionDepth(msgspec.Struct, frozen=True):
    """One partition's counts; ready = pending - processing."""

    partition: str
    pending: int
    processing: int
    ready: int


class DepthReply(msgspec.Struct, frozen=True):
    """Counts of one queue and group; `partitions` is None for an unknown queue.

    Without a group the counts are those of the slowest one, partition by partition.
    """

    queue: str
    group: str | None
    partitions: tuple[PartitionDepth, ...] | None
    conflates: bool = False


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that a group gave up on."""

    dead_letter_id: str
    message: Message
    partition_id: str
    queue: str
    partition: str
    group: str
    error: str
    retry_count: int
    failed_us: int


class DlqReply(msgspec.Struct, frozen=True):
    """One page, newest first."""

    letters: tuple[DeadLetter, ...]
    limit: int
    offset: int


class FetchedEntry(msgspec.Struct, frozen=True):
    """One partition's records and bounds; `error` is empty when the offset is inside them."""

    queue: str
    partition: str
    records: tuple[Message, ...]
    high_watermark: int
    log_start: int
    error: str = ""


class FetchReply(msgspec.Struct, frozen=True):
    """In request order. `is_final` says that a long poll must answer now."""

    entries: tuple[FetchedEntry, ...]
    is_final: bool


class TimerRow(msgspec.Struct, frozen=True):
    """One waiting timer."""

    queue: str
    key: str
    partition: str
    transaction_id: str
    message_id: str
    payload: bytes
    deliver_us: int
    producer_sub: str | None = None


class TimerReply(msgspec.Struct, frozen=True):
    """The timer, or None."""

    queue: str
    key: str
    row: TimerRow | None


class TimerListReply(msgspec.Struct, frozen=True):
    """One page in key order; `truncated` says that more follow."""

    rows: tuple[TimerRow, ...]
    truncated: bool


class TimerCountReply(msgspec.Struct, frozen=True):
    """How many timers match."""

    count: int


Reply = (
    PushReply
    | PopReply
    | AckReply
    | ExtendReply
    | TransactionReply
    | TimersReply
    | FireReply
    | TakeBackReply
    | ConfigureReply
    | DeleteQueueReply
    | DeleteDeadLetterReply
    | DepthReply
    | DlqReply
    | FetchReply
    | TimerReply
    | TimerListReply
    | TimerCountReply
    | KvReply
    | LocksReply
    | TraceAdded
    | TracesReply
    | TraceNamesReply
    | GroupDeleted
    | GroupSought
    | GroupResubscribed
    | GroupsReply
    | DeadLetterReplayed
    | DeadLettersPurged
    | MessageReply
    | MessagesReply
    | QueuesReply
    | ChangedReply
    | QueryRegistered
    | StreamStateReply
    | CycleReply
    | RetainReply
    | RingDeclared
    | RingRemoved
    | OffsetsReply
    | PartitionsReply
    | PositionsReply
)
