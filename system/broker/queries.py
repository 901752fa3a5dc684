"""Reads of the machine's state; none of them changes it."""

from __future__ import annotations

import msgspec

from .commands import QUEUE_MODE
from .kv_operations import KvLook
from .position_records import Positions


class Depth(msgspec.Struct, frozen=True):
    """How much waits in a queue for one group, or for the slowest. Cost: the queue's partitions."""

    queue: str
    group: str | None = QUEUE_MODE


class DlqList(msgspec.Struct, frozen=True):
    """Dead letters, newest first; None matches everything."""

    queue: str | None = None
    group: str | None = None
    partition: str | None = None
    from_us: int | None = None
    to_us: int | None = None
    limit: int = 100
    offset: int = 0


class FetchEntry(msgspec.Struct, frozen=True):
    """Read one partition from an offset on, without lease or cursor."""

    queue: str
    partition: str
    offset: int
    max_bytes: int = 1 << 20


class Fetch(msgspec.Struct, frozen=True):
    """Read several partitions; `min_bytes` of payload make a long poll answer."""

    entries: tuple[FetchEntry, ...]
    min_bytes: int = 1
    max_bytes: int = 8 << 20

    @property
    def queues(self) -> frozenset[str]:
        """The queues whose changes can change the answer (wake-up for a parked fetch)."""
        return frozenset(entry.queue for entry in self.entries)


class OffsetEntry(msgspec.Struct, frozen=True):
    """Where a partition's log stood at an instant, UTC microseconds."""

    queue: str
    partition: str
    since_us: int


class Offsets(msgspec.Struct, frozen=True):
    """The first messages stored at or after instants. Cost: a search for each."""

    entries: tuple[OffsetEntry, ...]


class TimerGet(msgspec.Struct, frozen=True):
    """One timer."""

    queue: str
    key: str


class TimerList(msgspec.Struct, frozen=True):
    """Timers of a queue in key order, after a key, with a prefix."""

    queue: str
    after: str = ""
    prefix: str = ""
    limit: int = 100


class TimerCount(msgspec.Struct, frozen=True):
    """How many timers of a queue have keys with this prefix."""

    queue: str
    prefix: str = ""


class KvRead(msgspec.Struct, frozen=True):
    """A batch of KV operations that write nothing."""

    operations: tuple[KvLook, ...]


class QueueList(msgspec.Struct, frozen=True):
    """Queues; None matches everything."""

    queue: str | None = None
    namespace: str | None = None
    task: str | None = None


class PartitionList(msgspec.Struct, frozen=True):
    """A page of partitions, of one queue or of all. Cost: the page, and the queues before it."""

    queue: str | None = None
    limit: int = 100
    offset: int = 0


class GroupList(msgspec.Struct, frozen=True):
    """Consumer groups, at least so far behind."""

    group: str | None = None
    lag_s_min: int = 0


class MessageGet(msgspec.Struct, frozen=True):
    """One message by its address."""

    partition_id: str
    transaction_id: str


class MessageList(msgspec.Struct, frozen=True):
    """Messages created in a window, newest first; None matches everything."""

    from_us: int
    to_us: int
    queue: str | None = None
    partition: str | None = None
    status: str | None = None
    limit: int = 200
    offset: int = 0


class TraceList(msgspec.Struct, frozen=True):
    """Traces of a message, or under a name; neither asks for the names."""

    partition_id: str = ""
    transaction_id: str | None = None
    name: str | None = None


class ChangedQuery(msgspec.Struct, frozen=True):
    """Partitions of a queue written at or after an instant, behind a partition number."""

    queue: str
    since_us: int = 0
    after: int = 0
    limit: int = 1000


class Changed(msgspec.Struct, frozen=True):
    """Which partitions have changed."""

    entries: tuple[ChangedQuery, ...]


class StreamStateGet(msgspec.Struct, frozen=True):
    """State of a query in one partition; no keys means all, filtered by prefix and ripeness.

    Ripe rows have a number `windowEnd` that is not beyond `ripe_at`.
    """

    query_id: str
    partition_id: str
    keys: tuple[str, ...] = ()
    prefix: str = ""
    ripe_at: float | None = None


Query = (
    Depth
    | DlqList
    | Fetch
    | TimerGet
    | TimerList
    | TimerCount
    | KvRead
    | QueueList
    | GroupList
    | MessageGet
    | MessageList
    | TraceList
    | Changed
    | StreamStateGet
    | Offsets
    | PartitionList
    | Positions
)
