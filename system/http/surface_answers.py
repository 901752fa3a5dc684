"""Bodies of answers that no encoder has a type for, or one of several.

They only describe; what the wire gives is decided in `render*` and by the node.
"""

from __future__ import annotations

from msgspec import UNSET, Raw, Struct, UnsetType

from .inspection_bodies import PartitionBody
from .kv_bodies import KvRowBody
from .surface import Count
from .surface_forms import Version


class TimerFoundBody(Struct, rename="camel"):
    """A timer, a page of timers, or their number, whichever was asked for."""

    found: bool | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    timer_key: str | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    deliver_at: str | UnsetType = UNSET
    txn: str | UnsetType = UNSET
    message_id: str | UnsetType = UNSET
    payload: str | UnsetType = UNSET
    attempts: int | UnsetType = UNSET
    last_error: str | UnsetType | None = UNSET
    encrypted: bool | UnsetType = UNSET


class CountBody(Struct):
    """How many."""

    count: Count


class KvFields(Struct, rename="camel", kw_only=True):
    """What operations on keys answer; which of it depends on the operation."""

    op: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    found: bool | UnsetType = UNSET
    applied: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    expires_at: str | UnsetType | None = UNSET
    updated_at: str | UnsetType | None = UNSET
    rows: list[KvRowBody] | UnsetType = UNSET
    missing: list[str] | UnsetType = UNSET
    truncated: bool | UnsetType = UNSET
    next_after: str | UnsetType | None = UNSET


class KvResult(KvFields, rename="camel", kw_only=True):
    """One operation's result; what it holds depends on the operation."""

    index: Count
    op: str


class KvAnswer(Struct, rename="camel"):
    """Results in order; or, of a batch that a required operation undid, which one and why."""

    results: list[KvResult] | UnsetType = UNSET
    ok: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    failed_index: Count | UnsetType = UNSET
    kv_reason: str | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


class TransactionElement(KvFields, rename="camel", kw_only=True):
    """One result; what it holds depends on its type."""

    index: Count
    type: str
    success: bool | UnsetType = UNSET
    transaction_id: str | UnsetType = UNSET
    error: str | UnsetType | None = UNSET
    dlq: bool | UnsetType = UNSET
    message_id: str | UnsetType | None = UNSET
    queue_name: str | UnsetType = UNSET
    duplicate: bool | UnsetType = UNSET
    op_index: Count | UnsetType = UNSET
    ok: bool | UnsetType = UNSET
    status: str | UnsetType = UNSET
    queue: str | UnsetType = UNSET
    timer_key: str | UnsetType = UNSET
    txn: str | UnsetType | None = UNSET
    deliver_at: str | UnsetType | None = UNSET
    consumer_group: str | UnsetType = UNSET
    partition: str | UnsetType = UNSET
    offset: int | UnsetType | None = UNSET


class TransactionAnswer(Struct, rename="camel"):
    """Committed, with a result for each element; or rolled back, with a reason."""

    transaction_id: str
    success: bool
    results: list[TransactionElement]
    reason: str | UnsetType = UNSET
    error: str | UnsetType = UNSET
    ok: bool | UnsetType = UNSET
    failed_index: Count | UnsetType = UNSET
    kv_reason: str | UnsetType = UNSET
    version: Version | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


class TracesAnswer(Struct):
    """A list of traces."""

    traces: list[Raw]
    total: Count


class TraceNamesAnswer(Struct, rename="camel"):
    """Names that traces have."""

    trace_names: list[dict[str, str | int]]
    total: Count


class TraceAddedAnswer(Struct, rename="camel"):
    """The trace's id."""

    success: bool
    trace_id: str


class SuccessAnswer(Struct):
    """Done."""

    success: bool


class GoneAnswer(Struct):
    """There is no such dead letter (any longer)."""

    success: bool
    result: str
    error: str
    code: str


class LabelCounts(Struct):
    """Messages of the queues with a label."""

    total: int
    pending: int


class LabelAnswer(Struct):
    """One label, and the queues that have it."""

    name: str
    queues: int
    partitions: int
    messages: LabelCounts
    namespace: str | UnsetType = UNSET
    task: str | UnsetType = UNSET


class NamespacesAnswer(Struct):
    """Labels and the queues that have them."""

    namespaces: list[LabelAnswer]


class TasksAnswer(Struct):
    """Labels and the queues that have them."""

    tasks: list[LabelAnswer]


class PageAnswer(Struct):
    """Which page."""

    limit: int
    offset: int


class PartitionsAnswer(Struct):
    """A page of partitions."""

    partitions: list[PartitionBody]
    total: int
    pagination: PageAnswer


class QueryAnswer(Struct):
    """A registered streaming query."""

    success: bool
    query_id: str
    name: str
    config_hash: str
    fresh: bool
    reset: bool


class StateAnswer(Struct):
    """Rows of a streaming query's state."""

    success: bool
    rows: list[Raw]


class CycleAnswer(Struct):
    """What a cycle did, or why it was refused."""

    success: bool
    error: str | UnsetType = UNSET
    pushed: Count | UnsetType = UNSET
    lease_released: bool | UnsetType = UNSET


class RefusedAnswer(Struct):
    """Refused, with a reason."""

    success: bool
    error: str
    code: str | UnsetType = UNSET
    messages: list[Raw] | UnsetType = UNSET


class NodeStateAnswer(Struct):
    """What a node says of itself."""

    status: str
    engine: str
    version: str
    node: str
    raft: dict[str, Raw]
    disk: dict[str, Raw]
    counters: dict[str, Raw]


class DocumentAnswer(Struct):
    """An OpenAPI document."""

    openapi: str
    info: dict[str, Raw]
    paths: dict[str, Raw]
    components: dict[str, Raw]
