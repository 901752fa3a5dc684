"""Timers: messages that are pushed later, one for each (queue, key)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from heapq import heappop, heappush
from typing import Final

from .changes import Changes, Dirty
from .commands import CancelTimer, TimerOperation
from .evicted import payload_key, slim_timer, whole_timer
from .mint import Mint
from .replies import TimerResult, TimerRow
from .rows import MessageStore

FIRES_MAX: Final = 256
"""Timers fired by one command."""


class TimerTable:
    """All waiting timers, by key and by due instant.

    Attributes:
        changed: By queue and key.
    """

    __slots__ = ("_changes", "_due", "_keys", "_rows", "_store", "changed")

    def __init__(self, changes: Changes, store: MessageStore | None) -> None:
        self._changes = changes
        self._store = store
        self.changed: Dirty[tuple[str, str], TimerRow] = Dirty()
        self._rows: dict[tuple[str, str], TimerRow] = {}
        self._keys: dict[str, list[str]] = {}
        self._due: list[tuple[int, str, str, str]] = []

    def apply(self, operation: TimerOperation, mint: Mint, now_us: int) -> TimerResult:
        """Carry out one operation. Cost: a search among the queue's keys."""
        if isinstance(operation, CancelTimer):
            return self._cancel(operation)
        known = self._rows.get((operation.queue, operation.key))
        row = TimerRow(
            operation.queue,
            operation.key,
            operation.partition,
            operation.transaction_id,
            mint.new_id(),
            operation.payload,
            now_us + max(0, operation.delay_ms) * 1000,
            operation.producer_sub,
        )
        if known is not None:
            self._lose(known)
            self.changed.change((row.queue, row.key), row)
        else:
            self.changed.add((row.queue, row.key), row)
        self.put(row)
        return TimerResult(
            True,
            "rescheduled" if known is not None else "scheduled",
            row.queue,
            row.key,
            row.transaction_id,
            row.message_id,
            row.deliver_us,
        )

    def take_due(self, now_us: int, limit: int) -> list[TimerRow]:
        """Remove the timers due by now, earliest first (then by message id), at most `limit`."""
        taken: list[TimerRow] = []
        while len(taken) < limit:
            next_us = self.next_due_us()
            if next_us is None or next_us > now_us:
                break
            _, _, queue, key = heappop(self._due)
            taken.append(whole_timer(self._remove(queue, key), self._store))
        return taken

    def next_due_us(self) -> int | None:
        """When the earliest timer is due."""
        due = self._due
        while due:
            deliver_us, message_id, queue, key = due[0]
            row = self._rows.get((queue, key))
            if row is not None and row.message_id == message_id:
                return deliver_us
            heappop(due)
        return None

    def get(self, queue: str, key: str) -> TimerRow | None:
        """One timer."""
        row = self._rows.get((queue, key))
        return None if row is None else whole_timer(row, self._store)

    def page(self, queue: str, after: str, prefix: str, limit: int) -> tuple[list[TimerRow], bool]:
        """Up to `limit` timers in key order after a key, and whether more follow."""
        keys = self._keys.get(queue, [])
        start = max(bisect_right(keys, after) if after else 0, bisect_left(keys, prefix))
        page = keys[start : start + limit + 1]
        chosen = [key for key in page if key.startswith(prefix)]
        rows = [whole_timer(self._rows[queue, key], self._store) for key in chosen[:limit]]
        return rows, len(chosen) > limit

    def count(self, queue: str, prefix: str) -> int:
        """How many timers of a queue have keys with this prefix. Cost: those timers."""
        keys = self._keys.get(queue, [])
        if not prefix:
            return len(keys)
        start = bisect_left(keys, prefix)
        end = start
        while end < len(keys) and keys[end].startswith(prefix):
            end += 1
        return end - start

    def rows(self) -> list[TimerRow]:
        """All timers in the order (queue, key)."""
        return [whole_timer(self._rows[place], self._store) for place in sorted(self._rows)]

    def lose_payload(self, row: TimerRow) -> None:
        """A timer's payload is in the store; the timer may be gone, or another one by now."""
        place = (row.queue, row.key)
        if self._rows.get(place) is row:
            self._rows[place] = slim_timer(row)

    def put(self, row: TimerRow) -> None:
        """Take a timer in."""
        if (row.queue, row.key) not in self._rows:
            insort(self._keys.setdefault(row.queue, []), row.key)
        self._rows[row.queue, row.key] = row
        heappush(self._due, (row.deliver_us, row.message_id, row.queue, row.key))

    def _cancel(self, operation: CancelTimer) -> TimerResult:
        queue, key = operation.queue, operation.key
        if (queue, key) not in self._rows:
            return TimerResult(False, "absent", queue, key, operation.transaction_id, None, None)
        row = self._remove(queue, key)
        return TimerResult(
            True, "cancelled", queue, key, row.transaction_id, row.message_id, row.deliver_us
        )

    def _remove(self, queue: str, key: str) -> TimerRow:
        keys = self._keys[queue]
        del keys[bisect_left(keys, key)]
        if not keys:
            del self._keys[queue]
        row = self._rows.pop((queue, key))
        self._lose(row)
        self.changed.drop((queue, key))
        return row

    def _lose(self, row: TimerRow) -> None:
        if not self.changed.is_fresh((row.queue, row.key)):
            self._changes.lost_payloads.add(payload_key(row.message_id))
