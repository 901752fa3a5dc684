"""The broker's routes as values: what to send, and how to read its answer. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar
from urllib.parse import quote, urlencode

import msgspec

from .reading import Results, decode, malformed, reader, refusal, results_reader
from .records import (
    AckResult,
    DeadLetters,
    Depth,
    ExtendResult,
    Health,
    Popped,
    PushResult,
    TimerResult,
    TransactionResult,
)
from .wire import Response

T = TypeVar("T")

_POP_TARGETS_MAX: Final = 256


class Call(msgspec.Struct, Generic[T], frozen=True):
    """One call of the broker.

    Attributes:
        name: What it does, for messages.
        method: HTTP method.
        target: Path and query.
        body: JSON, or nothing.
        read: Turns a final answer into its record; raises BrokerError for a refusal.
        wait_s: How long the broker may hold it on purpose, seconds.
        finals: Statuses of 429 or 500 and above that are answers, not reasons to try again.
    """

    name: str
    method: str
    target: str
    body: bytes
    read: Callable[[Response], T]
    wait_s: float = 0.0
    finals: tuple[int, ...] = ()


class _TimerCount(msgspec.Struct, frozen=True):
    count: int


_ENCODE: Final = msgspec.json.Encoder().encode
_PUSHED: Final = msgspec.json.Decoder(tuple[PushResult, ...])
_POPPED: Final = msgspec.json.Decoder(Popped)
_ACKED: Final = msgspec.json.Decoder(tuple[AckResult, ...])
_EXTENDED: Final = msgspec.json.Decoder(ExtendResult)
_TRANSACTED: Final = msgspec.json.Decoder(TransactionResult)
_TIMERS: Final = msgspec.json.Decoder(Results[TimerResult])
_TIMER_COUNT: Final = msgspec.json.Decoder(_TimerCount)
_DEPTH: Final = msgspec.json.Decoder(Depth)
_DLQ: Final = msgspec.json.Decoder(DeadLetters)
_HEALTH: Final = msgspec.json.Decoder(Health)


def push(items: Sequence[Mapping[str, object]]) -> Call[tuple[PushResult, ...]]:
    """Append items `{queue, payload, partition, transactionId}`; one result each, in order."""
    return Call("push", "POST", "/api/v1/push", _ENCODE({"items": items}), reader(_PUSHED))


def pop(
    queue: str,
    *,
    group: str,
    partition: str | None = None,
    batch: int = 1,
    partitions: int = 1,
    lease_s: float | None = None,
    wait_s: float = 0.0,
) -> Call[Popped]:
    """Claim up to `batch` messages of up to `partitions` partitions under one lease.

    Args:
        queue: Queue name.
        group: Consumer group; it starts at the oldest message.
        partition: The only partition to look at; None looks at all.
        batch: Messages at most.
        partitions: Partitions at most.
        lease_s: Lease, seconds; None leaves it to the queue.
        wait_s: How long the broker may wait for a message.
    """
    target = _pop_target(queue, group, partition, batch, partitions, lease_s, wait_s)
    return Call("pop", "GET", target, b"", _read_popped, wait_s)


@lru_cache(maxsize=_POP_TARGETS_MAX)
def _pop_target(
    queue: str,
    group: str,
    partition: str | None,
    batch: int,
    partitions: int,
    lease_s: float | None,
    wait_s: float,
) -> str:
    query: dict[str, str] = {
        "consumerGroup": group,
        "subscriptionMode": "all",
        "batch": str(batch),
        "partitions": str(partitions),
        "wait": "true" if wait_s > 0 else "false",
    }
    if lease_s is not None:
        query["leaseSeconds"] = f"{lease_s:g}"
    if wait_s > 0:
        query["timeout"] = str(int(wait_s * 1000))
    path = f"/api/v1/pop/queue/{quote(queue, safe='')}"
    if partition is not None:
        path += f"/partition/{quote(partition, safe='')}"
    return f"{path}?{urlencode(query)}"


def ack(
    txn: str,
    partition_id: str,
    *,
    group: str,
    lease: str | None = None,
    status: str = "completed",
    error: str | None = None,
) -> Call[tuple[AckResult, ...]]:
    """Settle one message: `completed`, `failed`, `retry` or `dlq`."""
    body = _ENCODE(
        {
            "transactionId": txn,
            "partitionId": partition_id,
            "status": status,
            "consumerGroup": group,
            "leaseId": lease,
            "error": error,
        }
    )
    return Call("ack", "POST", "/api/v1/ack", body, reader(_ACKED))


def ack_batch(
    acknowledgments: Sequence[Mapping[str, object]], *, group: str
) -> Call[tuple[AckResult, ...]]:
    """Settle several messages `{transactionId, partitionId, status, leaseId, error}`."""
    body = _ENCODE({"consumerGroup": group, "acknowledgments": acknowledgments})
    return Call("ack", "POST", "/api/v1/ack/batch", body, reader(_ACKED))


def extend(lease: str, seconds: float) -> Call[ExtendResult]:
    """Renew a lease; refused (`success` false) when it no longer lives."""
    body = _ENCODE({"seconds": int(seconds) if seconds == int(seconds) else seconds})
    target = f"/api/v1/lease/{quote(lease, safe='')}/extend"
    return Call("extend", "POST", target, body, reader(_EXTENDED))


def transaction(body: Mapping[str, object]) -> Call[TransactionResult]:
    """Apply `{operations, requiredLeases, timers}` as a whole or not at all."""
    return Call("transaction", "POST", "/api/v1/transaction", _ENCODE(body), reader(_TRANSACTED))


def timers(operations: Sequence[Mapping[str, object]]) -> Call[tuple[TimerResult, ...]]:
    """Schedule, reschedule or cancel timers; see `schedule_operation`."""
    body = _ENCODE({"operations": operations})
    return Call("timers", "POST", "/api/v1/timers", body, results_reader(_TIMERS))


def schedule_operation(
    queue: str, key: str, *, delay_s: float, txn: str, partition: str, payload: bytes
) -> dict[str, object]:
    """One `schedule` operation, for `timers` or a transaction's timers."""
    return {
        "op": "schedule",
        "queue": queue,
        "timerKey": key,
        "delayMs": round(delay_s * 1000),
        "txn": txn,
        "partition": partition,
        "payload": base64.b64encode(payload).decode("ascii"),
    }


