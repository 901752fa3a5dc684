"""Reads of the machine's state; none of them changes it."""

from __future__ import annotations

import msgspec

from .commands import QUEUE_MODE


class Depth(msgspec.Struct, frozen=True):
    """How much waits in a queue for one group. Cost: the queue's partitions."""

    queue: str
    group: str = QUEUE_MODE


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


Query = Depth | DlqList | Fetch | TimerGet | TimerList | TimerCount
