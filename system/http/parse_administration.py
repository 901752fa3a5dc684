"""Operators' requests: consumer groups, dead letters, messages, traces, queues."""

from __future__ import annotations

from typing import Final

import msgspec

from ..broker.administrative import (
    AddTrace,
    DeleteGroup,
    PurgeDeadLetters,
    ReplayDeadLetter,
    Resubscribe,
    SeekGroup,
)
from ..broker.commands import QUEUE_MODE
from ..broker.queries import (
    Changed,
    ChangedQuery,
    GroupList,
    MessageGet,
    MessageList,
    PartitionList,
    QueueList,
    TraceList,
)
from .answer import Answer, bad_request, json_answer
from .incoming import Incoming, check_id, check_names, clamped, decode, flag, whole
from .request import ReadRequest, Write
from .timestamps import parse_rfc3339

CHANGED_ENTRIES_MAX: Final = 1024
CHANGED_PAGE_MAX: Final = 1000
PARTITIONS: Final = 100
PARTITIONS_MAX: Final = 1000
MESSAGES: Final = 200
MESSAGES_MAX: Final = 1000
LAG_S_MIN: Final = 60
FOR_EVER_US: Final = 1 << 62


class _SeekBody(msgspec.Struct, rename="camel"):
    to_end: bool | None = None
    timestamp: str | None = None


class _SubscriptionBody(msgspec.Struct, rename="camel"):
    subscription_timestamp: str | None = None


class _ReplayBody(msgspec.Struct):
    queue: str | None = None
    partition: str | None = None


class _TraceBody(msgspec.Struct, rename="camel"):
    transaction_id: str
    partition_id: str | int
    data: msgspec.Raw = msgspec.field(default_factory=lambda: msgspec.Raw(b"null"))
    consumer_group: str | None = None
    trace_names: list[str] | None = None
    event_type: str | None = None


class _ChangedEntryBody(msgspec.Struct):
    queue: str
    since: str | None = None
    after: str | None = None
    limit: int | None = None


class _ChangedBody(msgspec.Struct):
    entries: list[_ChangedEntryBody]


_SEEK: Final = msgspec.json.Decoder(_SeekBody)
_SUBSCRIPTION: Final = msgspec.json.Decoder(_SubscriptionBody)
_REPLAY: Final = msgspec.json.Decoder(_ReplayBody)
_TRACE: Final = msgspec.json.Decoder(_TraceBody)
_CHANGED: Final = msgspec.json.Decoder(_ChangedBody)


def delete_group(incoming: Incoming) -> Write:
    """DELETE /api/v1/consumer-groups/:group, with or without /queues/:queue."""
    queue = incoming.part(6) if len(incoming.parts) > 5 else None
    forgets = incoming.parameters().get("deleteMetadata")
    command = DeleteGroup(
        incoming.request_id, incoming.part(4), queue, forgets is None or flag(forgets)
    )
    return Write(command)


def seek(incoming: Incoming) -> Write:
    """POST /api/v1/consumer-groups/:group/queues/:queue[/partitions/:partition]/seek."""
    body = decode(_SEEK, incoming.body or b"{}")
    partition = incoming.part(8) if len(incoming.parts) > 8 else None
    since_us = None
    if body.timestamp is not None and not body.to_end:
        since_us = _instant_us("timestamp", body.timestamp)
    elif not body.to_end and partition is None:
        raise bad_request("seek needs toEnd: true or a timestamp")
    group, queue = incoming.part(4), incoming.part(6)
    check_names(queue, group)
    return Write(SeekGroup(incoming.request_id, group, queue, since_us, partition))


def resubscribe(incoming: Incoming) -> Write:
    """POST /api/v1/consumer-groups/:group/subscription."""
    text = decode(_SUBSCRIPTION, incoming.body).subscription_timestamp
    if text is None:
        raise bad_request("subscriptionTimestamp is missing")
    since_us = _instant_us("subscriptionTimestamp", text)
    return Write(Resubscribe(incoming.request_id, incoming.part(4), since_us))


