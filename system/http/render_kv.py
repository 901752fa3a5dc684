"""KV and lock replies to HTTP answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw

from ..broker.kv_operations import LOCK_NAMESPACE
from ..broker.kv_replies import (
    KvFound,
    KvListed,
    KvReply,
    KvResult,
    KvRow,
    LockHolder,
    LockResult,
    LocksReply,
)
from .answer import Answer, json_answer
from .kv_bodies import (
    GuardBody,
    HolderBody,
    KvBody,
    KvFoundBody,
    KvListedBody,
    KvLostBody,
    KvResultsBody,
    KvRowBody,
    KvWrittenBody,
    LockBody,
    LocksBody,
)
from .timestamps import rfc3339

__all__ = ["KV_RENDERERS", "KvBody", "kv_body"]


def kv_body(result: KvResult, index: int) -> KvBody:
    """One operation's element."""
    if isinstance(result, KvFound):
        row = result.row
        if row is None:
            return KvFoundBody(index, "get", False, result.key, None, 0, None, None)
        return KvFoundBody(
            index,
            "get",
            True,
            row.key,
            Raw(row.value),
            row.version,
            _instant(row.expires_us),
            rfc3339(row.updated_us),
        )
    if isinstance(result, KvListed):
        return _listed(result, index)
    return KvWrittenBody(
        index,
        result.op,
        result.key,
        result.applied,
        result.version,
        None if result.value is None else Raw(result.value),
        _instant(result.expires_us),
        result.reason or UNSET,
    )


def _listed(result: KvListed, index: int) -> KvListedBody:
    rows = [_row(row, result.keys_only) for row in result.rows]
    body = KvListedBody(index, result.op, rows, result.truncated)
    if result.op == "getMany":
        body.missing = list(result.missing)
    else:
        body.next_after = result.rows[-1].key if result.truncated else None
    return body


def _row(row: KvRow, keys_only: bool) -> KvRowBody:
    body = KvRowBody(row.key, row.version, _instant(row.expires_us), rfc3339(row.updated_us))
    if not keys_only:
        body.value = Raw(row.value)
    return body


def _kv(reply: KvReply, shape: str) -> Answer:
    lost = reply.lost
    if lost is not None:
        value = None if lost.value is None else Raw(lost.value)
        body = KvLostBody(
            False, "kv_precondition", lost.failed_index, lost.reason, lost.version, value
        )
        return json_answer(body)
    results = [kv_body(result, index) for index, result in enumerate(reply.results)]
    return json_answer(results[0] if shape else KvResultsBody(results))


def _locks(reply: LocksReply, _: str) -> Answer:
    results = [_lock(result, index) for index, result in enumerate(reply.results)]
    return json_answer(LocksBody(results))


def _lock(result: LockResult, index: int) -> LockBody:
    body = LockBody(index, result.op, result.name)
    match result.op:
        case "acquire":
            body.acquired = result.ok
        case "renew":
            body.renewed = result.ok
        case "release":
            body.released = result.ok
        case _:
            body.held = result.ok
    if result.reason:
        body.reason = result.reason
    if result.already:
        body.already = True
    permit = result.permit
    if permit is not None:
        body.slot, body.token, body.owner = permit.slot, permit.token, permit.owner
        body.expires_at = _instant(permit.expires_us)
        key = f"{result.name}#{permit.slot}"
        body.guard = GuardBody("check", LOCK_NAMESPACE, key, permit.token, True)
    if result.op == "get" or (result.reason and result.op != "release"):
        body.holders = [_holder(holder) for holder in result.holders]
    return body


def _holder(holder: LockHolder) -> HolderBody:
    return HolderBody(
        holder.slot,
        holder.owner,
        holder.token,
        rfc3339(holder.since_us),
        rfc3339(holder.renewed_us),
        _instant(holder.expires_us),
    )


def _instant(instant_us: int | None) -> str | None:
    return None if instant_us is None else rfc3339(instant_us)


KV_RENDERERS: Final[dict[type, Callable[..., Answer]]] = {KvReply: _kv, LocksReply: _locks}
