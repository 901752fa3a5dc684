"""Streaming queries: requests to commands and queries. Names are in snake case on these routes."""

from __future__ import annotations

from typing import Final

import msgspec

from ..broker.commands import (
    DEFAULT_PARTITION,
    QUEUE_MODE,
    AckStatus,
    Cycle,
    CycleAck,
    PushItem,
    RegisterQuery,
    StateOperation,
)
from ..broker.queries import StreamStateGet
from .answer import bad_request
from .incoming import Incoming, check_id, check_names, clamped, decode
from .parse_messages import ack_status
from .request import ReadRequest, Write

COUNT_MAX: Final = 1 << 31


class _QueryBody(msgspec.Struct):
    name: str
    config_hash: str
    source_queue: str | None = None
    sink_queue: str | None = None
    reset: bool | None = None


class _StateBody(msgspec.Struct):
    query_id: str
    partition_id: str | int
    keys: list[str] | None = None
    key_prefix: str | None = None
    ripe_at_or_before: int | float | None = None


class _OperationBody(msgspec.Struct):
    type: str
    key: str
    value: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))


class _PushBody(msgspec.Struct, rename="camel"):
    queue: str
    payload: msgspec.Raw
    partition: str | None = None
    transaction_id: str | None = None


class _CycleAckBody(msgspec.Struct, rename="camel"):
    transaction_id: str
    lease_id: str | None = None
    status: str | None = None
    count: int | None = None


class _CycleBody(msgspec.Struct):
    query_id: str
    partition_id: str | int
    consumer_group: str | None = None
    state_ops: list[_OperationBody] | None = None
    push_items: list[_PushBody] | None = None
    ack: _CycleAckBody | None = None
    release_lease: bool | None = None


_QUERY: Final = msgspec.json.Decoder(_QueryBody)
_STATE: Final = msgspec.json.Decoder(_StateBody)
_CYCLE: Final = msgspec.json.Decoder(_CycleBody)


def register(incoming: Incoming) -> Write:
    """POST /streams/v1/queries."""
    body = decode(_QUERY, incoming.body)
    if not body.name:
        raise bad_request("name must not be empty")
    check_id("name", body.name)
    check_id("config_hash", body.config_hash)
    command = RegisterQuery(incoming.request_id, body.name, body.config_hash, body.reset is True)
    return Write(command)


def state(incoming: Incoming) -> ReadRequest:
    """POST /streams/v1/state/get."""
    body = decode(_STATE, incoming.body)
    query = StreamStateGet(
        body.query_id,
        str(body.partition_id),
        tuple(body.keys or ()),
        body.key_prefix or "",
        body.ripe_at_or_before,
    )
    return ReadRequest(query)


def cycle(incoming: Incoming) -> Write:
    """POST /streams/v1/cycle."""
    body = decode(_CYCLE, incoming.body)
    command = Cycle(
        incoming.request_id,
        body.query_id,
        str(body.partition_id),
        body.consumer_group or QUEUE_MODE,
        tuple([_operation(operation) for operation in body.state_ops or ()]),
        tuple([_item(item, incoming.subject) for item in body.push_items or ()]),
        None if body.ack is None else _ack(body.ack),
        body.release_lease is not False,
    )
    return Write(command)


def _operation(body: _OperationBody) -> StateOperation:
    check_id("key", body.key)
    if body.type == "upsert":
        return StateOperation(body.key, bytes(body.value))
    if body.type == "delete":
        return StateOperation(body.key, None)
    raise bad_request(f"a state operation is upsert or delete, got {body.type!r}")


def _item(body: _PushBody, subject: str | None) -> PushItem:
    partition = body.partition or DEFAULT_PARTITION
    check_names(body.queue, partition)
    name = body.transaction_id or ""
    check_id("transactionId", name)
    return PushItem(body.queue, partition, name, bytes(body.payload), None, subject)


def _ack(body: _CycleAckBody) -> CycleAck:
    status: AckStatus = ack_status(body.status)
    count = clamped(body.count, 0, 0, COUNT_MAX)
    return CycleAck(body.transaction_id, body.lease_id or "", status, count)
