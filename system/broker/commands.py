"""Commands: what the replicated log carries, one entry a `Batch` of many commands.

A command says what a client asked for. The leader's planner adds one time stamp and one seed of
randomness to a whole batch; every id (message, lease, queue, dead letter) is derived from that
stamp, the seed and the position in the batch, so that each replica mints the same ids. Payloads
are JSON bytes that the route validated; no part of the broker reads or re-encodes them.

`request_id` names one request of one client: a repeat of the same request carries the same id and
gets its first answer where the class says so. An empty id is never remembered.

Encoding: msgpack arrays with a tag. A field may be added only at the end, with a default.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .administrative import (
    AddTrace,
    DeleteGroup,
    PurgeDeadLetters,
    ReplayDeadLetter,
    Resubscribe,
    SeekGroup,
)
from .aging_records import Retain
from .ephemeral_options import DeclareRing, RemoveRing
from .kv_operations import Kv, KvOperation, Locks
from .position_records import SetPosition

QUEUE_MODE: Final = "__QUEUE_MODE__"
"""The reserved consumer group of pops and acks that name no group."""

DEFAULT_PARTITION: Final = "Default"

AckStatus = Literal["completed", "failed", "retry", "dlq"]


class PushItem(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One message to store.

    Attributes:
        queue: Created by the push when absent.
        partition: Created by the push when absent.
        transaction_id: The producer's name of the message, the key of deduplication; an empty
            one makes the machine use the minted message id.
        payload: Valid JSON, UTF-8.
        trace_id: Echoed in pops; kept by transactions only.
        producer_sub: Who pushed it, as its token says; never what the body says.
    """

    queue: str
    partition: str
    transaction_id: str
    payload: bytes
    trace_id: str | None = None
    producer_sub: str | None = None


class Push(msgspec.Struct, array_like=True, frozen=True, tag="push"):
    """Store messages. A repeat is recognized by each item's transaction id.

    One with the same request id gets the first answer, any other is told `duplicate`.
    """

    request_id: str
    items: tuple[PushItem, ...]


class Pop(msgspec.Struct, array_like=True, frozen=True, tag="pop", kw_only=True):
    """Claim messages of one queue for one group, or of every queue with the given labels.

    A repeat of the same `request_id` while its lease lives gets the same claim again: same lease,
    same messages (those not acked yet), same delivery attempt.

    Attributes:
        queue: Created by the pop when absent, unless the pop is pinned to a partition.
        partition: The only partition to look at, or None.
        group: `QUEUE_MODE` for a plain queue.
        batch: Message budget of the call, over all partitions; at least 1.
        partitions: At most so many partitions; 0 means no limit.
        lease_s: None means the queue's `leaseTime`.
        auto_ack: Commit at delivery, without a lease.
        subscribe: Where a group that this pop registers begins: "all", "new" or "from".
        subscribe_from_us: The instant of "from", UTC microseconds.
        autopilot: Which knobs the machine fills in: "" none, else "batch", "partitions", "both".
        waiting: Pops waiting for this queue and group, as the leader's shell counts them
            (autopilot shares the ready partitions among them).
        namespace: With an empty queue: only queues with this label.
        task: As `namespace`; at least one of the two is given then.
        asking: Names the client's request at the node that serves it, unlike all others; a client
            may send one `request_id` twice, and each time wait for an answer of its own.
        trial: Counts how often that node has asked a leader for it. A later trial says that what
            an earlier one was answered will not be delivered.
        conflation: Whether a group that pops for the first time is to conflate, see `conflation`;
            None when the pop does not say.
    """

    request_id: str
    queue: str
    partition: str | None = None
    group: str = QUEUE_MODE
    batch: int = 200
    partitions: int = 1
    lease_s: int | None = None
    auto_ack: bool = False
    subscribe: Literal["all", "new", "from"] = "new"
    subscribe_from_us: int = 0
    autopilot: Literal["", "batch", "partitions", "both"] = ""
    waiting: int = 1
    namespace: str | None = None
    task: str | None = None
    asking: str = ""
    trial: int = 0
    conflation: bool | None = None


