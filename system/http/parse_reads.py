"""Configure, deletions, depth, dead letters and fetch: requests to commands and queries."""

from __future__ import annotations

from typing import Final

import msgspec

from ..broker.commands import (
    DEFAULT_PARTITION,
    Configure,
    DeleteDeadLetter,
    DeleteQueue,
)
from ..broker.options import FLAG_NAMES, OPTION_NAMES
from ..broker.queries import Depth, DlqList, Fetch, FetchEntry, OffsetEntry, Offsets
from .answer import bad_request
from .incoming import Incoming, check_id, check_names, clamped, decode, whole
from .request import FetchRequest, ReadRequest, Write
from .timestamps import INSTANT_US_MAX, parse_rfc3339

OPTION_MAX: Final = 10**9
DLQ_LIMIT: Final = 100
DLQ_LIMIT_MAX: Final = 1000
FETCH_ENTRIES_MAX: Final = 1024
FETCH_BYTES: Final = 1 << 20
FETCH_BYTES_MAX: Final = 8 << 20
FETCH_WAIT_MS_MAX: Final = 30_000

_CONFIGURE: Final = msgspec.json.Decoder(dict[str, object])


class _FetchEntryBody(msgspec.Struct, rename="camel"):
    queue: str
    partition: str | int | None = None
    offset: int | None = None
    max_bytes: int | None = None


class _FetchBody(msgspec.Struct, rename="camel"):
    entries: list[_FetchEntryBody]
    max_wait_ms: int | None = None
    min_bytes: int | None = None
    max_bytes: int | None = None


class _OffsetEntryBody(msgspec.Struct):
    queue: str
    timestamp: object
    partition: str | int | None = None


class _OffsetsBody(msgspec.Struct):
    entries: list[_OffsetEntryBody]


_FETCH: Final = msgspec.json.Decoder(_FetchBody)
_OFFSETS: Final = msgspec.json.Decoder(_OffsetsBody)


def configure(incoming: Incoming) -> Write:
    """POST /api/v1/configure; options inside `options` or beside `queue`."""
    body = decode(_CONFIGURE, incoming.body)
    queue = _label(body, "queue")
    check_names(queue or "", "")
    mode = body.get("mode") or "merge"
    if mode not in ("merge", "replace"):
        raise bad_request(f"mode must be merge or replace, got {mode!r}")
    nested = body.get("options")
    if nested is not None and not isinstance(nested, dict):
        raise bad_request("options must be an object")
    given = {**body, **(nested or {})}
    options = {name: _option(name, given[name]) for name in OPTION_NAMES if name in given}
    command = Configure(
        incoming.request_id,
        queue or "",
        options,
        _label(body, "namespace"),
        _label(body, "task"),
        mode == "replace",
    )
    return Write(command)


def delete_queue(incoming: Incoming) -> Write:
    """DELETE /api/v1/resources/queues/:queue."""
    return Write(DeleteQueue(incoming.request_id, incoming.part(5)))


def delete_message(incoming: Incoming) -> Write:
    """DELETE /api/v1/messages/:partitionId/:transactionId, which removes dead letters."""
    return Write(DeleteDeadLetter(incoming.request_id, incoming.part(4), incoming.part(5)))


def depth(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/resources/queues/:queue/depth?group=."""
    return ReadRequest(Depth(incoming.part(5), incoming.parameters().get("group") or None))


def dead_letters(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/dlq."""
    parameters = incoming.parameters()
    start, end = parameters.get("from"), parameters.get("to")
    return ReadRequest(
        DlqList(
            parameters.get("queue") or None,
            parameters.get("consumerGroup") or None,
            parameters.get("partition") or None,
            parse_rfc3339(start) if start else None,
            parse_rfc3339(end) if end else None,
            clamped(whole(parameters.get("limit")), DLQ_LIMIT, 0, DLQ_LIMIT_MAX),
            clamped(whole(parameters.get("offset")), 0, 0, 1 << 31),
        )
    )


def fetch(incoming: Incoming) -> FetchRequest | ReadRequest:
    """POST /api/v1/fetch.

    One that does not wait asks the leader, so that a client which has just pushed through another
    node finds its messages; one that waits does so at the node that it came to.
    """
    body = decode(_FETCH, incoming.body)
    if len(body.entries) > FETCH_ENTRIES_MAX:
        raise bad_request(f"{len(body.entries)} entries; at most {FETCH_ENTRIES_MAX}")
    if any(entry.offset is not None and entry.offset < 0 for entry in body.entries):
        raise bad_request("offset must not be negative")
    entries = tuple(
        [
            FetchEntry(
                entry.queue,
                _partition(entry.partition),
                entry.offset or 0,
                clamped(entry.max_bytes, FETCH_BYTES, 1, FETCH_BYTES_MAX),
            )
            for entry in body.entries
        ]
    )
    query = Fetch(
        entries,
        clamped(body.min_bytes, 1, 0, FETCH_BYTES_MAX),
        clamped(body.max_bytes, FETCH_BYTES_MAX, 1, FETCH_BYTES_MAX),
    )
    wait_ms = clamped(body.max_wait_ms, 0, 0, FETCH_WAIT_MS_MAX)
    return FetchRequest(query, wait_ms) if wait_ms else ReadRequest(query)


def offsets(incoming: Incoming) -> ReadRequest:
    """POST /api/v1/fetch/offsets: where each log stood at a time."""
    body = decode(_OFFSETS, incoming.body)
    if len(body.entries) > FETCH_ENTRIES_MAX:
        raise bad_request(f"{len(body.entries)} entries; at most {FETCH_ENTRIES_MAX}")
    entries = [
        OffsetEntry(entry.queue, _partition(entry.partition), _instant_us(entry.timestamp))
        for entry in body.entries
    ]
    return ReadRequest(Offsets(tuple(entries)))


def _partition(name: str | int | None) -> str:
    """A partition as a text, a number, or the default one."""
    return DEFAULT_PARTITION if name is None or name == "" else str(name)


def _instant_us(timestamp: object) -> int:
    """Epoch milliseconds or an ISO 8601 time, as microseconds."""
    if isinstance(timestamp, int) and not isinstance(timestamp, bool):
        if 0 <= timestamp <= INSTANT_US_MAX // 1000:
            return timestamp * 1000
    elif isinstance(timestamp, str):
        instant_us = parse_rfc3339(timestamp.replace(" ", "+"))
        if instant_us is not None:
            return instant_us
    text = "timestamp must be epoch milliseconds or an RFC 3339 time"
    raise bad_request(f"{text}, got {timestamp!r}"[:200])


def _label(body: dict[str, object], name: str) -> str | None:
    value = body.get(name)
    if value is not None and not isinstance(value, str):
        raise bad_request(f"{name} must be a text, got {value!r}")
    check_id(name, value or "")
    return value


def _option(name: str, value: object) -> int | bool | None:
    if value is None:
        return None
    if name in FLAG_NAMES:
        if isinstance(value, bool):
            return value
        raise bad_request(f"{name} must be true or false, got {value!r}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= OPTION_MAX:
        raise bad_request(f"{name} must be a whole number from 0 to {OPTION_MAX}, got {value!r}")
    return value
