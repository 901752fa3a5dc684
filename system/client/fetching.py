"""Reading partitions by offset, without a lease: one node's own copy, behind maybe, never wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from .calls import Call
from .reading import reader

FETCH_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class FetchFrom:
    """Where to read on.

    Attributes:
        queue: Queue name.
        partition: Partition name.
        offset: The first offset wanted.
        bytes_max: Payload bytes at most; one record that is larger comes alone.
    """

    queue: str
    partition: str
    offset: int
    bytes_max: int = FETCH_BYTES


class FetchedRecord(msgspec.Struct, frozen=True, rename="camel"):
    """One record; `payload` is the JSON that was pushed."""

    offset: int
    transaction_id: str
    payload: msgspec.Raw


class FetchedPartition(msgspec.Struct, frozen=True, rename="camel"):
    """One partition's records and bounds.

    Attributes:
        queue: Queue name.
        partition: Partition name.
        records: From the wanted offset on.
        high_watermark: The offset that the next message will get.
        log_start_offset: The oldest message that is still there.
        error: `UNKNOWN_TOPIC_OR_PARTITION` or `OFFSET_OUT_OF_RANGE`; empty for none.
    """

    queue: str
    partition: str
    records: tuple[FetchedRecord, ...] = ()
    high_watermark: int = 0
    log_start_offset: int = 0
    error: str = ""


class Fetched(msgspec.Struct, frozen=True):
    """One entry for each partition asked for, in this order."""

    entries: tuple[FetchedPartition, ...]


_ENCODE: Final = msgspec.json.Encoder().encode
_FETCHED: Final = msgspec.json.Decoder(Fetched)


def fetch(entries: Sequence[FetchFrom], *, wait_s: float = 0.0) -> Call[Fetched]:
    """Read several partitions of the asked node's own copy; waits for at least one record."""
    body = {
        "entries": [
            {
                "queue": entry.queue,
                "partition": entry.partition,
                "offset": entry.offset,
                "maxBytes": entry.bytes_max,
            }
            for entry in entries
        ],
        "maxWaitMs": round(wait_s * 1000),
    }
    return Call("fetch", "POST", "/api/v1/fetch", _ENCODE(body), reader(_FETCHED), wait_s)
