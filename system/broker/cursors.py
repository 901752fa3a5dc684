"""Cursors, the groups that they belong to, and the ready ones in their order.

There may be a million cursors, so they are kept small and out of the garbage collector's sight: a
`Cursor` and its partition refer to each other untracked, and whoever removes one of them undoes
that (see `State.drop_cursor` and `State.close`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from .lease import Position

if TYPE_CHECKING:
    from .partition import Partition
    from .queue import Queue

NEVER: Final = -1


class Cursor(msgspec.Struct, eq=False, gc=False):
    """One group's place in one partition.

    Attributes:
        number: Unique in the machine, in order of creation.
        partition: The partition.
        group: The group.
        position: Its state, see `lease`.
        is_contacted: Whether a pop has claimed here; before that, acks find no consumer.
        due_us: The instant under which the heap holds it, or `NEVER`.
        ticket: Its turn among the ready ones; 0 when it is not ready.
        before: The ready one before it.
        behind: The ready one behind it.
    """

    number: int
    partition: Partition
    group: Group
    position: Position
    is_contacted: bool = False
    due_us: int = NEVER
    ticket: int = 0
    before: Cursor | None = None
    behind: Cursor | None = None


class ReadyList:
    """The ready cursors of a group, next first: a list linked through the cursors themselves."""

    __slots__ = ("_count", "_first", "_last")

    def __init__(self) -> None:
        self._first: Cursor | None = None
        self._last: Cursor | None = None
        self._count = 0

    def __len__(self) -> int:
        """How many."""
        return self._count

    def __iter__(self) -> Iterator[Cursor]:
        """In their order."""
        cursor = self._first
        while cursor is not None:
            yield cursor
            cursor = cursor.behind

    def append(self, cursor: Cursor, ticket: int) -> None:
        """Take one in behind all others."""
        assert not cursor.ticket, f"cursor {cursor.number} is ready as {cursor.ticket}"
        cursor.ticket = ticket
        cursor.before = self._last
        if self._last is None:
            self._first = cursor
        else:
            self._last.behind = cursor
        self._last = cursor
        self._count += 1

    def remove(self, cursor: Cursor) -> None:
        """Take one out, wherever it stands."""
        assert cursor.ticket, f"cursor {cursor.number} is not ready"
        before, behind = cursor.before, cursor.behind
        if before is None:
            self._first = behind
        else:
            before.behind = behind
        if behind is None:
            self._last = before
        else:
            behind.before = before
        cursor.before = cursor.behind = None
        cursor.ticket = 0
        self._count -= 1

    def pop_first(self) -> Cursor:
        """Take out the first."""
        first = self._first
        assert first is not None, "nothing is ready"
        self.remove(first)
        return first


class Group:
    """One consumer group of one queue.

    Attributes:
        number: Minted by the machine, never reused; orders groups.
        name: Its name.
        queue: The queue.
        is_registered: Whether partitions created later get a cursor by themselves.
        since_us: Subscription instant; cursors start at the first message created at or after it.
        conflates: Whether it gets only the newest message of a partition; None before its first
            pop has said so.
        cursors: Partition number to cursor.
        ready: Its ready cursors.
    """

    __slots__ = (
        "conflates",
        "cursors",
        "is_registered",
        "name",
        "number",
        "queue",
        "ready",
        "since_us",
    )

    def __init__(self, number: int, name: str, queue: Queue) -> None:
        self.number = number
        self.name = name
        self.queue = queue
        self.is_registered = False
        self.since_us = 0
        self.conflates: bool | None = None
        self.cursors: dict[int, Cursor] = {}
        self.ready = ReadyList()


def first_wanted(cursor: Cursor) -> int:
    """Offset of the next message to deliver; retention may have moved it past the cursor."""
    behind, start = cursor.position.committed + 1, cursor.partition.log_start
    return max(start, behind)
