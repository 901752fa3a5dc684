"""Bodies of requests that no decoder has a type for, because they are read by hand.

They only describe; what the wire takes is decided in `parse_*`.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from .surface import Count, Name

Key = Annotated[str, Meta(min_length=1, max_length=512)]
Space = Annotated[
    str, Meta(pattern="^[a-z0-9][a-z0-9._-]{0,63}$", examples=["settings"], max_length=64)
]
Version = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Lifetime = Annotated[int, Meta(ge=1, le=10 * 366 * 86_400)]
LockName = Annotated[str, Meta(min_length=1, max_length=256, pattern="^[^#]+$")]
Token = Annotated[int, Meta(ge=1, le=(1 << 63) - 1)]
Slot = Annotated[int, Meta(ge=0, le=1024)]


class ExtendForm(Struct):
    """How long the lease is to live from now; 60 when missing."""

    seconds: float | None = None


class QueueOptions(Struct, rename="camel"):
    """A queue's options; null restores the default, a missing one is kept."""

    lease_time: Count | UnsetType | None = UNSET
    retry_limit: Count | UnsetType | None = UNSET
    dead_letter_queue: bool | UnsetType | None = UNSET
    dlq_after_max_retries: bool | UnsetType | None = UNSET
    delayed_processing: Count | UnsetType | None = UNSET
    window_buffer: Count | UnsetType | None = UNSET
    dedup_window_seconds: Count | UnsetType | None = UNSET
    retention_enabled: bool | UnsetType | None = UNSET
    retention_seconds: Count | UnsetType | None = UNSET
    completed_retention_seconds: Count | UnsetType | None = UNSET
    max_wait_time_seconds: Count | UnsetType | None = UNSET
    encryption_enabled: bool | UnsetType | None = UNSET
    priority: Count | UnsetType | None = UNSET
    retry_delay: Count | UnsetType | None = UNSET
    ttl: Count | UnsetType | None = UNSET
    max_size: Count | UnsetType | None = UNSET
    min_pop_wait_time: Count | UnsetType | None = UNSET


class ConfigureForm(Struct):
    """A queue and its options; `merge` keeps those that are not named."""

    queue: Name
    namespace: str | None = None
    task: str | None = None
    options: QueueOptions | None = None
    mode: Annotated[str, Meta(pattern="^(merge|replace)$")] | None = None


class TimerSchedule(Struct, rename="camel", tag_field="op", tag="schedule"):
    """Push a message later; `reschedule` is the same. `payload` is base64 of JSON."""

    queue: Name
    timer_key: Name
    delay_ms: Annotated[int, Meta(ge=0, le=90 * 86_400_000)]
    txn: Name
    payload: Annotated[str, Meta(pattern="^(MQ==|bnVsbA==|e30=)$")]
    partition: str | None = None


class TimerCancel(Struct, rename="camel", tag_field="op", tag="cancel"):
    """Take a timer back."""

    queue: Name
    timer_key: Name
    txn: str | None = None


TimerForm = TimerSchedule | TimerCancel


class TimersForm(Struct):
    """Timer operations, each key at most once."""

    operations: Annotated[list[TimerForm], Meta(max_length=256)]


class KvPut(Struct, rename="camel", tag_field="op", tag="put"):
    """Write a value; exactly one of `ttlSeconds` and `forever` says for how long."""

    ns: Space
    key: Key
    value: Raw
    ttl_seconds: Lifetime | None = None
    forever: bool | None = None
    expect: Version | UnsetType = UNSET
    required: bool | None = None


class KvPutIfAbsent(Struct, rename="camel", tag_field="op", tag="putIfAbsent"):
    """Write a value where there is none."""

    ns: Space
    key: Key
    value: Raw
    ttl_seconds: Lifetime | None = None
    forever: bool | None = None
    required: bool | None = None


class KvIncr(Struct, rename="camel", tag_field="op", tag="incr"):
    """Add to a number, inside its bounds."""

    ns: Space
    key: Key
    delta: float | None = None
    min: float | None = None
    max: float | None = None
    ttl_seconds: Lifetime | None = None
    forever: bool | None = None
    required: bool | None = None


class KvGet(Struct, tag_field="op", tag="get"):
    """Read one key."""

    ns: Space
    key: Key


class KvGetMany(Struct, tag_field="op", tag="getMany"):
    """Read some keys."""

    ns: Space
    keys: Annotated[list[Key], Meta(min_length=1)]


