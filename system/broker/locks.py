"""Locks and semaphores: permits are key/value rows with a lifetime, tokens their versions."""

from __future__ import annotations

from typing import Final

import msgspec

from .kv import KvTable
from .kv_operations import (
    LOCK_NAMESPACE,
    AcquireLock,
    GetLock,
    KvGetPrefix,
    LockOperation,
    Locks,
    ReleaseLock,
    RenewLock,
)
from .kv_replies import KvRow, LockHolder, LockResult, LocksReply
from .mint import Mint
from .state import State

PERMIT_BYTES_MAX: Final = 1024
"""A longer value is none of ours; decoding one that is nested deep would depend on the stack."""


class _Permit(msgspec.Struct, rename="camel"):
    """A permit's value, as anyone may read it."""

    owner: str = ""
    since_us: int = 0


def settle_locks(state: State, mint: Mint, command: Locks) -> LocksReply:
    """Carry out lock operations one after the other. Cost: the permits of each lock."""
    first = state.outcomes.first("locks", command.request_id)
    if isinstance(first, LocksReply):
        return first
    reply = LocksReply(
        tuple(
            [_settle(state.kv, mint, operation, state.now_us) for operation in command.operations]
        )
    )
    state.outcomes.remember("locks", command.request_id, reply, state.now_us)
    return reply


def _settle(table: KvTable, mint: Mint, operation: LockOperation, now_us: int) -> LockResult:
    held = _holders(table, operation.name, now_us)
    match operation:
        case AcquireLock():
            return _acquire(table, mint, operation, held, now_us)
        case RenewLock():
            return _renew(table, operation, held, now_us)
        case ReleaseLock():
            return _release(table, operation, held)
        case GetLock():
            return LockResult("get", operation.name, bool(held), holders=tuple(held))


def _acquire(
    table: KvTable, mint: Mint, operation: AcquireLock, held: list[LockHolder], now_us: int
) -> LockResult:
    name = operation.name
    own = next((holder for holder in held if holder.owner == operation.owner), None)
    if own is not None and operation.owner:
        return LockResult("acquire", name, True, permit=own, already=True)
    taken = {holder.slot for holder in held}
    slot = next((slot for slot in range(operation.limit) if slot not in taken), None)
    if slot is None:
        return LockResult("acquire", name, False, "held", holders=tuple(held))
    permit = _Permit(operation.owner or mint.new_id(), now_us)
    written = _write(table, name, slot, permit, operation.ttl_s, now_us)
    return LockResult("acquire", name, True, permit=written)


def _renew(table: KvTable, operation: RenewLock, held: list[LockHolder], now_us: int) -> LockResult:
    own = _named(held, operation.token, operation.slot)
    if own is None and operation.owner:
        slots = [holder for holder in held if operation.slot in (None, holder.slot)]
        own = next((holder for holder in slots if holder.owner == operation.owner), None)
    if own is None:
        return LockResult("renew", operation.name, False, "lost", holders=tuple(held))
    permit = _Permit(own.owner, own.since_us)
    written = _write(table, operation.name, own.slot, permit, operation.ttl_s, now_us)
    return LockResult("renew", operation.name, True, permit=written)


def _release(table: KvTable, operation: ReleaseLock, held: list[LockHolder]) -> LockResult:
    own = _named(held, operation.token, operation.slot)
    if own is None:
        return LockResult("release", operation.name, False, "lost", holders=tuple(held))
    table.remove(LOCK_NAMESPACE, f"{operation.name}#{own.slot}")
    return LockResult("release", operation.name, True)


def _named(held: list[LockHolder], token: int, slot: int | None) -> LockHolder | None:
    """The permit with this token, in this slot if one is named."""
    return next(
        (holder for holder in held if holder.token == token and slot in (None, holder.slot)), None
    )


def _write(
    table: KvTable, name: str, slot: int, permit: _Permit, ttl_s: int, now_us: int
) -> LockHolder:
    row = KvRow(
        LOCK_NAMESPACE,
        f"{name}#{slot}",
        msgspec.json.encode(permit),
        table.new_version(),
        now_us,
        now_us + ttl_s * 1_000_000,
    )
    table.put(row)
    return _holder(row, slot)


def _holders(table: KvTable, name: str, now_us: int) -> list[LockHolder]:
    """Live permits in the order of their slots."""
    prefix = f"{name}#"
    page = table.page(KvGetPrefix(LOCK_NAMESPACE, prefix, "", 1 << 31), now_us)
    found = [
        _holder(row, int(slot))
        for row in page.rows
        if (slot := row.key.removeprefix(prefix)).isascii() and slot.isdigit()
    ]
    return sorted(found, key=lambda holder: holder.slot)


def _holder(row: KvRow, slot: int) -> LockHolder:
    permit = _Permit()
    if len(row.value) <= PERMIT_BYTES_MAX:
        try:
            permit = msgspec.json.decode(row.value, type=_Permit)
        except msgspec.MsgspecError:
            # Somebody wrote the row by hand: the slot is taken, by nobody in particular.
            permit = _Permit()
    return LockHolder(
        slot, permit.owner, row.version, permit.since_us, row.updated_us, row.expires_us
    )
