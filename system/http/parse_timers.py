"""Timer operations: requests to commands."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec

from ..broker.commands import DEFAULT_PARTITION, CancelTimer, ScheduleTimer, TimerOperation, Timers
from ..broker.queries import TimerCount, TimerGet, TimerList
from .answer import coded_error
from .incoming import Incoming, check_id, check_names, clamped, decode, whole
from .request import ReadRequest, Write

OPERATIONS_MAX: Final = 256
HORIZON_MS: Final = 90 * 86_400_000
PAYLOAD_BYTES_MAX: Final = 1 << 20
LIST_LIMIT: Final = 100
LIST_LIMIT_MAX: Final = 1000

_SERVER_OWNED: Final = frozenset(
    {
        "producerSub",
        "producer_sub",
        "messageId",
        "message_id",
        "tenant",
        "tenantId",
        "tenant_id",
        "deliverAt",
        "deliver_at",
        "delaySeconds",
        "delay_seconds",
        "attempts",
        "claimToken",
        "claim_token",
        "claimedUntil",
    }
)

TimerFields = dict[str, object]


class _TimersBody(msgspec.Struct):
    operations: list[TimerFields]


_TIMERS: Final = msgspec.json.Decoder(_TimersBody)


def timers(incoming: Incoming) -> Write:
    """POST /api/v1/timers."""
    operations = decode(_TIMERS, incoming.body).operations
    return Write(
        Timers(incoming.request_id, timer_operations(operations, subject=incoming.subject))
    )


def cancel_timer(incoming: Incoming) -> Write:
    """DELETE /api/v1/timers/:queue/*key."""
    queue, key = _address(incoming)
    txn = incoming.parameters().get("txn") or None
    return Write(Timers(incoming.request_id, (CancelTimer(queue, key, txn),)), "cancel-timer")


def get_timers(incoming: Incoming) -> ReadRequest:
    """GET /api/v1/timers/:queue/*key, and the list and the count without a key."""
    if len(incoming.parts) > 5 and incoming.parts[5]:
        queue, key = _address(incoming)
        return ReadRequest(TimerGet(queue, key))
    queue, parameters = incoming.part(4), incoming.parameters()
    prefix = parameters.get("prefix", "")
    if parameters.get("mode") == "count":
        return ReadRequest(TimerCount(queue, prefix))
    limit = clamped(whole(parameters.get("limit")), LIST_LIMIT, 1, LIST_LIMIT_MAX)
    return ReadRequest(TimerList(queue, parameters.get("after", ""), prefix, limit))


def timer_operations(
    operations: list[TimerFields],
    owned_code: str = "timers_bad_request",
    subject: str | None = None,
) -> tuple[TimerOperation, ...]:
    """Check and convert operations.

    Args:
        operations: As decoded.
        owned_code: The error of a field that only the server may set.
        subject: Who asks, stamped on the messages.

    Raises:
        RefusedError: 400, 403 (too far ahead) or 413 (payload too large).
    """
    if len(operations) > OPERATIONS_MAX:
        text = f"{len(operations)} operations; at most {OPERATIONS_MAX}"
        raise _bad("too_many_operations", text)
    converted = tuple([_operation(fields, owned_code, subject) for fields in operations])
    seen: set[tuple[str, str]] = set()
    for operation in converted:
        if (operation.queue, operation.key) in seen:
            raise _bad("repeated_key", f"timerKey {operation.key!r} appears twice in one call")
        seen.add((operation.queue, operation.key))
    return converted


def _operation(fields: TimerFields, owned_code: str, subject: str | None) -> TimerOperation:
    for name in fields:
        if name in _SERVER_OWNED or name.startswith("_"):
            raise coded_error(400, owned_code, "server_owned_field", f"{name} is set by the server")
    queue, key = _required(fields, "queue"), _required(fields, "timerKey")
    partition = _optional(fields, "partition") or DEFAULT_PARTITION
    check_names(queue, partition)
    kind = fields.get("op")
    if kind == "cancel":
        return CancelTimer(queue, key, _optional(fields, "txn"))
    if kind != "schedule" and kind != "reschedule":
        raise _bad("unknown_op", f"op must be schedule, reschedule or cancel, got {kind!r}")
    delay_ms = fields.get("delayMs")
    if isinstance(delay_ms, bool) or not isinstance(delay_ms, int | float):
        raise _bad("missing_field", f"delayMs must be a number, got {delay_ms!r}")
    if delay_ms > HORIZON_MS:
        text = f"delayMs {delay_ms} is over 90 days ({HORIZON_MS})"
        raise coded_error(403, "timer_horizon_exceeded", "horizon", text)
    txn = _required(fields, "txn")
    return ScheduleTimer(
        queue, key, max(0, int(delay_ms)), txn, _payload(fields), partition, subject
    )


def _payload(fields: TimerFields) -> bytes:
    encoded = fields.get("payload")
    if not isinstance(encoded, str):
        raise _bad("missing_field", "payload must be base64 of JSON")
    try:
        payload = base64.b64decode(encoded, validate=True)
        payload.decode()
        msgspec.json.decode(payload, type=msgspec.Raw)
    except (binascii.Error, ValueError):
        raise _bad("bad_payload", "payload must be base64 of JSON") from None
    if len(payload) > PAYLOAD_BYTES_MAX:
        text = f"payload has {len(payload)} bytes; at most {PAYLOAD_BYTES_MAX}"
        raise coded_error(413, "timer_payload_too_large", "payload", text)
    return payload.strip()


def _required(fields: TimerFields, name: str) -> str:
    text = _optional(fields, name)
    if not text:
        raise _bad("missing_field", f"{name} must be a text that is not empty")
    check_id(name, text)
    return text


def _optional(fields: TimerFields, name: str) -> str | None:
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise _bad("bad_field", f"{name} must be a text, got {value!r}")
    return value


def _bad(reason: str, detail: str) -> Exception:
    return coded_error(400, "timers_bad_request", reason, detail)


def _address(incoming: Incoming) -> tuple[str, str]:
    """Queue and key of the path; a key may hold slashes, encoded or not."""
    queue = incoming.part(4)
    incoming.parts[5:] = ["/".join(incoming.parts[5:])]
    return queue, incoming.part(5)
