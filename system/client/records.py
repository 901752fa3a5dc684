"""What the broker answers, as typed records; keys that they do not know are ignored."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")


class Endpoint(msgspec.Struct, frozen=True, order=True):
    """Client address of one node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """An answer and where it came from.

    Attributes:
        value: What was answered.
        answered_by: The node that answered.
        tries: How many tries it took.
    """

    value: T
    answered_by: Endpoint
    tries: int


class PushResult(msgspec.Struct, frozen=True):
    """One pushed item. `status` is `queued`, `duplicate` or, with an `error`, `failed`."""

    index: int
    status: str
    message_id: str | None = None
    transaction_id: str | None = None
    offset: int | None = None
    error: str | None = None


class Message(msgspec.Struct, frozen=True, rename="camel"):
    """One delivered message; `data` is its payload as the JSON that was pushed."""

    id: str
    transaction_id: str
    data: msgspec.Raw
    partition_id: str
    partition: str
    lease_id: str
    delivery_attempt: int
    offset: int
    created_at: str = ""
    queue: str = ""


class Popped(msgspec.Struct, frozen=True, rename="camel"):
    """A batch under one lease; without messages when nothing was ready."""

    lease_id: str = ""
    messages: tuple[Message, ...] = ()


class AckResult(msgspec.Struct, frozen=True, rename="camel"):
    """One acknowledgement; `success` means that the instruction was carried out."""

    success: bool
    index: int = 0
    transaction_id: str | None = None
    error: str | None = None
    lease_released: bool = False
    dlq: bool = False
    noop: bool = False


class ExtendResult(msgspec.Struct, frozen=True, rename="camel"):
    """A renewal; only `success` with `renewed` above 0 means that a lease lives on."""

    success: bool
    renewed: int = 0
    expires_at: str | None = None


class TransactionResult(msgspec.Struct, frozen=True, rename="camel"):
    """A transaction: applied as a whole, or rolled back as a whole with a `reason`.

    Of a `kv_precondition` that was lost, `value` is the row that was in the way, as JSON.
    """

    success: bool
    reason: str | None = None
    error: str | None = None
    results: tuple[msgspec.Raw, ...] = ()
    value: msgspec.Raw = msgspec.Raw(b"null")


class TimerResult(msgspec.Struct, frozen=True, rename="camel"):
    """One timer operation: `scheduled`, `rescheduled`, `cancelled` or `absent`."""

    ok: bool
    status: str
    timer_key: str = ""
    txn: str | None = None
    message_id: str | None = None
    deliver_at: str | None = None


class PartitionDepth(msgspec.Struct, frozen=True):
    """What one partition holds for a group, in messages."""

    partition: str
    pending: int
    processing: int
    ready: int


class Depth(msgspec.Struct, frozen=True):
    """What a queue holds for a group, in messages: pending = processing + ready."""

    pending: int = 0
    processing: int = 0
    ready: int = 0
    partitions: tuple[PartitionDepth, ...] = ()


class DeadLetter(msgspec.Struct, frozen=True, rename="camel"):
    """One message that was given up."""

    id: str
    transaction_id: str
    partition_id: str
    partition: str
    data: msgspec.Raw
    error_message: str | None = None
    consumer_group: str | None = None
    queue: str = ""
    created_at: str | None = None
    failed_at: str | None = None


class DeadLetters(msgspec.Struct, frozen=True):
    """One page of dead letters, newest first."""

    messages: tuple[DeadLetter, ...] = ()


class RaftHealth(msgspec.Struct, frozen=True, rename="camel"):
    """A node's place in its cluster."""

    role: str = ""
    leader: str | None = None
    term: int = 0
    applied: int = 0
    commit: int = 0
    last: int = 0
    lag: int = 0
    quorum_ack_ms: float | None = None


class Health(msgspec.Struct, frozen=True):
    """What a node says of itself; `status` is `healthy` or `settling`."""

    status: str
    node: str = ""
    engine: str = ""
    version: str = ""
    raft: RaftHealth = RaftHealth()
    counters: dict[str, float] = {}
