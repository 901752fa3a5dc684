"""The operations on ephemeral queues."""

from __future__ import annotations

from typing import Final

from . import parse_ephemeral, render_ephemeral, surface_forms
from .answer import ErrorBody
from .surface import Operation, number, switch, text

_BASE: Final = "/api/v1/ephemeral"
_QUEUE: Final = text("queue", "The queue.", required=True)

EPHEMERAL_OPERATIONS: Final = (
    Operation(
        "POST",
        f"{_BASE}/push",
        "Put messages into the leader's memory, all or none.",
        {201: render_ephemeral.RingPushedBody, 503: ErrorBody},
        body=parse_ephemeral._PushBody,
    ),
    Operation(
        "GET",
        f"{_BASE}/pop",
        "Take messages; an empty list when there is none.",
        {200: render_ephemeral.RingPoppedBody},
        query=(
            _QUEUE,
            text("partition", "The only one to look at."),
            text("group", "The group; none for the queue's own."),
            number("batch", "Messages at most; 1."),
            switch("wait", "Whether to wait for messages."),
            number("timeout", "How long to wait, in milliseconds."),
            switch("autoAck", "Whether they are settled at delivery."),
        ),
    ),
    Operation(
        "POST",
        f"{_BASE}/ack",
        "Settle messages.",
        {200: render_ephemeral.RingAckedBody},
        body=parse_ephemeral._AckBody,
    ),
    Operation(
        "POST",
        f"{_BASE}/configure",
        "Declare a queue and its bounds.",
        {201: render_ephemeral.RingDeclaredBody},
        body=surface_forms.DeclareForm,
    ),
    Operation(
        "POST",
        f"{_BASE}/reset",
        "Drop what a queue holds.",
        {200: render_ephemeral.RingResetBody},
        body=parse_ephemeral._QueueBody,
    ),
    Operation(
        "DELETE",
        f"{_BASE}/queue/{{queue}}",
        "Drop a queue and its declaration.",
        {200: render_ephemeral.RingDeletedBody},
    ),
    Operation(
        "GET",
        f"{_BASE}/queues",
        "All queues that are declared or in use.",
        {200: render_ephemeral.RingQueuesBody},
    ),
    Operation(
        "GET",
        f"{_BASE}/queues/{{queue}}/depth",
        "One queue in detail.",
        {200: render_ephemeral.RingDepthBody, 404: ErrorBody},
        query=(text("group", "As this group sees it."),),
    ),
)