def groups(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/consumer-groups, /lagging?minLagSeconds= and /:group."""
    if len(incoming.parts) == 4:
        return ReadRequest(GroupList(), "list")
    name = incoming.part(4)
    if name == "lagging":
        lag_s = clamped(whole(incoming.parameters().get("minLagSeconds")), LAG_S_MIN, 1, 1 << 31)
        return ReadRequest(GroupList(lag_s_min=lag_s), "lagging")
    return ReadRequest(GroupList(name), "group")


def replay(incoming: Incoming) -> Write:
    """POST /api/v1/dlq/:id/replay; the body may name another queue or partition."""
    body = decode(_REPLAY, incoming.body or b"{}")
    if body.queue is not None:
        check_names(body.queue, body.partition or "")
    name = incoming.part(4)
    return Write(
        ReplayDeadLetter(
            incoming.request_id, name, queue=body.queue, partition=body.partition or None
        ),
        name,
    )


def retry_message(incoming: Incoming) -> Write:
    """POST /api/v1/messages/:partitionId/:transactionId/retry: its newest dead letter."""
    partition_id, transaction_id = incoming.part(4), incoming.part(5)
    command = ReplayDeadLetter(incoming.request_id, "", partition_id, transaction_id)
    return Write(command, transaction_id)


def purge(incoming: Incoming) -> Write:
    """DELETE /api/v1/dlq?queue=&consumerGroup=."""
    parameters = incoming.parameters()
    queue = parameters.get("queue")
    if not queue:
        raise bad_request("queue is missing")
    group = parameters.get("consumerGroup") or None
    return Write(PurgeDeadLetters(incoming.request_id, queue, group))


def get_message(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/messages/:partitionId/:transactionId."""
    return ReadRequest(MessageGet(incoming.part(4), incoming.part(5)))


def list_messages(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/messages; from the beginning when no `from` is given."""
    parameters = incoming.parameters()
    start, end = parameters.get("from"), parameters.get("to")
    return ReadRequest(
        MessageList(
            _instant_us("from", start) if start else 0,
            _instant_us("to", end) if end else FOR_EVER_US,
            parameters.get("queue") or None,
            parameters.get("partition") or None,
            parameters.get("status") or None,
            clamped(whole(parameters.get("limit")), MESSAGES, 0, MESSAGES_MAX),
            clamped(whole(parameters.get("offset")), 0, 0, 1 << 31),
        )
    )


def add_trace(incoming: Incoming) -> Write:
    """POST /api/v1/traces."""
    body = decode(_TRACE, incoming.body)
    for name in (body.consumer_group, body.event_type, *(body.trace_names or ())):
        check_id("a trace's group, type or name", name or "")
    command = AddTrace(
        incoming.request_id,
        str(body.partition_id),
        body.transaction_id,
        body.consumer_group or QUEUE_MODE,
        tuple(dict.fromkeys(body.trace_names or ())),
        body.event_type or "info",
        bytes(body.data),
    )
    return Write(command)


def traces(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/traces/names, /by-name/:name and /:partitionId/:transactionId."""
    if len(incoming.parts) == 5:
        return ReadRequest(TraceList())
    if incoming.parts[4] == "by-name":
        return ReadRequest(TraceList(name=incoming.part(5)))
    return ReadRequest(TraceList(incoming.part(4), incoming.part(5)))


def queue(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/resources/queues/:queue and /api/v1/status/queues/:queue."""
    return ReadRequest(QueueList(incoming.part(5)), f"{incoming.parts[3]}-queue")


def partitions(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/resources/partitions?queue=&limit=&offset=."""
    parameters = incoming.parameters()
    query = PartitionList(
        parameters.get("queue") or None,
        clamped(whole(parameters.get("limit")), PARTITIONS, 1, PARTITIONS_MAX),
        clamped(whole(parameters.get("offset")), 0, 0, 1 << 31),
    )
    return ReadRequest(query)


def changed(incoming: Incoming) -> ReadRequest:
    """POST /api/v1/partitions/changed."""
    body = decode(_CHANGED, incoming.body)
    if len(body.entries) > CHANGED_ENTRIES_MAX:
        raise bad_request(f"{len(body.entries)} entries; at most {CHANGED_ENTRIES_MAX}")
    entries = [
        ChangedQuery(
            entry.queue,
            _instant_us("since", entry.since) if entry.since else 0,
            _after(entry.after),
            clamped(entry.limit, CHANGED_PAGE_MAX, 1, CHANGED_PAGE_MAX),
        )
        for entry in body.entries
    ]
    return ReadRequest(Changed(tuple(entries)))


def refresh_stats(_: Incoming) -> Answer:
    """POST /api/v1/stats/refresh: counts are never stale here."""
    return json_answer({"success": True})


def _after(text: str | None) -> int:
    number = whole(text) if text else 0
    if number is None:
        raise bad_request(f"after must be what next said, got {text!r}")
    return number


def _instant_us(name: str, text: str) -> int:
    instant_us = parse_rfc3339(text.replace(" ", "+"))
    if instant_us is None:
        raise bad_request(f"{name} must be an RFC 3339 time, got {text!r}")
    return instant_us
