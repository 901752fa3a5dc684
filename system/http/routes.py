"""The routes of Queen's HTTP API that this broker serves: requests to commands and queries; pure.

Served: push, pop of a queue, of one partition or by labels, ack, ack/batch, lease extend,
transaction (acks, pushes, KV, timers, positions), timers, KV, locks, configure, queue
deletion and reads, depth, dead letters, messages, consumer groups, traces, fetch and
partitions/changed, ephemeral queues, status and analytics, streaming queries, health and metrics,
and what describes all of these (see `openapi`). Everything else is 404 `no_such_route`.

Null means absent (except inside configure's options), bodies may be missing where everything in
them is optional, and unknown keys and parameters are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from . import (
    parse_administration,
    parse_ephemeral,
    parse_kv,
    parse_members,
    parse_messages,
    parse_positions,
    parse_reads,
    parse_reports,
    parse_streams,
    parse_timers,
    parse_transaction,
)
from .answer import (
    Answer,
    RefusedError,
    empty_pop_answer,
    error_answer,
    no_such_route,
    too_large_answer,
)
from .incoming import DEFAULT_SUBSCRIPTION_MODE, Incoming
from .rendering import render
from .request import (
    FetchRequest,
    Local,
    MembersRequest,
    PopRequest,
    ReadRequest,
    ReportRequest,
    Request,
    RingRequest,
    Write,
)

__all__ = [
    "BODY_BYTES_MAX",
    "Answer",
    "FetchRequest",
    "Local",
    "MembersRequest",
    "PopRequest",
    "ReadRequest",
    "ReportRequest",
    "Request",
    "RingRequest",
    "Write",
    "empty_pop_answer",
    "error_answer",
    "render",
    "route",
    "too_large_answer",
]

BODY_BYTES_MAX: Final = 64 << 20
REQUEST_ID_MAX: Final = 200

Parse = Callable[[Incoming], Request | Answer]

_FIXED: Final[dict[tuple[str, str], Parse]] = {
    ("POST", "/api/v1/push"): parse_messages.push,
    ("POST", "/api/v1/ack"): parse_messages.ack,
    ("POST", "/api/v1/ack/batch"): parse_messages.ack_batch,
    ("POST", "/api/v1/transaction"): parse_transaction.transaction,
    ("POST", "/api/v1/timers"): parse_timers.timers,
    ("POST", "/api/v1/configure"): parse_reads.configure,
    ("POST", "/api/v1/fetch"): parse_reads.fetch,
    ("POST", "/api/v1/fetch/offsets"): parse_reads.offsets,
    ("GET", "/api/v1/pop"): parse_messages.discover,
    ("POST", "/api/v1/kv"): parse_kv.kv,
    ("POST", "/api/v1/locks"): parse_kv.locks,
    ("GET", "/api/v1/dlq"): parse_reads.dead_letters,
    ("DELETE", "/api/v1/dlq"): parse_administration.purge,
    ("GET", "/api/v1/messages"): parse_administration.list_messages,
    ("POST", "/api/v1/traces"): parse_administration.add_trace,
    ("GET", "/api/v1/traces/names"): parse_administration.traces,
    ("POST", "/api/v1/partitions/changed"): parse_administration.changed,
    ("POST", "/api/v1/stats/refresh"): parse_administration.refresh_stats,
    ("GET", "/api/v1/consumer-groups"): parse_administration.groups,
    ("POST", "/api/v1/consumer-groups/positions"): parse_positions.positions,
    ("GET", "/api/v1/resources/queues"): parse_reports.resources,
    ("GET", "/api/v1/resources/namespaces"): parse_reports.resources,
    ("GET", "/api/v1/resources/tasks"): parse_reports.resources,
    ("GET", "/api/v1/resources/overview"): parse_reports.resources,
    ("GET", "/api/v1/resources/partitions"): parse_administration.partitions,
    ("GET", "/api/v1/status"): parse_reports.status,
    ("GET", "/api/v1/status/queues"): parse_reports.status_queues,
    ("GET", "/api/v1/status/analytics"): parse_reports.status,
    ("GET", "/api/v1/status/buffers"): parse_reports.buffers,
    ("GET", "/api/v1/analytics/queue-lag"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/queue-ops"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/queue-parked-replicas"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/retention"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/workload"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/dlq-signatures"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/partition-liveness"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/system-metrics"): parse_reports.analytics,
    ("GET", "/api/v1/analytics/worker-metrics"): parse_reports.analytics,
    ("GET", "/api/v1/system/shared-state"): parse_reports.shared_state,
    ("GET", "/status"): parse_reports.alive,
    ("POST", "/api/v1/ephemeral/push"): parse_ephemeral.push,
    ("GET", "/api/v1/ephemeral/pop"): parse_ephemeral.pop,
    ("POST", "/api/v1/ephemeral/ack"): parse_ephemeral.ack,
    ("POST", "/api/v1/ephemeral/configure"): parse_ephemeral.configure,
    ("POST", "/api/v1/ephemeral/reset"): parse_ephemeral.reset,
    ("GET", "/api/v1/ephemeral/queues"): parse_ephemeral.queues,
    ("GET", "/api/v1/cluster/members"): parse_members.show,
    ("POST", "/api/v1/cluster/members"): parse_members.add,
    ("PUT", "/api/v1/cluster/members"): parse_members.choose,
    ("POST", "/streams/v1/queries"): parse_streams.register,
    ("POST", "/streams/v1/state/get"): parse_streams.state,
    ("POST", "/streams/v1/cycle"): parse_streams.cycle,
    ("GET", "/health"): lambda _: Local("health"),
    ("GET", "/metrics"): lambda _: Local("metrics"),
    ("GET", "/metrics/prometheus"): lambda _: Local("prometheus"),
    ("GET", "/"): lambda _: Local("page"),
    ("GET", "/openapi.json"): lambda _: Local("openapi"),
}


def route(
    method: str,
    target: str,
    headers: Mapping[str, str],
    body: bytes,
    request_id: str,
    subject: str | None = None,
    subscription_mode: str = DEFAULT_SUBSCRIPTION_MODE,
) -> Request | Answer:
    """Say what a request asks for, or answer it at once.

    Args:
        method: In capitals.
        target: Path and query as sent, percent-encoded.
        headers: Lower-case names.
        body: Complete, possibly empty.
        request_id: From `x-request-id`, or minted by the node.
        subject: Who asks (see `auth`), stamped on what they push.
        subscription_mode: Where a group begins whose first pop does not say.

    Returns:
        A request for the node to carry out, or an answer (400, 403, 404, 413, or an empty result).
    """
    if len(body) > BODY_BYTES_MAX:
        return too_large_answer()
    if not request_id.isascii() or len(request_id) > REQUEST_ID_MAX:
        text = f"x-request-id must be at most {REQUEST_ID_MAX} ASCII characters"
        return error_answer(400, "bad_request", text)
    if not target.isascii():
        return error_answer(400, "bad_request", "the request target must be percent-encoded")
    path, _, query = target.partition("?")
    parts = path.split("/")
    parse = _FIXED.get((method, path)) or _named(method, parts)
    if parse is None:
        return no_such_route()
    try:
        return parse(
            Incoming(parts, query, headers, body, request_id, method, subject, subscription_mode)
        )
    except RefusedError as refused:
        return refused.answer


def _named(method: str, parts: list[str]) -> Parse | None:
    """The route whose path has names in it."""
    if parts[:3] != ["", "api", "v1"]:
        return None
    return (
        _named_messages(method, parts)
        or _named_administration(method, parts)
        or _named_members(method, parts)
    )


def _named_messages(method: str, parts: list[str]) -> Parse | None:
    match method, parts[3:]:
        case ("GET", ["pop", "queue", _] | ["pop", "queue", _, "partition", _]):
            return parse_messages.pop
        case ("POST", ["lease", _, "extend"]):
            return parse_messages.extend
        case ("GET", ["timers", _, *_]):
            return parse_timers.get_timers
        case ("DELETE", ["timers", _, _, *_]):
            return parse_timers.cancel_timer
        case ("GET" | "PUT" | "DELETE", ["kv", _, _, *_]):
            return parse_kv.kv_path
        case ("DELETE", ["ephemeral", "queue", _]):
            return parse_ephemeral.delete
        case ("GET", ["ephemeral", "queues", _, "depth"]):
            return parse_ephemeral.depth
    return None


def _named_members(method: str, parts: list[str]) -> Parse | None:
    match method, parts[3:]:
        case ("POST", ["cluster", "members", _, "promote"]):
            return parse_members.promote
        case ("POST", ["cluster", "members", _, "replace"]):
            return parse_members.replace
        case ("DELETE", ["cluster", "members", _]):
            return parse_members.remove
    return None


def _named_administration(method: str, parts: list[str]) -> Parse | None:
    match method, parts[3:]:
        case ("GET", ["resources", "queues", _, "depth"]):
            return parse_reads.depth
        case ("GET", ["resources" | "status", "queues", _]):
            return parse_administration.queue
        case ("DELETE", ["resources", "queues", _]):
            return parse_reads.delete_queue
        case ("GET", ["messages", _, _]):
            return parse_administration.get_message
        case ("DELETE", ["messages", _, _]):
            return parse_reads.delete_message
        case ("POST", ["messages", _, _, "retry"]):
            return parse_administration.retry_message
        case ("POST", ["dlq", _, "replay"]):
            return parse_administration.replay
        case ("GET", ["traces", _, _]):
            return parse_administration.traces
        case ("GET", ["consumer-groups", _]):
            return parse_administration.groups
        case ("DELETE", ["consumer-groups", _] | ["consumer-groups", _, "queues", _]):
            return parse_administration.delete_group
        case ("POST", ["consumer-groups", _, "subscription"]):
            return parse_administration.resubscribe
        case (
            "POST",
            ["consumer-groups", _, "queues", _, "seek"]
            | ["consumer-groups", _, "queues", _, "partitions", _, "seek"],
        ):
            return parse_administration.seek
    return None