class AckItem(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One message's outcome.

    Attributes:
        transaction_id: Names the message inside its partition.
        partition_id: String of decimal digits, as the pop told it.
        status: What the consumer says about the message.
        lease_id: The fence; empty means none.
        error: Text for the dead letter; empty means none.
    """

    transaction_id: str
    partition_id: str
    status: AckStatus = "completed"
    lease_id: str = ""
    error: str = ""


class Ack(msgspec.Struct, array_like=True, frozen=True, tag="ack"):
    """Settle messages of one group, `/ack` and `/ack/batch` alike.

    A repeat gets its first answer from the cursor's memory of its last released lease, and from
    the request id when an item said anything but completed.
    """

    request_id: str
    group: str
    items: tuple[AckItem, ...]


class Extend(msgspec.Struct, array_like=True, frozen=True, tag="extend"):
    """Prolong every live lease with this id to at least now + max(1, seconds)."""

    request_id: str
    lease_id: str
    seconds: int = 60


class TransactionAck(msgspec.Struct, array_like=True, frozen=True, tag="ack"):
    """An ack inside a transaction; its group travels with it."""

    item: AckItem
    group: str


class TransactionPush(msgspec.Struct, array_like=True, frozen=True, tag="push"):
    """One pushed item inside a transaction."""

    item: PushItem


class ScheduleTimer(msgspec.Struct, array_like=True, frozen=True, tag="schedule"):
    """Put or replace the timer (queue, key); it pushes its message `delay_ms` from now.

    Schedule and reschedule are the same upsert, so that a repeat of either is harmless.
    """

    queue: str
    key: str
    delay_ms: int
    transaction_id: str
    payload: bytes
    partition: str = DEFAULT_PARTITION
    producer_sub: str | None = None


class CancelTimer(msgspec.Struct, array_like=True, frozen=True, tag="cancel"):
    """Remove a timer; `transaction_id` is echoed when there is none."""

    queue: str
    key: str
    transaction_id: str | None = None


TimerOperation = ScheduleTimer | CancelTimer


class Transaction(msgspec.Struct, array_like=True, frozen=True, tag="transaction"):
    """Acks, pushes, KV, timers and positions, all or nothing.

    A repeat gets its first answer for 600 s.

    Attributes:
        request_id: See the module.
        operations: In the client's order; the answer numbers them, then kv, then the timers.
        required_leases: Leases that must be live, or the bundle rolls back.
        timers: Carried out after the operations.
        kv: A batch; a required operation that does not hold rolls the bundle back.
        positions: Carried out last.
    """

    request_id: str
    operations: tuple[TransactionAck | TransactionPush, ...]
    required_leases: tuple[str, ...] = ()
    timers: tuple[TimerOperation, ...] = ()
    kv: tuple[KvOperation, ...] = ()
    positions: tuple[SetPosition, ...] = ()


class Timers(msgspec.Struct, array_like=True, frozen=True, tag="timers"):
    """Timer operations, one after the other. A repeat gets its first answer for 600 s."""

    request_id: str
    operations: tuple[TimerOperation, ...]


class FireTimers(msgspec.Struct, array_like=True, frozen=True, tag="fire"):
    """Push the messages of timers due at the batch's stamp, earliest first, at most `limit`."""

    limit: int = 256


class TakeBack(msgspec.Struct, array_like=True, frozen=True, tag="take-back"):
    """Undo a claim whose answer nobody received: lease gone, delivery attempt restored.

    Does nothing once anybody acked or extended by the lease, while another asking was answered
    with the same claim (each needs a take-back of its own), or if a later trial of this one was.

    Attributes:
        lease_id: Names the claim.
        asking: See `Pop`.
        trial: See `Pop`.
    """

    lease_id: str
    asking: str = ""
    trial: int = 0


class RegisterQuery(msgspec.Struct, array_like=True, frozen=True, tag="register-query"):
    """Name a query, or find it again. A repeat gets its first answer.

    Attributes:
        request_id: See above.
        name: Of the query.
        config_hash: Of its operators; another one under the same name is a conflict.
        reset: Wipe the state and take the new hash.
    """

    request_id: str
    name: str
    config_hash: str
    reset: bool = False


class StateOperation(msgspec.Struct, array_like=True, frozen=True):
    """Put one row (JSON bytes), or remove it (None)."""

    key: str
    value: bytes | None


class CycleAck(msgspec.Struct, array_like=True, frozen=True):
    """How a cycle settles its batch; `count` messages are done when the lease is kept."""

    transaction_id: str
    lease_id: str
    status: AckStatus = "completed"
    count: int = 0


class Cycle(msgspec.Struct, array_like=True, frozen=True, tag="cycle"):
    """State, pushes and ack of one batch, all or nothing. A repeat gets its first answer."""

    request_id: str
    query_id: str
    partition_id: str
    group: str
    state_ops: tuple[StateOperation, ...] = ()
    push_items: tuple[PushItem, ...] = ()
    ack: CycleAck | None = None
    releases: bool = True


class Configure(msgspec.Struct, array_like=True, frozen=True, tag="configure"):
    """Create a queue or change its options. A repeat gets its first answer for 600 s.

    Attributes:
        request_id: See the module.
        queue: Its name.
        options: camelCase name to value; None restores the default.
        namespace: None keeps (or derives on creation).
        task: As `namespace`.
        replace: Whether options that are absent fall back to their defaults.
    """

    request_id: str
    queue: str
    options: dict[str, int | bool | None]
    namespace: str | None = None
    task: str | None = None
    replace: bool = False


class DeleteQueue(msgspec.Struct, array_like=True, frozen=True, tag="delete-queue"):
    """Remove a queue with messages, cursors, registrations and dead letters (not its timers)."""

    request_id: str
    queue: str


class DeleteDeadLetter(msgspec.Struct, array_like=True, frozen=True, tag="delete-dead-letter"):
    """Remove the dead letters of one message, whatever group filed them."""

    request_id: str
    partition_id: str
    transaction_id: str


Command = (
    Push
    | Pop
    | Ack
    | Extend
    | Transaction
    | Timers
    | FireTimers
    | TakeBack
    | Configure
    | DeleteQueue
    | DeleteDeadLetter
    | Kv
    | Locks
    | DeleteGroup
    | SeekGroup
    | Resubscribe
    | ReplayDeadLetter
    | PurgeDeadLetters
    | AddTrace
    | RegisterQuery
    | Cycle
    | Retain
    | DeclareRing
    | RemoveRing
)


class Batch(msgspec.Struct, array_like=True, frozen=True):
    """The data of one log entry.

    Attributes:
        now_us: UTC microseconds; greater than every earlier batch's stamp.
        seed: Eight bytes of the leader's entropy, the random part of every id minted here.
        commands: Applied in order; each has one reply.
    """

    now_us: int
    seed: bytes
    commands: tuple[Command, ...]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Batch)


def encode_batch(batch: Batch) -> bytes:
    """Encode one log entry's data."""
    return _ENCODER.encode(batch)


def decode_batch(data: bytes) -> Batch:
    """Decode one log entry's data.

    Raises:
        ValueError: The bytes are not a batch (`msgspec.MsgspecError` is a ValueError).
    """
    return _DECODER.decode(data)
