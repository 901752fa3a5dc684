"""Positions of groups, as HTTP answers."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from ..broker.position_records import PositionResult, PositionsReply
from .answer import Answer, json_answer


class TransactionPositionBody(msgspec.Struct, rename="camel"):
    """A position inside a transaction's results; a null offset is forgotten."""

    index: int
    op_index: int
    type: str
    success: bool
    queue: str
    partition: str
    consumer_group: str
    offset: int | None


class PositionBody(msgspec.Struct):
    """Where a group reads in one partition; null where it has no position."""

    queue: str
    partition: str
    offset: int | None
    metadata: str | UnsetType = UNSET


class PositionsBody(msgspec.Struct, rename="camel"):
    """In request order."""

    consumer_group: str
    entries: list[PositionBody]


def positions(reply: PositionsReply) -> Answer:
    """Where a group reads."""
    entries = [
        PositionBody(
            entry.queue,
            entry.partition,
            entry.offset,
            UNSET if entry.offset is None else entry.note,
        )
        for entry in reply.entries
    ]
    return json_answer(PositionsBody(reply.group, entries))


def in_transaction(index: int, place: int, result: PositionResult) -> TransactionPositionBody:
    """One result, at its place among all and among the positions."""
    return TransactionPositionBody(
        index,
        place,
        "position",
        True,
        result.queue,
        result.partition,
        result.group,
        result.offset,
    )
