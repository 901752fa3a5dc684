"""Positions as they are set, asked for and told; see `positions`."""

from __future__ import annotations

import msgspec


class SetPosition(msgspec.Struct, array_like=True, frozen=True):
    """Set or forget one position.

    Attributes:
        queue: Must exist.
        partition: Made when absent, unless the position is forgotten.
        group: Registered when absent.
        offset: The next offset to read; None forgets the position.
        note: The client's own.
        begins_at_oldest: Where a group that is registered by this begins elsewhere in the queue;
            else it begins now.
    """

    queue: str
    partition: str
    group: str
    offset: int | None
    note: str = ""
    begins_at_oldest: bool = False


class PositionResult(msgspec.Struct, frozen=True, tag="position"):
    """What was set; a None offset is forgotten."""

    queue: str
    partition: str
    group: str
    offset: int | None


class Positions(msgspec.Struct, frozen=True):
    """Where a group reads in these (queue, partition) places; None means wherever it reads."""

    group: str
    places: tuple[tuple[str, str], ...] | None = None


class GroupPositions(msgspec.Struct, frozen=True):
    """One place; a None offset says that the group has no position there."""

    queue: str
    partition: str
    offset: int | None
    note: str = ""


class PositionsReply(msgspec.Struct, frozen=True):
    """In request order."""

    group: str
    entries: tuple[GroupPositions, ...]
