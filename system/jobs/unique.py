"""Unique jobs: a lock on the broker is taken with the push, and freed with the last ack.

Lock and job are one transaction: there is no job without its lock, and no lock without its job. A
worker that is killed does not free it, because the job comes back; what frees it otherwise is the
end of its lifetime, `unique_for_s` after the dispatch.
"""

from __future__ import annotations

import time

import msgspec

from ..client import BrokerError, Call
from ..client import calls as broker
from ..client.locking import LOCK_NAMESPACE
from ..client.records import AckResult, TransactionResult
from ..client.wire import Response
from .delivery import Delivery
from .log import log_event
from .names import require_text, shared_name
from .payload import UniqueLock
from .rules import JobRules
from .session import WorkerSession
from .shared_state import COUNTERS, whole_seconds
from .tries import counts_exceptions, exceptions_key


class _Permit(msgspec.Struct, frozen=True, rename="camel"):
    owner: str = ""
    since_us: int = 0


def unique_lock(job_name: str, rules: JobRules, payload: object) -> UniqueLock | None:
    """The lock of a job that is about to be dispatched; None when it is not unique.

    Raises:
        TypeError: Its key is no text.
    """
    if rules.unique_for_s is None:
        return None
    key = "" if rules.unique_key is None else rules.unique_key(payload)
    require_text(f"unique_key of job {job_name!r}", key)
    return UniqueLock(shared_name("unique", job_name, key), rules.unique_until)


def take_operation(lock: UniqueLock, owner: str, ttl_s: float) -> dict[str, object]:
    """The key/value operation that takes the lock, or undoes the transaction that it is in."""
    return {
        "op": "putIfAbsent",
        "ns": LOCK_NAMESPACE,
        "key": _row(lock),
        "value": _Permit(owner, time.time_ns() // 1000),
        "ttlSeconds": whole_seconds(ttl_s),
        "required": True,
    }


def holder_of(result: TransactionResult) -> str:
    """The job that has the lock which a refused dispatch wanted."""
    return _owner(result.value)


def free_operations(
    session: WorkerSession, delivery: Delivery, status: str
) -> list[dict[str, object]]:
    """What goes with a job's last ack: its lock is freed, its throws are forgotten."""
    operations: list[dict[str, object]] = []
    body = delivery.body
    if body is not None and body.unique is not None:
        version = _held_version(session, body.unique, body.id)
        if version is not None:
            operations.append(
                {"op": "delete", "ns": LOCK_NAMESPACE, "key": _row(body.unique), "expect": version}
            )
    may_have_thrown = delivery.attempt > 1 or status != "completed"
    if counts_exceptions(delivery) and may_have_thrown:
        key = exceptions_key(delivery.job_id)
        operations.append({"op": "delete", "ns": COUNTERS, "key": key})
    return operations


def free_before_start(session: WorkerSession, delivery: Delivery) -> None:
    """Free the lock of a job that is unique until it starts; one that is another's stays."""
    lock = None if delivery.body is None else delivery.body.unique
    if lock is None or lock.until != "processing":
        return
    try:
        version = _held_version(session, lock, delivery.job_id)
        if version is not None:
            session.shared.delete(_row(lock), expect=version, ns=LOCK_NAMESPACE)
    except BrokerError as error:
        log_event("unique lock not freed", job=delivery.job_id, error=str(error))


def ack_with(
    ack: dict[str, object],
    lease: str,
    operations: list[dict[str, object]],
    tail: list[dict[str, object]],
) -> Call[tuple[AckResult, ...]]:
    """An ack that carries key/value operations and a tail, all or nothing; answers like an ack."""
    body: dict[str, object] = {
        "operations": [{"type": "ack", **ack}, *tail],
        "requiredLeases": [lease],
    }
    if operations:
        body["kv"] = operations
    plain = broker.transaction(body)

    def read(response: Response) -> tuple[AckResult, ...]:
        result = plain.read(response)
        return (AckResult(result.success, error=result.error),)

    return Call("ack", plain.method, plain.target, plain.body, read)


def _held_version(session: WorkerSession, lock: UniqueLock, owner: str) -> int | None:
    """The version of the lock's row while the job has it; None when it is gone or another's."""
    try:
        row = session.shared.get(_row(lock), LOCK_NAMESPACE)
    except BrokerError as error:
        log_event("unique lock not read", lock=lock.name, error=str(error))
        return None
    return row.version if row.found and _owner(row.value) == owner else None


def _owner(value: msgspec.Raw) -> str:
    try:
        return msgspec.json.decode(value, type=_Permit).owner
    except msgspec.MsgspecError:
        return ""


def _row(lock: UniqueLock) -> str:
    return f"{lock.name}#0"
