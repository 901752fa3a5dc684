"""Which partitions are ready for which group, kept up to date instead of searched.

Each consumer group of a queue holds an ordered list of its ready partitions: those with visible
messages past the cursor and no live lease. A partition joins at the end and is taken from the
front, which is the rotating order of pops. What only time can make ready (an expiring lease, a
hold) waits in one heap of due instants and joins when a batch with a later stamp is applied, in
the order (due instant, cursor number). So the lists change only by applied batches, equally on
every replica; the heap is an index whose stale entries mean nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import Final

from .changes import Changes
from .cursors import NEVER, Cursor, first_wanted

READY: Final = 0


class Readiness:
    """Decides readiness and keeps the lists and the heap."""

    __slots__ = ("_changes", "_due", "_ignores_leases", "_tickets", "_waiting")

    def __init__(self, changes: Changes, ignores_leases: bool = False) -> None:
        self._changes = changes
        self._tickets = 0
        self._waiting: dict[int, Cursor] = {}  # those that the heap holds, by number
        self._due: list[tuple[int, int]] = []
        self._ignores_leases = ignores_leases

    def remove(self, cursor: Cursor) -> None:
        """Forget a cursor that is to go."""
        self._waiting.pop(cursor.number, None)
        if cursor.ticket:
            cursor.group.ready.remove(cursor)

    def status(self, cursor: Cursor, now_us: int) -> int:
        """`READY`, the later instant that may make it ready, or `NEVER` (no instant does)."""
        partition = cursor.partition
        lease = cursor.position.lease
        if lease is not None and now_us < lease.expires_us and not self._ignores_leases:
            return lease.expires_us
        first = first_wanted(cursor)
        if first >= partition.end:
            return NEVER
        options = cursor.group.queue.options
        if options.window_us and partition.last_write_us + options.window_us > now_us:
            return partition.last_write_us + options.window_us
        if options.delay_us:
            visible_us = partition.created_us(first) + options.delay_us
            if visible_us > now_us:
                return visible_us
        return READY

    def refresh(self, cursor: Cursor, now_us: int) -> bool:
        """Put the cursor where its status belongs; returns whether it became ready now."""
        status = self.status(cursor, now_us)
        if status == READY:
            if cursor.ticket:
                return False
            self._tickets += 1
            cursor.group.ready.append(cursor, self._tickets)
            self._changes.cursors.change(cursor.number, cursor)
            return True
        if cursor.ticket:
            cursor.group.ready.remove(cursor)
            self._changes.cursors.change(cursor.number, cursor)
        if status != NEVER and (cursor.due_us == NEVER or status < cursor.due_us):
            self._wait(cursor, status)
            heappush(self._due, (status, cursor.number))
        return False

    def _wait(self, cursor: Cursor, until_us: int) -> None:
        cursor.due_us = until_us
        self._waiting[cursor.number] = cursor

    def restore(self, cursors: Iterable[Cursor], now_us: int) -> None:
        """Take in restored cursors; those with a ticket are ready."""
        waiting: list[Cursor] = []
        ready: list[Cursor] = []
        for cursor in cursors:
            (ready if cursor.ticket else waiting).append(cursor)
        for cursor in sorted(ready, key=attrgetter("ticket")):
            self._tickets, cursor.ticket = cursor.ticket, 0
            cursor.group.ready.append(cursor, self._tickets)
        for cursor in waiting:
            status = self.status(cursor, now_us)
            if status not in (READY, NEVER):
                self._wait(cursor, status)
                self._due.append((status, cursor.number))
        heapify(self._due)

    def promote(self, now_us: int) -> list[str]:
        """Move what has become due by now to the ready lists; returns the queues concerned.

        An entry that came too early (its lease was extended, its window written to) goes back
        under its true instant first, so that the order does not depend on stale entries.
        """
        due, woken = self._due, []
        while due and due[0][0] <= now_us:
            entry_us, number = heappop(due)
            cursor = self._waiting.get(number)
            if cursor is None or cursor.due_us != entry_us:
                continue
            cursor.due_us = NEVER
            del self._waiting[number]
            actual_us = self.status(cursor, entry_us)
            if actual_us > entry_us:
                self._wait(cursor, actual_us)
                heappush(due, (actual_us, number))
            elif actual_us == READY and self.refresh(cursor, now_us):
                woken.append(cursor.group.queue.name)
        return woken

    def overdue(self, now_us: int) -> Iterator[Cursor]:
        """Cursors that time alone has made ready since the last promotion. Changes nothing.

        Cost: the entries of the heap due by now.
        """
        for entry_us, number in self._entries_until(now_us):
            cursor = self._waiting.get(number)
            if cursor is None or cursor.due_us != entry_us:
                continue
            if self.status(cursor, now_us) == READY:
                yield cursor

    def next_due_us(self, after_us: int) -> int | None:
        """Earliest instant later than `after_us` that may make something ready."""
        earliest: int | None = None
        for entry_us, number in self._entries_until(after_us):
            cursor = self._waiting.get(number)
            if cursor is None or cursor.due_us != entry_us:
                continue
            actual_us = self.status(cursor, after_us)
            if actual_us > after_us and (earliest is None or actual_us < earliest):
                earliest = actual_us
        for entry_us in self._first_after(after_us):
            if earliest is None or entry_us < earliest:
                earliest = entry_us
        return earliest

    def _entries_until(self, now_us: int) -> Iterator[tuple[int, int]]:
        due, stack = self._due, [0]
        while stack:
            place = stack.pop()
            if place < len(due) and due[place][0] <= now_us:
                yield due[place]
                stack.extend((2 * place + 1, 2 * place + 2))

    def _first_after(self, after_us: int) -> Iterator[int]:
        due, stack = self._due, [0]
        while stack:
            place = stack.pop()
            if place >= len(due):
                continue
            if due[place][0] > after_us:
                yield due[place][0]
            else:
                stack.extend((2 * place + 1, 2 * place + 2))
