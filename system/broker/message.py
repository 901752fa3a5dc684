"""A stored message."""

from __future__ import annotations

from typing import NamedTuple

import msgspec


class Message(msgspec.Struct, frozen=True, gc=False):
    """One entry of a partition's log.

    Attributes:
        offset: Place in the partition, gapless from 0.
        message_id: UUIDv7, increasing per partition.
        transaction_id: The producer's name of it.
        created_us: UTC microseconds, the stamp of the batch that stored it.
        payload: JSON bytes; empty once the log has let go of it and only its place is remembered.
        trace_id: Echoed to consumers.
        producer_sub: Who pushed it, as the token said.
        request_id: The push that stored it, so that a repeat of that push gets its first answer.
    """

    offset: int
    message_id: str
    transaction_id: str
    created_us: int
    payload: bytes
    trace_id: str | None = None
    producer_sub: str | None = None
    request_id: str = ""


class Contents(NamedTuple):
    """What a push says of a message; see `Message`."""

    transaction_id: str
    payload: bytes
    trace_id: str | None = None
    producer_sub: str | None = None
    request_id: str = ""
