"""What the rows hold: one msgpack array for each kind of object.

A field may be added only at the end, with a default. Numbers refer to other rows; what a key says
is not said again. See `rows` for the keys.
"""

from __future__ import annotations

import msgspec

from .lease import Position


class CountersRow(msgspec.Struct, array_like=True, frozen=True):
    """The machine itself; `version` is `ROWS_VERSION`."""

    version: int
    now_us: int
    made: tuple[int, int, int, int, int]
    kv_version: int
    dedup_since_us: int


class QueueRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number."""

    name: str
    queue_id: str
    created_us: int
    namespace: str
    task: str
    options: dict[str, int | bool]


class GroupRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number."""

    queue: int
    name: str
    is_registered: bool
    since_us: int
    conflates: bool | None = None


class PartitionRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number. `end` and `last_write_us` may be behind what its runs say."""

    queue: int
    name: str
    log_start: int
    end: int
    last_write_us: int
    completed: int


class CursorRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number. `ticket` is 0 unless it is ready."""

    group: int
    partition: int
    is_contacted: bool
    ticket: int
    position: Position


class RunRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: partition number and first offset. See `Run`; its body is a row of its own."""

    created_us: int
    names: tuple[str, ...] | str
    size: int
    mark: int | str
    request: int


class HeldRow(msgspec.Struct, array_like=True, frozen=True):
    """One cursor that a claim holds, and where it stood before."""

    cursor: int
    before: Position


class ClaimRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number."""

    lease_id: str
    request_id: str
    answers: tuple[tuple[str, int], ...]
    is_received: bool
    held: tuple[HeldRow, ...]


class CompletionRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number."""

    partition: int
    through: int
    weight: int


class StreamRowRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: a hash of its three names."""

    query_id: str
    partition_id: str
    key: str
    value: bytes
    updated_us: int


class NoteRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: numbers of the group and the partition of a position."""

    note: str


class OutcomeRow(msgspec.Struct, array_like=True, frozen=True):
    """Key: its number. `kind_of_reply` is the reply's class."""

    now_us: int
    kind: str
    request_id: str
    kind_of_reply: str
    reply: msgspec.Raw
