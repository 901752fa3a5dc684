"""The key/value table, and how a batch of operations goes over it: all or nothing.

A batch is applied at once, with a note of what each write replaced. When a required precondition
is lost, the notes are undone in reverse, the version counter included, so that a refused batch
leaves no trace.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec

from .changes import Dirty
from .kv_operations import (
    Kv,
    KvCheck,
    KvDelete,
    KvGet,
    KvGetMany,
    KvGetPrefix,
    KvIncr,
    KvLook,
    KvOperation,
    KvPut,
)
from .kv_replies import KvFound, KvListed, KvPrecondition, KvReply, KvResult, KvRow, KvWritten
from .outcomes import Outcomes

NUMBER_MAX: Final = (1 << 63) - 1

_ENCODER: Final = msgspec.json.Encoder()
_NUMBERS: Final = msgspec.json.Decoder(int | float)
_NUMBER_STARTS: Final = frozenset(b"-0123456789"[place : place + 1] for place in range(11))

Undo = list[tuple[tuple[str, str], KvRow | None]]


class LostPreconditionError(Exception):
    """A required operation of a batch did not hold; nothing of the batch remains."""

    def __init__(self, precondition: KvPrecondition) -> None:
        super().__init__(precondition)
        self.precondition = precondition


class KvTable:
    """All rows, by namespace and key.

    Attributes:
        version: The newest version given out.
        changed: By namespace and key.
    """

    __slots__ = ("_due", "_keys", "_rows", "changed", "version")

    def __init__(self) -> None:
        self.changed: Dirty[tuple[str, str], KvRow] = Dirty()
        self.version = 0
        self._rows: dict[tuple[str, str], KvRow] = {}
        self._keys: dict[str, list[str]] = {}
        self._due: list[tuple[int, str, str]] = []

    def row(self, ns: str, key: str, now_us: int) -> KvRow | None:
        """The live row of a key."""
        row = self._rows.get((ns, key))
        return row if row is not None and row.is_live(now_us) else None

    def page(self, operation: KvGetPrefix, now_us: int) -> KvListed:
        """Live rows in key order. Cost: the rows looked at."""
        keys, prefix = self._keys.get(operation.ns, []), operation.prefix
        after = bisect_right(keys, operation.after) if operation.after else 0
        place = max(after, bisect_left(keys, prefix))
        rows: list[KvRow] = []
        truncated = False
        while place < len(keys) and keys[place].startswith(prefix):
            row = self.row(operation.ns, keys[place], now_us)
            place += 1
            if row is None:
                continue
            if len(rows) == operation.limit:
                truncated = True
                break
            rows.append(row)
        return KvListed("getPrefix", tuple(rows), (), truncated, operation.keys_only)

    def put(self, row: KvRow, undo: Undo | None = None) -> None:
        """Write a row. Cost: a search among its namespace's keys."""
        place = (row.ns, row.key)
        if undo is not None:
            undo.append((place, self._rows.get(place)))
        if place in self._rows:
            self.changed.change(place, row)
        else:
            insort(self._keys.setdefault(row.ns, []), row.key)
            self.changed.add(place, row)
        self._rows[place] = row
        if row.expires_us is not None:
            heappush(self._due, (row.expires_us, *place))

    def remove(self, ns: str, key: str, undo: Undo | None = None) -> None:
        """Remove a row that is there, live or not."""
        row = self._rows.pop((ns, key))
        self.changed.drop((ns, key))
        if undo is not None:
            undo.append(((ns, key), row))
        keys = self._keys[ns]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._keys[ns]

    def undo(self, notes: Undo, version: int) -> None:
        """Restore what the notes replaced, and the version counter."""
        for place, before in reversed(notes):
            if before is not None:
                self.put(before)
            elif place in self._rows:
                self.remove(*place)
        self.version = version

    def sweep(self, now_us: int) -> None:
        """Drop rows whose lifetime is over by a stamp. Cost: those rows."""
        due = self._due
        while due and due[0][0] <= now_us:
            _, ns, key = heappop(due)
            row = self._rows.get((ns, key))
            if row is not None and not row.is_live(now_us):
                self.remove(ns, key)

    def new_version(self) -> int:
        """The next version."""
        self.version += 1
        return self.version

    def rows(self) -> list[KvRow]:
        """All rows in the order (namespace, key), for digests."""
        return [self._rows[place] for place in sorted(self._rows)]


def settle_kv(table: KvTable, outcomes: Outcomes, command: Kv, now_us: int) -> KvReply:
    """Carry out a batch; a repeat of the request gets the first answer."""
    first = outcomes.first("kv", command.request_id)
    if isinstance(first, KvReply):
        return first
    try:
        reply = KvReply(tuple(carry_out(table, command.operations, now_us)))
    except LostPreconditionError as lost:
        reply = KvReply((), lost.precondition)
    outcomes.remember("kv", command.request_id, reply, now_us)
    return reply


