"""The operations of producers and consumers: messages, leases, transactions, timers."""

from __future__ import annotations

from typing import Final

from . import bodies, parse_messages, parse_reads, surface_answers, surface_forms
from .surface import GROUP_EXAMPLE, QUEUE_EXAMPLE, Operation, Parameter, number, switch, text

GROUP: Final = text("consumerGroup", "The group; none for the queue's own.", GROUP_EXAMPLE)
QUEUE: Final = text("queue", "The queue.", QUEUE_EXAMPLE)

_POP: Final = (
    number("batch", "Messages at most, over all partitions; 200."),
    number("partitions", "Partitions at most; 1, and 0 for any number."),
    GROUP,
    switch("wait", "Whether to wait for messages."),
    Parameter(
        "timeout",
        {"type": "integer", "minimum": 0, "maximum": 60_000, "examples": [10]},
        "How long, in ms; 30000.",
    ),
    number("leaseSeconds", "How long the messages are claimed; the queue's own when missing."),
    switch("autoAck", "Commit at delivery; `commitOnDelivery` is the same."),
    text("subscriptionMode", "Where a new group begins: new, or all.", "all"),
    text("subscriptionFrom", "The same as an RFC 3339 time, or now."),
    switch("conflation", "Whether a new group gets only the newest message of each partition."),
    switch("autopilot", "Choose batch and partitions where they are not given."),
)

MESSAGE_OPERATIONS: Final = (
    Operation(
        "POST",
        "/api/v1/push",
        "Append messages; one result each, in order.",
        {201: list[bodies.PushedBody]},
        body=parse_messages._PushBody,
        grows=True,
    ),
    Operation(
        "GET",
        "/api/v1/pop/queue/{queue}",
        "Claim messages of a queue under a lease; 204 when there are none.",
        {200: bodies.PopBody, 204: None},
        query=_POP,
    ),
    Operation(
        "GET",
        "/api/v1/pop/queue/{queue}/partition/{partition}",
        "Claim messages of one partition under a lease; 204 when there are none.",
        {200: bodies.PopBody, 204: None},
        query=_POP,
    ),
    Operation(
        "GET",
        "/api/v1/pop",
        "Claim messages of queues by their labels; never waits.",
        {200: bodies.PopBody, 204: None, 400: surface_answers.RefusedAnswer},
        query=(text("namespace", "One label."), text("task", "The other label."), *_POP),
    ),
    Operation(
        "POST",
        "/api/v1/ack",
        "Settle one message.",
        {200: list[bodies.AckedBody]},
        body=parse_messages.AckBody,
    ),
    Operation(
        "POST",
        "/api/v1/ack/batch",
        "Settle messages; one result each, in order.",
        {200: list[bodies.AckedBody]},
        body=parse_messages._AckBatchBody,
    ),
    Operation(
        "POST",
        "/api/v1/lease/{lease}/extend",
        "Renew a lease; `success` is false when it no longer lives.",
        {200: bodies.ExtendBody},
        body=surface_forms.ExtendForm,
        body_optional=True,
    ),
    Operation(
        "POST",
        "/api/v1/transaction",
        "Acks, pushes, keys and timers that apply together or not at all.",
        {200: surface_answers.TransactionAnswer},
        body=surface_forms.TransactionForm,
        grows=True,
        coded=True,
    ),
    Operation(
        "POST",
        "/api/v1/timers",
        "Schedule, reschedule or cancel timers.",
        {200: bodies.TimersBody},
        body=surface_forms.TimersForm,
        grows=True,
        coded=True,
    ),
    Operation(
        "GET",
        "/api/v1/timers/{queue}",
        "Timers of a queue, by key; with `mode=count` how many.",
        {200: (bodies.TimerListBody, surface_answers.CountBody)},
        query=(
            text("after", "Continue behind this key."),
            text("prefix", "Only keys that begin like this."),
            number("limit", "Timers at most; 100."),
            text("mode", "`count` for their number alone."),
        ),
    ),
    Operation(
        "GET",
        "/api/v1/timers/{queue}/{key}",
        "One timer; the key may hold slashes.",
        {200: surface_answers.TimerFoundBody},
    ),
    Operation(
        "DELETE",
        "/api/v1/timers/{queue}/{key}",
        "Cancel a timer; the key may hold slashes.",
        {200: bodies.TimerBody},
        query=(text("txn", "Cancel it only if it carries this transaction id."),),
    ),
    Operation(
        "POST",
        "/api/v1/fetch",
        "Read messages by offset, without a lease.",
        {200: bodies.FetchBody},
        body=parse_reads._FetchBody,
    ),
)
