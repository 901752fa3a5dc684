"""Which membership is in force on one server: the latest in its log, committed or not.

A membership counts from the moment it is appended (thesis §4.1); if its entry is truncated, the
one before counts again.
"""

from __future__ import annotations

from collections.abc import Iterable

from .members import Members, decode_members
from .messages import Entry, EntryKind


class Membership:
    """The memberships that the log holds, above the one that its start rests on.

    Attributes:
        members: The one in force.
        index: The entry that put it in force; that of a checkpoint, or 0 for the seed, at the base.
    """

    __slots__ = ("_stack", "index", "members")

    def __init__(self, index: int, members: Members) -> None:
        self._stack: list[tuple[int, Members]] = [(index, members)]
        self.index = index
        self.members = members

    @property
    def previous(self) -> Members:
        """The membership that comes back if the one in force is truncated."""
        return self._stack[max(0, len(self._stack) - 2)][1]

    def has_named(self, name: str, incarnation: str) -> bool:
        """Whether a membership that is held names a server by this incarnation."""
        return any(members.known_of(name).incarnation == incarnation for _, members in self._stack)

    def append(self, entries: Iterable[Entry]) -> bool:
        """Take memberships out of new entries; returns whether there was one."""
        depth = len(self._stack)
        for entry in entries:
            if entry.kind is EntryKind.CONFIG:
                self._stack.append((entry.index, decode_members(entry.data)))
        return len(self._stack) > depth and self._refresh()

    def truncate_from(self, index: int) -> bool:
        """Forget memberships of dropped entries; returns whether there was one."""
        depth = len(self._stack)
        while self._stack[-1][0] >= index:
            assert len(self._stack) > 1, (
                f"membership-truncated: from {index}, the base is at {self._stack[0][0]}"
            )
            self._stack.pop()
        return len(self._stack) < depth and self._refresh()

    def compact(self, index: int) -> None:
        """Forget all but the last of the memberships up to `index`, which cannot be truncated."""
        stack = self._stack
        while len(stack) > 1 and stack[1][0] <= index:
            del stack[0]

    def install(self, index: int, members: Members) -> None:
        """Rest on a checkpoint; memberships of entries behind it stay."""
        self._stack = [(index, members), *(later for later in self._stack if later[0] > index)]
        self._refresh()

    def _refresh(self) -> bool:
        self.index, self.members = self._stack[-1]
        return True
