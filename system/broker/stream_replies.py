"""What streaming queries are told, before HTTP gives it a shape."""

from __future__ import annotations

import msgspec


class StreamRow(msgspec.Struct, frozen=True):
    """One row of state; `value` is JSON bytes."""

    key: str
    value: bytes
    updated_us: int


class QueryRegistered(msgspec.Struct, frozen=True):
    """A query; `conflicts` says that the name has another configuration, and nothing changed."""

    query_id: str
    name: str
    config_hash: str
    fresh: bool
    reset: bool
    conflicts: bool


class StreamStateReply(msgspec.Struct, frozen=True):
    """Rows in key order."""

    rows: tuple[StreamRow, ...]


class CycleReply(msgspec.Struct, frozen=True):
    """A committed cycle, or why nothing of it happened."""

    error: str
    pushed: int = 0
    released: bool = False
