"""Transactions: the request to a command."""

from __future__ import annotations

from typing import Final

import msgspec

from ..broker.commands import QUEUE_MODE, AckStatus, Transaction, TransactionAck, TransactionPush
from .answer import bad_request
from .incoming import Incoming, decode
from .parse_kv import KvFields, kv_operations
from .parse_messages import AckBody, PushItemBody, ack_item, refuse_binary
from .parse_positions import PositionFields, set_positions
from .parse_timers import TimerFields, timer_operations
from .request import Write


class _Operation(msgspec.Struct):
    type: str


class _PushList(msgspec.Struct):
    items: list[PushItemBody] | None = None


class _TransactionBody(msgspec.Struct, rename="camel"):
    operations: list[msgspec.Raw] | None = None
    required_leases: list[str | None] | None = None
    kv: list[KvFields] | None = None
    timers: list[TimerFields] | None = None
    positions: list[PositionFields] | None = None


_TRANSACTION: Final = msgspec.json.Decoder(_TransactionBody)
_OPERATION: Final = msgspec.json.Decoder(_Operation)
_PUSH_LIST: Final = msgspec.json.Decoder(_PushList)
_PUSH_ITEM: Final = msgspec.json.Decoder(PushItemBody)
_ACK: Final = msgspec.json.Decoder(AckBody)
_SIGNALS: Final[dict[str, AckStatus]] = {"failed": "failed", "retry": "retry", "dlq": "dlq"}


def transaction(incoming: Incoming) -> Write:
    """POST /api/v1/transaction."""
    refuse_binary(incoming)
    body = decode(_TRANSACTION, incoming.body)
    operations: list[TransactionAck | TransactionPush] = []
    for raw in body.operations or ():
        operations.extend(_operations(bytes(raw), incoming.subject))
    kv = kv_operations(body.kv or [], in_transaction=True)
    timers = timer_operations(body.timers or [], "timers_server_owned_field", incoming.subject)
    positions = set_positions(body.positions or [], incoming.subscription_mode)
    if not operations and not timers and not kv and not positions:
        raise bad_request("a transaction needs at least one operation")
    leases = tuple([lease for lease in body.required_leases or () if lease])
    return Write(Transaction(incoming.request_id, tuple(operations), leases, timers, kv, positions))


def _operations(raw: bytes, subject: str | None) -> list[TransactionAck | TransactionPush]:
    kind = decode(_OPERATION, raw).type
    if kind == "ack":
        body = decode(_ACK, raw)
        group = body.consumer_group or QUEUE_MODE
        return [TransactionAck(ack_item(body, _status(body.status)), group)]
    if kind != "push":
        raise bad_request(f"operation type must be push or ack, got {kind!r}")
    items = decode(_PUSH_LIST, raw).items
    if items is None:
        items = [decode(_PUSH_ITEM, raw)]
    return [TransactionPush(item.item(subject, keeps_trace=True)) for item in items]


def _status(text: str | None) -> AckStatus:
    """The status of an ack in a transaction, where an unknown one means completed."""
    return _SIGNALS.get(text or "", "completed")
