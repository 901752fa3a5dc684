"""The operations that report: status, analytics, and lists over all queues."""

from __future__ import annotations

from typing import Any, Final

from . import parse_reads, surface_answers
from .inspection_bodies import OffsetsBody
from .surface import Operation, number, text

Report = dict[str, Any]

_WINDOW: Final = (
    text("from", "RFC 3339; an hour before `to` when missing."),
    text("to", "RFC 3339; now when missing."),
    text("queue", "Only this queue."),
)
_LABELS: Final = (text("namespace", "Only these queues."), text("task", "Only these queues."))
_GROUP_BY: Final = (text("groupBy", "namespace, task or queue."),)
_PAGE: Final = (number("limit", "Rows at most."), number("offset", "Rows to leave out."))
_ANALYTICS: Final = "/api/v1/analytics"

REPORT_OPERATIONS: Final = (
    Operation(
        "POST",
        "/api/v1/fetch/offsets",
        "Where logs stood at a time.",
        {200: OffsetsBody},
        body=parse_reads._OffsetsBody,
    ),
    Operation(
        "GET",
        "/api/v1/resources/overview",
        "All queues added up.",
        {200: Report},
    ),
    Operation(
        "GET",
        "/api/v1/resources/partitions",
        "Partitions of all queues, or of one.",
        {200: surface_answers.PartitionsAnswer},
        query=(text("queue", "Only this queue."), *_PAGE),
    ),
    Operation(
        "GET",
        "/api/v1/status",
        "Queues as they stand, and what was done in a window.",
        {200: Report},
        query=(*_WINDOW, *_LABELS),
    ),
    Operation(
        "GET",
        "/api/v1/status/analytics",
        "Messages pushed, over time.",
        {200: Report},
        query=(*_WINDOW, *_LABELS, text("interval", "minute, hour or day.")),
    ),
    Operation(
        "GET",
        "/api/v1/status/buffers",
        "Nothing is ever spooled.",
        {200: Report},
        reach="node",
    ),
    Operation("GET", "/status", "Whether the process answers.", {200: Report}, reach="node"),
    Operation(
        "GET",
        "/api/v1/system/shared-state",
        "Nodes share nothing but the log.",
        {200: Report},
        reach="node",
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/queue-lag",
        "Ages of messages at their delivery.",
        {200: list[Report]},
        query=_WINDOW,
    ),
    Operation("GET", f"{_ANALYTICS}/queue-ops", "What was done.", {200: Report}, query=_WINDOW),
    Operation(
        "GET",
        f"{_ANALYTICS}/queue-parked-replicas",
        "How many pops waited, and where.",
        {200: Report},
        query=_WINDOW,
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/retention",
        "What retention by time let go of.",
        {200: Report},
        query=(*_WINDOW, *_GROUP_BY),
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/workload",
        "Who does how much, by label.",
        {200: Report},
        query=(*_WINDOW, *_LABELS, *_GROUP_BY),
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/dlq-signatures",
        "What a queue's dead letters have in common.",
        {200: Report},
        query=(
            text("queue", "The queue.", required=True),
            number("limit", "Dead letters to look at."),
        ),
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/partition-liveness",
        "How many partitions are written to.",
        {200: Report},
        query=(text("queue", "Only this queue."), *_LABELS, number("limit", "Rows at most.")),
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/system-metrics",
        "The leader's process.",
        {200: Report},
        query=_WINDOW,
    ),
    Operation(
        "GET",
        f"{_ANALYTICS}/worker-metrics",
        "What the leader did.",
        {200: Report},
        query=_WINDOW,
    ),
)
