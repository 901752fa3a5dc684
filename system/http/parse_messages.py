"""Push, pop, ack and lease extension: requests to commands."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import msgspec

from ..broker.commands import (
    DEFAULT_PARTITION,
    QUEUE_MODE,
    Ack,
    AckItem,
    AckStatus,
    Extend,
    Pop,
    Push,
    PushItem,
)
from ..broker.conflation import WIDTH_MAX
from .answer import Answer, bad_request, json_answer
from .incoming import ID_SURELY_SHORT, Incoming, check_id, check_names, clamped, decode, flag, whole
from .request import PopRequest, Write
from .timestamps import parse_rfc3339

POP_BATCH: Final = 200
POP_BATCH_MAX: Final = 100_000
POP_WAIT_MS: Final = 30_000
POP_WAIT_MS_MAX: Final = 60_000
DISCOVERY_LEASE_S: Final = 60
REMEMBERED_MAX: Final = 512
"""Longer queries of pops are read anew each time; names in the path have their own limit."""

EXTEND_S: Final = 60
ERROR_CHARACTERS_MAX: Final = 8192
"""Of the error that an ack leaves in a dead letter; the rest is cut."""

_COMPLETED: Final = (None, "completed", "success", "acked", "ok")
_SIGNALS: Final[dict[str, AckStatus]] = {"retry": "retry", "dlq": "dlq"}


class PushItemBody(msgspec.Struct, rename="camel"):
    """One item of a push, as the wire has it."""

    queue: str
    payload: msgspec.Raw
    partition: str | None = None
    transaction_id: str | None = None
    trace_id: str | None = None

    def item(self, subject: str | None, keeps_trace: bool = False) -> PushItem:
        """The command's item; the plain push route drops the trace id."""
        partition = self.partition or DEFAULT_PARTITION
        check_names(self.queue, partition)
        transaction_id, trace_id = self.transaction_id or "", None
        check_id("transactionId", transaction_id)
        if keeps_trace and self.trace_id is not None:
            trace_id = self.trace_id
            check_id("traceId", trace_id)
        return PushItem(
            self.queue,
            partition,
            transaction_id,
            bytes(self.payload),
            trace_id,
            subject,
        )


class _PushBody(msgspec.Struct):
    items: list[PushItemBody]


class AckBody(msgspec.Struct, rename="camel"):
    """One ack, as the wire has it; what is missing is refused by the machine, item by item."""

    transaction_id: str | None = None
    partition_id: str | int | None = None
    status: str | None = None
    consumer_group: str | None = None
    lease_id: str | None = None
    error: object = None


class _AckBatchBody(msgspec.Struct, rename="camel"):
    acknowledgments: list[AckBody]
    consumer_group: str | None = None


_PUSH: Final = msgspec.json.Decoder(_PushBody)
_ACK: Final = msgspec.json.Decoder(AckBody)
_ACK_BATCH: Final = msgspec.json.Decoder(_AckBatchBody)


def push(incoming: Incoming) -> Write | Answer:
    """POST /api/v1/push."""
    refuse_binary(incoming)
    items = decode(_PUSH, incoming.body).items
    if not items:
        return Answer(201, b"[]")
    return Write(Push(incoming.request_id, _push_items(items, incoming.subject)))


def _push_items(bodies: list[PushItemBody], subject: str | None) -> tuple[PushItem, ...]:
    """The command's items; most pushes go to one partition, whose name is then checked once."""
    items = []
    queue = partition = None
    for body in bodies:
        own_partition = body.partition or DEFAULT_PARTITION
        if body.queue != queue or own_partition != partition:
            queue, partition = body.queue, own_partition
            check_names(queue, partition)
        name = body.transaction_id or ""
        if len(name) > ID_SURELY_SHORT:
            check_id("transactionId", name)
        items.append(PushItem(queue, partition, name, bytes(body.payload), None, subject))
    return tuple(items)


def pop(incoming: Incoming) -> PopRequest:
    """GET /api/v1/pop/queue/:queue, with or without /partition/:partition."""
    parts, query = tuple(incoming.parts), incoming.query
    if len(query) > REMEMBERED_MAX:
        return _queue_pop(incoming)
    known = _remembered_pop(parts, query, incoming.subscription_mode)
    command = msgspec.structs.replace(known.command, request_id=incoming.request_id)
    return PopRequest(command, known.wait_ms)


@lru_cache(maxsize=1024)
def _remembered_pop(parts: tuple[str, ...], query: str, subscription_mode: str) -> PopRequest:
    """A pop as its URL says it; a consumer sends the same one again and again."""
    return _queue_pop(Incoming(list(parts), query, {}, b"", "", "GET", None, subscription_mode))


def _queue_pop(incoming: Incoming) -> PopRequest:
    parameters = incoming.parameters()
    queue = incoming.part(5)
    partition = incoming.part(7) if len(incoming.parts) > 6 else None
    check_names(queue, partition or "")
    check_names(queue, parameters.get("consumerGroup") or QUEUE_MODE)
    return _pop(incoming, parameters, queue, partition)


def discover(incoming: Incoming) -> PopRequest | Answer:
    """GET /api/v1/pop?namespace=&task=: from every queue with these labels; it never waits."""
    parameters = incoming.parameters()
    namespace, task = parameters.get("namespace") or None, parameters.get("task") or None
    if namespace is None and task is None:
        body = {"success": False, "error": "namespace or task is required", "messages": []}
        return json_answer(body, 400)
    request = _pop(incoming, parameters, "", None)
    command = msgspec.structs.replace(
        request.command,
        namespace=namespace,
        task=task,
        lease_s=request.command.lease_s or DISCOVERY_LEASE_S,
    )
    return PopRequest(command, 0)


