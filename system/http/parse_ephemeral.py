"""Ephemeral queues: requests to actions and declarations."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from ..broker.commands import DEFAULT_PARTITION
from ..broker.ephemeral_options import WINDOW_MS_MAX, DeclareRing, RingOptions, Window
from ..broker.ring_actions import (
    AckRing,
    DeleteRing,
    ListRings,
    PopRing,
    PushRing,
    ResetRing,
    RingDepth,
)
from .answer import RefusedError, error_answer
from .incoming import Incoming, clamped, decode, flag, whole
from .parse_messages import POP_WAIT_MS, POP_WAIT_MS_MAX
from .request import RingRequest, Write

Body = TypeVar("Body")

ITEMS_MAX: Final = 10_000
NAME_BYTES_MAX: Final = 512
NUMBER_MAX: Final = 1 << 40

_OPTIONS: Final = {
    "maxBytes": "max_bytes",
    "maxLength": "max_length",
    "ttlSeconds": "ttl_s",
    "leaseSeconds": "lease_s",
    "retryLimit": "retry_limit",
}
_KNOWN: Final = (*_OPTIONS, "policy", "windowBuffer")
_POLICIES: Final = ("reject", "dropOldest")


class _Message(msgspec.Struct):
    payload: Raw


class _PushBody(msgspec.Struct):
    queue: str
    messages: list[_Message]
    partition: str | None = None


class _Ack(msgspec.Struct):
    id: str
    status: str | None = None


class _AckBody(msgspec.Struct):
    queue: str
    acks: list[_Ack]
    group: str | None = None


class _ConfigureBody(msgspec.Struct):
    queue: str
    options: dict[str, object] | None = None


class _QueueBody(msgspec.Struct):
    queue: str


_PUSH: Final = msgspec.json.Decoder(_PushBody)
_ACK: Final = msgspec.json.Decoder(_AckBody)
_CONFIGURE: Final = msgspec.json.Decoder(_ConfigureBody)
_QUEUE: Final = msgspec.json.Decoder(_QueueBody)


def push(incoming: Incoming) -> RingRequest:
    """POST /api/v1/ephemeral/push."""
    body = _decoded(_PUSH, incoming.body)
    _check_count(len(body.messages))
    partition = body.partition or DEFAULT_PARTITION
    _check_names(body.queue, partition)
    payloads = tuple([bytes(message.payload) for message in body.messages])
    return RingRequest(PushRing(body.queue, partition, payloads))


def pop(incoming: Incoming) -> RingRequest:
    """GET /api/v1/ephemeral/pop?queue=&partition=&group=&batch=&wait=&timeout=&autoAck=."""
    parameters = incoming.parameters()
    queue, partition = parameters.get("queue", ""), parameters.get("partition") or None
    group = parameters.get("group") or ""
    _check_names(queue, partition or "", group)
    is_final = flag(parameters.get("autoAck")) or flag(parameters.get("commitOnDelivery"))
    batch = clamped(whole(parameters.get("batch")), 1, 1, ITEMS_MAX)
    wait_ms = clamped(whole(parameters.get("timeout")), POP_WAIT_MS, 0, POP_WAIT_MS_MAX)
    return RingRequest(
        PopRing(queue, partition, group, batch, is_final),
        wait_ms if flag(parameters.get("wait")) else 0,
    )


def ack(incoming: Incoming) -> RingRequest:
    """POST /api/v1/ephemeral/ack; what is neither `failed` nor `retry` is done."""
    body = _decoded(_ACK, incoming.body)
    _check_count(len(body.acks))
    group = body.group or ""
    _check_names(body.queue, group)
    acks = tuple([(each.id, each.status not in ("failed", "retry")) for each in body.acks])
    return RingRequest(AckRing(body.queue, group, acks))


def configure(incoming: Incoming) -> Write:
    """POST /api/v1/ephemeral/configure; the list of options is closed."""
    body = _decoded(_CONFIGURE, incoming.body)
    _check_names(body.queue)
    given = body.options or {}
    unknown = sorted(set(given) - set(_KNOWN))
    if unknown:
        raise _bad(f"no such option: {', '.join(unknown)}; there are {', '.join(_KNOWN)}")
    numbers = {
        field: _number(name, given[name])
        for name, field in _OPTIONS.items()
        if given.get(name) is not None
    }
    policy = given.get("policy")
    if policy not in (None, *_POLICIES):
        raise _bad(f"policy must be reject or dropOldest, got {policy!r}")
    options = RingOptions(
        **numbers,
        policy="dropOldest" if policy == "dropOldest" else "reject",
        window=_window(given.get("windowBuffer")),
    )
    return Write(DeclareRing(body.queue, options, msgspec.json.encode(given)))


def reset(incoming: Incoming) -> RingRequest:
    """POST /api/v1/ephemeral/reset."""
    queue = _decoded(_QUEUE, incoming.body).queue
    _check_names(queue)
    return RingRequest(ResetRing(queue))


def delete(incoming: Incoming) -> RingRequest:
    """DELETE /api/v1/ephemeral/queue/:queue."""
    queue = incoming.part(5)
    _check_names(queue)
    return RingRequest(DeleteRing(incoming.request_id, queue))


def queues(_: Incoming) -> RingRequest:
    """GET /api/v1/ephemeral/queues."""
    return RingRequest(ListRings())


def depth(incoming: Incoming) -> RingRequest:
    """GET /api/v1/ephemeral/queues/:queue/depth?group=."""
    return RingRequest(RingDepth(incoming.part(5), incoming.parameters().get("group") or None))


def _decoded(decoder: msgspec.json.Decoder[Body], body: bytes) -> Body:
    try:
        return decode(decoder, body)
    except RefusedError as refused:
        raise _bad(msgspec.json.decode(refused.answer.body)["error"]) from None


def _window(value: object) -> Window:
    if value is None:
        return Window()
    if not isinstance(value, dict) or set(value) - {"ms", "count"}:
        raise _bad(f"windowBuffer must have ms and count, got {value!r}")
    ms, count = (_number(name, value.get(name, 0)) for name in ("ms", "count"))
    return Window(min(ms, WINDOW_MS_MAX), count)


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= NUMBER_MAX:
        raise _bad(f"{name} must be a whole number from 0 to {NUMBER_MAX}, got {value!r}")
    return value


def _check_count(count: int) -> None:
    if count > ITEMS_MAX:
        raise _bad(f"{count} items; at most {ITEMS_MAX} in one call")


def _check_names(queue: str, *others: str) -> None:
    if not queue:
        raise _bad("queue is required")
    for name in (queue, *others):
        if len(name.encode(errors="surrogatepass")) > NAME_BYTES_MAX:
            raise _bad(f"a name has at most {NAME_BYTES_MAX} bytes")
        if any(ord(sign) < 32 or ord(sign) == 127 for sign in name):
            raise _bad("a name must not hold control characters")


def _bad(text: str) -> RefusedError:
    return RefusedError(error_answer(400, "ephemeral_bad_request", text))