def count_timers(queue: str, prefix: str = "") -> Call[int]:
    """How many timers of a queue have a key with this prefix."""
    query = urlencode({"mode": "count", "prefix": prefix})
    return Call(
        "timers", "GET", f"/api/v1/timers/{quote(queue, safe='')}?{query}", b"", _read_count
    )


def configure(queue: str, options: Mapping[str, object]) -> Call[None]:
    """Create a queue or merge options into it."""
    body = _ENCODE({"queue": queue, "options": options})
    return Call("configure", "POST", "/api/v1/configure", body, _read_nothing)


def depth(queue: str, group: str) -> Call[Depth]:
    """What a queue holds for a group; a queue that does not exist holds nothing."""
    target = f"/api/v1/resources/queues/{quote(queue, safe='')}/depth?{urlencode({'group': group})}"
    return Call("depth", "GET", target, b"", _read_depth)


def dlq(queue: str, group: str, *, limit: int = 100, offset: int = 0) -> Call[DeadLetters]:
    """One page of a group's dead letters, newest first."""
    query = urlencode({"queue": queue, "consumerGroup": group, "limit": limit, "offset": offset})
    return Call("dlq", "GET", f"/api/v1/dlq?{query}", b"", reader(_DLQ))


def delete_dead_letter(partition_id: str, txn: str) -> Call[bool]:
    """Delete the dead letters at an address; false when there was none."""
    target = f"/api/v1/messages/{quote(partition_id, safe='')}/{quote(txn, safe='')}"
    return Call("delete dead letter", "DELETE", target, b"", _read_deleted)


def health() -> Call[Health]:
    """What one node says of itself; a node without a leader answers too."""
    return Call("health", "GET", "/health", b"", _read_health, finals=(503,))


def _read_popped(response: Response) -> Popped:
    return Popped() if response.status == 204 else decode(_POPPED, response)


def _read_count(response: Response) -> int:
    return decode(_TIMER_COUNT, response).count


def _read_nothing(response: Response) -> None:
    if response.status >= 300:
        raise refusal(response, definite=True)


def _read_depth(response: Response) -> Depth:
    if response.status == 404:
        error = refusal(response, definite=True)
        if error.code != "no_such_route":
            return Depth()
        raise error
    return decode(_DEPTH, response)


def _read_deleted(response: Response) -> bool:
    if response.status == 404:
        error = refusal(response, definite=True)
        if error.code != "no_such_route":
            return False
        raise error
    _read_nothing(response)
    return True


def _read_health(response: Response) -> Health:
    if response.status not in (200, 503):
        raise refusal(response, definite=True)
    try:
        return _HEALTH.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(response, error) from error
