"""Positions of groups: requests to operations and queries."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from ..broker.commands import DEFAULT_PARTITION
from ..broker.position_records import Positions, SetPosition
from .answer import RefusedError, bad_request, error_answer
from .incoming import Incoming, check_names, decode
from .request import ReadRequest

POSITIONS_MAX: Final = 16_384
ENTRIES_MAX: Final = 65_536
NOTE_BYTES_MAX: Final = 4096


class PositionFields(msgspec.Struct, rename="camel"):
    """One position of a transaction, as the wire has it; a null offset forgets."""

    queue: str
    consumer_group: str
    offset: int | UnsetType | None = UNSET
    partition: str | None = None
    metadata: str | None = None
    subscription_mode: str | None = None


class _EntryBody(msgspec.Struct):
    queue: str
    partition: str | None = None


class _PositionsBody(msgspec.Struct, rename="camel"):
    consumer_group: str
    entries: list[_EntryBody] | None = None


_POSITIONS: Final = msgspec.json.Decoder(_PositionsBody)


def set_positions(fields: list[PositionFields], default_mode: str) -> tuple[SetPosition, ...]:
    """Check and convert the positions of a transaction."""
    if len(fields) > POSITIONS_MAX:
        raise bad_request(f"{len(fields)} positions; at most {POSITIONS_MAX}")
    return tuple([_position(place, each, default_mode) for place, each in enumerate(fields)])


def positions(incoming: Incoming) -> ReadRequest:
    """POST /api/v1/consumer-groups/positions; without entries, all that the group has."""
    body = decode(_POSITIONS, incoming.body)
    if not body.consumer_group:
        raise bad_request("consumerGroup is required")
    if body.entries is None:
        return ReadRequest(Positions(body.consumer_group))
    if len(body.entries) > ENTRIES_MAX:
        raise bad_request(f"{len(body.entries)} entries; at most {ENTRIES_MAX}")
    places = [(entry.queue, entry.partition or DEFAULT_PARTITION) for entry in body.entries]
    return ReadRequest(Positions(body.consumer_group, tuple(places)))


def _position(place: int, fields: PositionFields, default_mode: str) -> SetPosition:
    partition, group = fields.partition or DEFAULT_PARTITION, fields.consumer_group
    check_names(fields.queue, partition)
    check_names(fields.queue, group)
    if not group:
        raise bad_request(f"positions[{place}]: consumerGroup is required")
    offset = fields.offset
    if isinstance(offset, UnsetType):
        raise bad_request(f"positions[{place}]: offset is required; null forgets the position")
    if offset is not None and not 0 <= offset < 1 << 62:
        raise bad_request(f"positions[{place}]: offset must not be negative, got {offset}")
    note = fields.metadata or ""
    if len(note.encode()) > NOTE_BYTES_MAX:
        text = f"positions[{place}]: metadata takes at most {NOTE_BYTES_MAX} bytes"
        raise RefusedError(error_answer(413, "too_large", text))
    mode = fields.subscription_mode or default_mode
    begins_at_oldest = mode not in ("new", "new-only")
    return SetPosition(fields.queue, partition, group, offset, note, begins_at_oldest)
