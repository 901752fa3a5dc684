"""A log as a disk holds it: from some index on, without a gap."""

from __future__ import annotations

from collections.abc import Sequence

from ...system.raft.log import LogStart
from ...system.raft.members import Checkpoint
from ...system.raft.messages import Entry

NOTHING = Checkpoint()


class StoredLog:
    """Entries from `start_index` on, and the checkpoint that stands for those before.

    Attributes:
        start_index: Index of the first entry, or of the next when there is none.
        previous_term: Term of the entry before it.
        entries: The entries.
        checkpoint: What the state machine beside it holds.
    """

    __slots__ = ("checkpoint", "entries", "previous_term", "start_index")

    def __init__(self, entries: Sequence[Entry] = ()) -> None:
        self.start_index = 1
        self.previous_term = 0
        self.entries = list(entries)
        self.checkpoint = NOTHING

    @property
    def last_index(self) -> int:
        """Index of the last entry."""
        return self.start_index + len(self.entries) - 1

    @property
    def last_term(self) -> int:
        """Term of the last entry."""
        return self.entries[-1].term if self.entries else self.previous_term

    def term_at(self, index: int) -> int | None:
        """Return the term of an entry that is held; None otherwise."""
        position = index - self.start_index
        return self.entries[position].term if 0 <= position < len(self.entries) else None

    def holds(self, index: int, term: int) -> bool:
        """Whether the entry is held, itself or within the checkpoint."""
        return index <= self.checkpoint.index or self.term_at(index) == term

    def truncate_from(self, index: int) -> None:
        """Drop the entry at `index` and all after it."""
        del self.entries[index - self.start_index :]

    def extend(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end."""
        self.entries.extend(entries)

    def reset(self, start: LogStart) -> None:
        """Drop everything and begin after `start`."""
        self.entries.clear()
        self.start_index = start.index + 1
        self.previous_term = start.term

    def drop_head(self, index: int) -> None:
        """Drop the entries up to `index`, if they are held."""
        term = self.term_at(index)
        if term is not None:
            del self.entries[: index + 1 - self.start_index]
            self.start_index = index + 1
            self.previous_term = term

    def wipe(self) -> None:
        """Forget everything."""
        self.reset(LogStart(0, 0))
        self.checkpoint = NOTHING

    def copy(self) -> StoredLog:
        """Return a log that goes its own way from here."""
        other = StoredLog(self.entries)
        other.start_index = self.start_index
        other.previous_term = self.previous_term
        other.checkpoint = self.checkpoint
        return other