def _pop(
    incoming: Incoming, parameters: dict[str, str], queue: str, partition: str | None
) -> PopRequest:
    batch, partitions = whole(parameters.get("batch")), whole(parameters.get("partitions"))
    batch = None if batch is None or batch < 1 else min(batch, POP_BATCH_MAX)
    lease_s = whole(parameters.get("leaseSeconds"))
    auto_ack = flag(parameters.get("autoAck")) or flag(parameters.get("commitOnDelivery"))
    command = Pop(
        request_id=incoming.request_id,
        queue=queue,
        partition=partition,
        group=parameters.get("consumerGroup") or QUEUE_MODE,
        batch=POP_BATCH if batch is None else batch,
        partitions=1 if partitions is None else max(0, partitions),
        lease_s=lease_s if lease_s is not None and lease_s > 0 else None,
        auto_ack=auto_ack,
        autopilot="",
        conflation=_conflation(parameters, auto_ack),
    )
    if command.conflation and partitions is None:
        # One message a partition: the width is what sizes such a pop.
        command = msgspec.structs.replace(command, partitions=min(command.batch, WIDTH_MAX))
    command = _piloted(command, parameters, batch, partitions)
    command = _subscribed(command, parameters, incoming.subscription_mode)
    wait_ms = clamped(whole(parameters.get("timeout")), POP_WAIT_MS, 0, POP_WAIT_MS_MAX)
    return PopRequest(command, wait_ms if flag(parameters.get("wait")) else 0)


def ack(incoming: Incoming) -> Write:
    """POST /api/v1/ack."""
    body = decode(_ACK, incoming.body)
    group = body.consumer_group or QUEUE_MODE
    return Write(Ack(incoming.request_id, group, (ack_item(body, ack_status(body.status)),)))


def ack_batch(incoming: Incoming) -> Write | Answer:
    """POST /api/v1/ack/batch."""
    body = decode(_ACK_BATCH, incoming.body)
    if not body.acknowledgments:
        return Answer(200, b"[]")
    items = tuple([ack_item(item, ack_status(item.status)) for item in body.acknowledgments])
    return Write(Ack(incoming.request_id, body.consumer_group or QUEUE_MODE, items))


def extend(incoming: Incoming) -> Write:
    """POST /api/v1/lease/:leaseId/extend; a missing or malformed number of seconds means 60."""
    try:
        body = msgspec.json.decode(incoming.body) if incoming.body else None
    except msgspec.DecodeError:
        body = None
    seconds = body.get("seconds") if isinstance(body, dict) else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        seconds = EXTEND_S
    bounded = int(min(max(seconds, 1), 1 << 31))
    return Write(Extend(incoming.request_id, incoming.part(4), bounded))


def refuse_binary(incoming: Incoming) -> None:
    """The optional binary bodies are not served."""
    content_type = incoming.headers.get("content-type", "")
    if content_type.startswith("application/x-queen"):
        raise bad_request(f"content type {content_type} is not served; send application/json")


def ack_item(body: AckBody, status: AckStatus) -> AckItem:
    """The command's item."""
    return AckItem(
        body.transaction_id or "",
        "" if body.partition_id is None else str(body.partition_id),
        status,
        body.lease_id or "",
        _text(body.error)[:ERROR_CHARACTERS_MAX],
    )


def ack_status(text: str | None) -> AckStatus:
    """The status of a plain ack, where an unknown one means failed."""
    if text in _COMPLETED:
        return "completed"
    return _SIGNALS.get(text or "", "failed")


def _text(error: object) -> str:
    if error is None or isinstance(error, str):
        return error or ""
    return msgspec.json.encode(error).decode()


def _conflation(parameters: dict[str, str], auto_ack: bool) -> bool | None:
    """What the pop says about last-value delivery; two things that it cannot mean are refused."""
    text = parameters.get("conflation")
    if text is None:
        return None
    asked = flag(text)
    if asked and parameters.get("consumerGroup") in (None, "", QUEUE_MODE):
        raise bad_request("conflation needs a consumerGroup: it is a property of the group")
    if asked and auto_ack:
        raise bad_request("conflation and autoAck together would lose the newest message")
    return asked


def _piloted(
    command: Pop, parameters: dict[str, str], batch: int | None, partitions: int | None
) -> Pop:
    """Autopilot fills in only the knobs that the client did not send."""
    if not flag(parameters.get("autopilot")) or (batch is not None and partitions is not None):
        return command
    if batch is None and partitions is None:
        return msgspec.structs.replace(command, autopilot="both")
    return msgspec.structs.replace(command, autopilot="batch" if batch is None else "partitions")


def _subscribed(command: Pop, parameters: dict[str, str], default_mode: str) -> Pop:
    """Where a new group begins; an instant wins over a mode, and an unreadable one is ignored."""
    start = parameters.get("subscriptionFrom")
    if start == "now":
        return msgspec.structs.replace(command, subscribe="new")
    instant_us = parse_rfc3339(start.replace(" ", "+")) if start else None
    if instant_us is not None:
        return msgspec.structs.replace(command, subscribe="from", subscribe_from_us=instant_us)
    mode = parameters.get("subscriptionMode") or default_mode
    is_new = mode in ("new", "new-only")
    return command if is_new else msgspec.structs.replace(command, subscribe="all")