class KvGetPrefix(Struct, rename="camel", tag_field="op", tag="getPrefix"):
    """Read the keys that begin alike."""

    ns: Space
    prefix: Key
    after: str | None = None
    limit: int | None = None
    keys_only: bool | None = None


class KvDelete(Struct, tag_field="op", tag="delete"):
    """Delete one key."""

    ns: Space
    key: Key
    expect: Version | UnsetType = UNSET
    required: bool | None = None


class KvCheck(Struct, tag_field="op", tag="check"):
    """Hold only if a key has this version; 0 means that it is absent."""

    ns: Space
    key: Key
    expect: Version
    required: bool | None = None


KvForm = KvPut | KvPutIfAbsent | KvIncr | KvGet | KvGetMany | KvGetPrefix | KvDelete | KvCheck


class KvBatchForm(Struct):
    """Operations that apply together."""

    operations: Annotated[list[KvForm], Meta(max_length=64)]


class KvPathForm(Struct, rename="camel"):
    """The value to write under the key of the path."""

    value: Raw
    ttl_seconds: Lifetime | None = None
    forever: bool | None = None
    expect: Version | UnsetType = UNSET


class LockAcquire(Struct, rename="camel", tag_field="op", tag="acquire"):
    """Ask for one of `limit` permits."""

    name: LockName
    ttl_seconds: Lifetime
    owner: str | None = None
    limit: Annotated[int, Meta(ge=1, le=1024)] | None = None


class LockRenew(Struct, rename="camel", tag_field="op", tag="renew"):
    """Keep a permit."""

    name: LockName
    token: Token
    ttl_seconds: Lifetime
    slot: Slot | None = None
    owner: str | None = None


class LockRelease(Struct, tag_field="op", tag="release"):
    """Give a permit back."""

    name: LockName
    token: Token
    slot: Slot | None = None


class LockGet(Struct, tag_field="op", tag="get"):
    """Ask who holds permits."""

    name: LockName


class LocksForm(Struct):
    """Lock operations that apply together."""

    operations: Annotated[
        list[LockAcquire | LockRenew | LockRelease | LockGet], Meta(max_length=64)
    ]


class BundleAck(Struct, rename="camel", tag_field="type", tag="ack"):
    """An ack inside a transaction."""

    transaction_id: str | None = None
    partition_id: str | int | None = None
    status: str | None = None
    consumer_group: str | None = None
    lease_id: str | None = None
    error: str | None = None


class BundleItem(Struct, rename="camel"):
    """One message to push."""

    queue: Name
    payload: Raw
    partition: str | None = None
    transaction_id: str | None = None
    trace_id: str | None = None


class BundlePush(Struct, tag_field="type", tag="push"):
    """Messages to push inside a transaction; a single one's fields may stand here instead."""

    items: list[BundleItem]


class PositionForm(Struct, rename="camel"):
    """Where a group is to read on in a partition; null forgets."""

    queue: Name
    consumer_group: Name
    offset: Count | None
    partition: str | None = None
    metadata: Annotated[str, Meta(max_length=1024)] | None = None
    subscription_mode: str | None = None


class TransactionForm(Struct, rename="camel"):
    """All of it or nothing; at least one list must not be empty."""

    operations: list[BundleAck | BundlePush] | None = None
    required_leases: list[str | None] | None = None
    kv: list[KvForm] | None = None
    timers: list[TimerForm] | None = None
    positions: list[PositionForm] | None = None


class SeekForm(Struct, rename="camel"):
    """Where to: one of the two."""

    to_end: bool | None = None
    timestamp: Annotated[str, Meta(examples=["2026-01-01T00:00:00Z"])] | None = None


class RingWindowForm(Struct):
    """Let a waiting pop that finds fewer than `count` messages wait `ms` longer for more."""

    ms: Count = 0
    count: Count = 0


class RingOptionsForm(Struct, rename="camel", forbid_unknown_fields=True):
    """Bounds of an ephemeral queue; the list is closed."""

    max_bytes: Count | None = None
    max_length: Count | None = None
    policy: Annotated[str, Meta(pattern="^(reject|dropOldest)$")] | None = None
    ttl_seconds: Count | None = None
    lease_seconds: Count | None = None
    retry_limit: Count | None = None
    window_buffer: RingWindowForm | None = None


class DeclareForm(Struct):
    """An ephemeral queue and its bounds."""

    queue: Name
    options: RingOptionsForm | None = None