def look(table: KvTable, operation: KvLook, now_us: int) -> KvResult:
    """Carry out an operation that writes nothing."""
    match operation:
        case KvGet():
            return KvFound(operation.key, table.row(operation.ns, operation.key, now_us))
        case KvGetMany():
            found = [(key, table.row(operation.ns, key, now_us)) for key in operation.keys]
            rows = tuple([row for _, row in found if row is not None])
            missing = tuple([key for key, row in found if row is None])
            return KvListed("getMany", rows, missing)
        case KvGetPrefix():
            return table.page(operation, now_us)
    row = table.row(operation.ns, operation.key, now_us)
    return _verdict("check", operation.key, row, _lost(row, operation.expect))


def carry_out(
    table: KvTable, operations: Sequence[KvOperation], now_us: int, first_index: int = 0
) -> list[KvResult]:
    """Carry out a batch, each operation over what the earlier ones left.

    Args:
        table: The rows.
        operations: In order.
        now_us: Stamp.
        first_index: What the first operation is called when it fails.

    Raises:
        LostPreconditionError: A required operation did not hold.
    """
    notes: Undo = []
    version = table.version
    results: list[KvResult] = []
    for index, operation in enumerate(operations, start=first_index):
        if isinstance(operation, KvGet | KvGetMany | KvGetPrefix):
            results.append(look(table, operation, now_us))
            continue
        result = _write(table, operation, now_us, notes)
        if operation.required and not result.applied:
            table.undo(notes, version)
            lost = KvPrecondition(index, result.reason, result.version, result.value)
            raise LostPreconditionError(lost)
        results.append(result)
    return results


def _write(
    table: KvTable, operation: KvPut | KvIncr | KvDelete | KvCheck, now_us: int, notes: Undo
) -> KvWritten:
    row = table.row(operation.ns, operation.key, now_us)
    match operation:
        case KvPut():
            reason = _lost(row, operation.expect)
            if reason:
                return _verdict(operation.op, operation.key, row, reason)
            return _put(table, operation, operation.op, operation.value, now_us, notes)
        case KvIncr():
            return _incr(table, operation, row, now_us, notes)
        case KvCheck():
            return _verdict("check", operation.key, row, _lost(row, operation.expect))
    reason = "absent" if row is None else _lost(row, operation.expect)
    if not reason:
        table.remove(operation.ns, operation.key, notes)
    return _verdict("delete", operation.key, row, reason)


def _put(
    table: KvTable, operation: KvPut | KvIncr, op: str, value: bytes, now_us: int, notes: Undo
) -> KvWritten:
    ttl_s = operation.ttl_s
    expires_us = None if ttl_s is None else now_us + ttl_s * 1_000_000
    row = KvRow(operation.ns, operation.key, value, table.new_version(), now_us, expires_us)
    table.put(row, notes)
    return _verdict(op, operation.key, row, "")


def _incr(
    table: KvTable, operation: KvIncr, row: KvRow | None, now_us: int, notes: Undo
) -> KvWritten:
    before = 0 if row is None else _number(row.value)
    if before is None:
        return _verdict("incr", operation.key, row, "type")
    after = before + operation.delta
    low = -NUMBER_MAX if operation.low is None else operation.low
    high = NUMBER_MAX if operation.high is None else operation.high
    if not math.isfinite(after) or not low <= after <= high:
        return _verdict("incr", operation.key, row, "limit")
    value = _ENCODER.encode(after)
    if row is None:
        return _put(table, operation, "incr", value, now_us, notes)
    row = KvRow(row.ns, row.key, value, table.new_version(), now_us, row.expires_us)
    table.put(row, notes)
    return _verdict("incr", operation.key, row, "")


def _number(value: bytes) -> int | float | None:
    """The number that a value is; None for anything else, and for what no number here can hold.

    Only numbers are decoded: how deep other values may be nested depends on the caller's stack,
    and no outcome may.
    """
    if value[:1] not in _NUMBER_STARTS:
        return None
    try:
        return _NUMBERS.decode(value)
    except msgspec.MsgspecError:
        return None


def _lost(row: KvRow | None, expect: int | None) -> str:
    """Why an expectation does not hold, or an empty text."""
    if expect is None or (row is None and not expect):
        return ""
    if row is None:
        return "absent"
    if not expect:
        return "exists"
    return "" if row.version == expect else "version"


def _verdict(op: str, key: str, row: KvRow | None, reason: str) -> KvWritten:
    if row is None:
        return KvWritten(op, key, not reason, reason)
    return KvWritten(op, key, not reason, reason, row.version, row.value, row.expires_us)
