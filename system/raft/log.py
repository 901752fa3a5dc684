"""The replicated log as one server holds it in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence

import msgspec

from .messages import Entry


class LogStart(msgspec.Struct, frozen=True, gc=False):
    """Where a log begins that holds no entry from before.

    Attributes:
        index: The entry before the first one that the log can hold.
        term: Its term.
    """

    index: int
    term: int


class RaftLog:
    """Entries from `start_index` on, without a gap, in terms that never fall.

    A log whose head was compacted away starts past 1 and remembers the term of the entry before
    its start. Looking up a term is O(1), finding where a term begins O(log n).
    """

    __slots__ = ("_entries", "_terms", "last_index", "last_term", "previous_term", "start_index")

    def __init__(
        self, entries: Iterable[Entry] = (), start_index: int = 1, previous_term: int = 0
    ) -> None:
        """Take over recovered entries.

        Args:
            entries: The entries at `start_index` and after.
            start_index: Index of the first entry that this log holds, or would hold.
            previous_term: Term of the entry at `start_index - 1`; 0 when there is none.
        """
        assert start_index >= 1, f"log starts at {start_index}, indexes start at 1"
        self.start_index = start_index
        self.previous_term = previous_term
        self.last_index = start_index - 1
        self.last_term = previous_term
        self._entries: list[Entry] = []
        self._terms: list[int] = []
        self.append(tuple(entries))

    def __len__(self) -> int:
        return len(self._entries)

    def append(self, entries: Sequence[Entry]) -> None:
        """Add entries at the end; they must continue the log."""
        for entry in entries:
            assert entry.index == self.last_index + 1, (
                f"log-gap: entry {entry.index} after last index {self.last_index}"
            )
            assert entry.term >= self.last_term, (
                f"log-term: entry {entry.index} of term {entry.term} after term {self.last_term}"
            )
            self.last_index = entry.index
            self.last_term = entry.term
            self._entries.append(entry)
            self._terms.append(entry.term)

    def truncate_from(self, index: int) -> None:
        """Drop the entry at `index` and all after it."""
        keep = index - self.start_index
        assert 0 <= keep < len(self._entries), (
            f"truncate-range: from {index}, log holds {self.start_index}..{self.last_index}"
        )
        del self._entries[keep:]
        del self._terms[keep:]
        self.last_index = index - 1
        self.last_term = self._terms[-1] if self._terms else self.previous_term

    def compact(self, index: int) -> None:
        """Drop the entries up to `index`; linear in the entries that stay, but cheap for each."""
        term = self.term_at(index)
        assert term is not None, (
            f"compact-range: up to {index}, log holds {self.start_index}..{self.last_index}"
        )
        count = index + 1 - self.start_index
        del self._entries[:count]
        del self._terms[:count]
        self.start_index = index + 1
        self.previous_term = term

    def reset(self, start: LogStart) -> None:
        """Drop everything; the log begins after `start`."""
        self._entries.clear()
        self._terms.clear()
        self.start_index = start.index + 1
        self.previous_term = start.term
        self.last_index = start.index
        self.last_term = start.term

    def term_at(self, index: int) -> int | None:
        """Return the term of the entry at `index`; None past the end and before the start.

        The entry just before the start has a known term too.
        """
        position = index - self.start_index
        if 0 <= position < len(self._terms):
            return self._terms[position]
        return self.previous_term if position == -1 else None

    def entry_at(self, index: int) -> Entry:
        """Return the entry at `index`, which the log must hold."""
        assert self.start_index <= index <= self.last_index, (
            f"log-range: entry {index}, log holds {self.start_index}..{self.last_index}"
        )
        return self._entries[index - self.start_index]

    def between(self, first: int, last: int) -> tuple[Entry, ...]:
        """Return the entries from `first` to `last`, both included; the log must hold them."""
        assert self.start_index <= first <= last + 1 <= self.last_index + 1, (
            f"log-range: entries {first}..{last}, log holds {self.start_index}..{self.last_index}"
        )
        return tuple(self._entries[first - self.start_index : last + 1 - self.start_index])

    def batch(self, first: int, entries_max: int, bytes_max: int) -> tuple[Entry, ...]:
        """Return entries from `first` on within both limits, but at least one if there is one."""
        position = first - self.start_index
        assert position >= 0, f"log-range: batch from {first}, log starts at {self.start_index}"
        picked = self._entries[position : position + entries_max]
        size = 0
        for count, entry in enumerate(picked):
            size += len(entry.data)
            if size > bytes_max and count:
                return tuple(picked[:count])
        return tuple(picked)

    def first_index_of(self, term: int) -> int:
        """Return where entries of `term` or later begin; one past the end if there are none."""
        return self.start_index + bisect_left(self._terms, term)

    def last_index_of(self, term: int) -> int | None:
        """Return the index of the last entry of exactly `term`, or None.

        The entry just before the start counts too.
        """
        position = bisect_right(self._terms, term) - 1
        held_term = self._terms[position] if position >= 0 else self.previous_term
        return self.start_index + position if held_term == term else None

    def is_up_to_date(self, last_index: int, last_term: int) -> bool:
        """Whether a log that ends so is at least as up to date as this one (Raft §5.4.1)."""
        return (last_term, last_index) >= (self.last_term, self.last_index)
