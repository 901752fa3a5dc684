"""The routes of Queen's HTTP API that this broker serves: requests to commands and queries; pure.

Served: push, pop of a queue or of one partition, ack, ack/batch, lease extend, transaction (acks,
pushes, timers; `kv` and `positions` are refused), timers, configure, queue deletion, depth, dead
letter list and deletion, fetch, health and metrics. Everything else is 404 `no_such_route`.

Null means absent (except inside configure's options), bodies may be missing where everything in
them is optional, and unknown keys and parameters are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from . import parse_messages, parse_reads, parse_timers, parse_transaction
from .answer import (
    Answer,
    RefusedError,
    empty_pop_answer,
    error_answer,
    no_such_route,
    too_large_answer,
)
from .incoming import Incoming
from .rendering import render
from .request import FetchRequest, Local, PopRequest, ReadRequest, Request, Write

__all__ = [
    "BODY_BYTES_MAX",
    "Answer",
    "FetchRequest",
    "Local",
    "PopRequest",
    "ReadRequest",
    "Request",
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
    ("GET", "/api/v1/dlq"): parse_reads.dead_letters,
    ("GET", "/health"): lambda _: Local("health"),
    ("GET", "/metrics"): lambda _: Local("metrics"),
    ("GET", "/metrics/prometheus"): lambda _: Local("prometheus"),
    ("GET", "/"): lambda _: Local("page"),
}


def route(
    method: str, target: str, headers: Mapping[str, str], body: bytes, request_id: str
) -> Request | Answer:
    """Say what a request asks for, or answer it at once.

    Args:
        method: In capitals.
        target: Path and query as sent, percent-encoded.
        headers: Lower-case names.
        body: Complete, possibly empty.
        request_id: From `x-request-id`, or minted by the node.

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
        return parse(Incoming(parts, query, headers, body, request_id))
    except RefusedError as refused:
        return refused.answer


def _named(method: str, parts: list[str]) -> Parse | None:
    """The route whose path has names in it."""
    if parts[:3] != ["", "api", "v1"]:
        return None
    match method, parts[3:]:
        case ("GET", ["pop", "queue", _] | ["pop", "queue", _, "partition", _]):
            return parse_messages.pop
        case ("POST", ["lease", _, "extend"]):
            return parse_messages.extend
        case ("GET", ["resources", "queues", _, "depth"]):
            return parse_reads.depth
        case ("DELETE", ["resources", "queues", _]):
            return parse_reads.delete_queue
        case ("DELETE", ["messages", _, _]):
            return parse_reads.delete_message
        case ("GET", ["timers", _, *_]):
            return parse_timers.get_timers
        case ("DELETE", ["timers", _, _, *_]):
            return parse_timers.cancel_timer
    return None
