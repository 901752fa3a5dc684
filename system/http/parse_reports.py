"""Status and analytics: what a report is to cover."""

from __future__ import annotations

from typing import Final

import msgspec

from .answer import Answer, RefusedError, bad_request, error_answer, json_answer
from .incoming import Incoming, clamped, whole
from .request import ReportRequest
from .timestamps import parse_rfc3339

GROUPINGS: Final = ("namespace", "task", "queue")
INTERVALS_S: Final = {"minute": 60, "hour": 3600, "day": 86_400}

_LIMITS: Final = {"dlq-signatures": (200, 1000), "partition-liveness": (20, 200)}


def status(incoming: Incoming) -> ReportRequest:
    """GET /api/v1/status and /api/v1/status/analytics."""
    name = "status" if len(incoming.parts) == 4 else "volume"
    return _report(incoming, name)


def status_queues(incoming: Incoming) -> ReportRequest:
    """GET /api/v1/status/queues?queue=&namespace=&task=&limit=&offset=."""
    return msgspec.structs.replace(_report(incoming, "queues"), is_paged=True)


def analytics(incoming: Incoming) -> ReportRequest:
    """GET /api/v1/analytics/:report."""
    return _report(incoming, incoming.parts[4])


def resources(incoming: Incoming) -> ReportRequest:
    """GET /api/v1/resources/overview, /queues, /namespaces and /tasks."""
    return _report(incoming, incoming.parts[4])


def buffers(_: Incoming) -> Answer:
    """GET /api/v1/status/buffers: nothing is ever spooled here."""
    return json_answer({"pending": 0, "failed": 0, "dbHealthy": True, "worker": 0})


def shared_state(_: Incoming) -> Answer:
    """GET /api/v1/system/shared-state: all state is in the log."""
    return json_answer({"enabled": False, "reason": "replicated_log"})


def alive(_: Incoming) -> Answer:
    """GET /status: the process answers."""
    return json_answer({"status": "ok", "engine": "atleastonce"})


def _report(incoming: Incoming, name: str) -> ReportRequest:
    parameters = incoming.parameters()
    group_by = parameters.get("groupBy") or None
    if group_by not in (None, *GROUPINGS):
        raise RefusedError(error_answer(400, "bad_request", "bad groupBy"))
    if name == "dlq-signatures" and not parameters.get("queue"):
        raise RefusedError(error_answer(400, "bad_request", "queue required"))
    default, most = _LIMITS.get(name, (100, 1000))
    interval = parameters.get("interval", "")
    # Only these two tell an empty label from none at all.
    keeps_empty = name in ("workload", "partition-liveness")
    namespace, task = parameters.get("namespace"), parameters.get("task")
    return ReportRequest(
        name,
        _instant_us("from", parameters.get("from")),
        _instant_us("to", parameters.get("to")),
        parameters.get("queue") or None,
        namespace if keeps_empty else namespace or None,
        task if keeps_empty else task or None,
        group_by,
        interval if interval in INTERVALS_S else "hour",
        clamped(whole(parameters.get("limit")), default, 1, most),
        clamped(whole(parameters.get("offset")), 0, 0, 1 << 31),
    )


def _instant_us(name: str, text: str | None) -> int | None:
    if not text:
        return None
    instant_us = parse_rfc3339(text.replace(" ", "+"))
    if instant_us is None:
        raise bad_request(f"{name} must be an RFC 3339 time, got {text!r}")
    return instant_us
