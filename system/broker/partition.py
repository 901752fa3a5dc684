"""One partition: an ordered log with gapless offsets, and the memory of its transaction ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import msgspec

from .message import Message, Run
from .rows import MessageStore

if TYPE_CHECKING:
    from .cursors import Cursor

INDEXED_FROM: Final = 9
"""A partition that remembers fewer transaction ids searches them one by one."""

LISTED_FROM: Final = 9
"""Fewer runs are a tuple, which takes less memory than a list that grows."""

_created = attrgetter("created_us")
_first = attrgetter("first")


class Partition(msgspec.Struct, eq=False, gc=False):
    """The log of one partition, as runs of messages in the order of their offsets.

    There may be a million partitions: see `cursors` about the garbage collector, which does not see
    them either. A run that lies below the log start as a whole has *departed*: its payloads are
    gone, its transaction ids are remembered until it is forgotten.

    Attributes:
        number: Minted by the machine, never reused; orders partitions.
        queue: Name of its queue.
        name: Its name in the queue.
        log_start: Offset of the oldest retained message; `end` when there is none.
        end: The offset that the next message gets: the high watermark.
        last_write_us: Stamp of the newest message, 0 before the first.
        cursors: One for each group that has one here, in the order of their first contact.
        completed: Messages below this offset are behind every cursor (see retention).
    """

    number: int
    queue: str
    name: str
    log_start: int = 0
    end: int = 0
    last_write_us: int = 0
    completed: int = 0
    cursors: tuple[Cursor, ...] = ()
    _runs: tuple[Run, ...] | list[Run] = ()
    _skipped: int = 0  # so many runs at the front are forgotten, until compaction
    _index: dict[str, int] | None = None
    _repeated: dict[str, list[int]] | None = None

    @property
    def partition_id(self) -> str:
        """The number as the wire carries it."""
        return str(self.number)

    def append(self, run: Run) -> None:
        """Add messages at the end. Cost: their transaction ids."""
        runs, end = self._runs, self.end
        assert run.first == end, f"offset {run.first} after end {end}"
        assert run.created_us >= self.last_write_us, (
            f"created {run.created_us} before {self.last_write_us}"
        )
        if isinstance(runs, list):
            runs.append(run)
        elif len(runs) < LISTED_FROM - 1:
            self._runs = (*runs, run)
        else:
            self._runs = [*runs, run]
        self.end = end + (1 if isinstance(run.names, str) else len(run.names))
        self.last_write_us = run.created_us
        if self._index is not None:
            self._note(self._index, run)
        elif self.end - self._runs[self._skipped].first >= INDEXED_FROM:
            self._index = {}
            for known in self.remembered():
                self._note(self._index, known)

    def place(self, log_start: int, end: int, last_write_us: int) -> None:
        """Set the bounds of an empty partition; runs taken back may move the end on."""
        self.log_start, self.end, self.last_write_us = log_start, end, last_write_us

    def restore(self, run: Run) -> None:
        """Take back a run behind those taken back before."""
        end, last_write_us = self.end, self.last_write_us
        if self._runs:
            behind = self._runs[-1]
            assert run.first == behind.first + behind.count, f"run {run.first} with a gap before"
        self.end, self.last_write_us = run.first, run.created_us
        self.append(run)
        self.end = max(end, self.end)
        self.last_write_us = max(last_write_us, self.last_write_us)

    @property
    def is_whole(self) -> bool:
        """Whether all that is retained is there."""
        if self.log_start == self.end:
            return True
        first, last = self._runs[self._skipped], self._runs[-1]
        return first.first <= self.log_start and last.first + last.count == self.end

    def find(self, transaction_id: str) -> int | None:
        """Offset of the newest remembered message with this transaction id."""
        if self._index is not None:
            return self._index.get(transaction_id)
        runs = self._runs
        for place in range(len(runs) - 1, self._skipped - 1, -1):
            offset = runs[place].place_of(transaction_id)
            if offset is not None:
                return offset
        return None

    def knows_none_of(self, transaction_ids: set[str]) -> bool:
        """Whether no remembered message has any of these transaction ids."""
        if self._index is not None:
            return self._index.keys().isdisjoint(transaction_ids)
        return all(transaction_ids.isdisjoint(run.all_names) for run in self.remembered())

    def resolve(self, transaction_id: str, committed: int, last: int) -> int | None:
        """Find the offset that an ack means.

        Returns the lowest offset in (committed, last] with this transaction id, else the highest
        at or below `committed`, else None. Ids repeat only beyond the dedup window.
        """
        newest = self.find(transaction_id)
        if newest is None:
            return None
        older: Sequence[int] = ()
        if self._index is None:
            older = self._older(transaction_id, newest)
        elif self._repeated is not None:
            older = self._repeated.get(transaction_id, ())
        if not older:
            return newest if newest <= last else None
        offsets = [*older, newest]
        inside = [offset for offset in offsets if committed < offset <= last]
        behind = [offset for offset in offsets if offset <= committed]
        return inside[0] if inside else behind[-1] if behind else None

    def run_at(self, offset: int) -> Run:
        """The run that a remembered offset is in. Cost: a search among the runs."""
        return self._runs[self._place_of(offset)]

    def _place_of(self, offset: int) -> int:
        runs = self._runs
        if runs[-1].first <= offset:
            return len(runs) - 1
        if runs[self._skipped].first == offset:
            return self._skipped
        return bisect_right(runs, offset, self._skipped, key=_first) - 1

    def created_us(self, offset: int) -> int:
        """When a remembered message was created."""
        return self.run_at(offset).created_us

    def name_at(self, offset: int) -> str:
        """A remembered message's transaction id."""
        return self.run_at(offset).name_at(offset)

    def runs(self, first: int, end: int) -> Iterator[tuple[Run, int, int]]:
        """The runs of an offset range, each with the part of the range inside it."""
        assert first >= self.log_start, f"offset {first} below log start {self.log_start}"
        if first >= min(end, self.end):
            return
        runs, place = self._runs, self._place_of(first)
        while place < len(runs) and runs[place].first < end:
            run = runs[place]
            yield run, max(first, run.first), min(end, run.first + run.count)
            place += 1

    def messages(self, first: int, count: int, store: MessageStore | None) -> list[Message]:
        """Up to `count` retained messages from `first` on. Cost: those, and their runs' reads."""
        assert first >= self.log_start, f"offset {first} below log start {self.log_start}"
        end = min(first + count, self.end)
        if first >= end:
            return []
        runs, place = self._runs, self._place_of(first)
        run = runs[place]
        if end <= run.first + run.count:
            return run.messages(self.number, first, end, store)
        found: list[Message] = []
        while first < end:
            run = runs[place]
            stop = min(run.first + run.count, end)
            found += run.messages(self.number, first, stop, store)
            first = stop
            place += 1
        return found

    def message(self, offset: int, store: MessageStore | None) -> Message:
        """The retained message at an offset."""
        (found,) = self.messages(offset, 1, store)
        return found

    def weight(self, first: int, end: int) -> int:
        """Bytes of the payloads in a retained range. Cost: its runs."""
        run = self.run_at(first)
        if end <= run.first + run.count:
            return run.weight(first, end)
        return sum([run.weight(start, stop) for run, start, stop in self.runs(first, end)])

    def first_since(self, instant_us: int) -> int:
        """Offset of the first retained message created at or after an instant, else `end`."""
        place = bisect_left(self._runs, instant_us, self._skipped, key=_created)
        return self._from(place)

    def visible_end(self, now_us: int, delay_us: int) -> int:
        """First offset that is still hidden by delayed processing."""
        if not delay_us:
            return self.end
        return self._from(bisect_right(self._runs, now_us - delay_us, self._skipped, key=_created))

    def trim(self, to: int) -> list[Run]:
        """Move the log start up to an offset; transaction ids stay known.

        Returns the runs that have departed by it. Cost: those, and a search.
        """
        start, to = self.log_start, min(to, self.end)
        if to <= start:
            return []
        self.log_start = to
        departed: list[Run] = []
        place = bisect_right(self._runs, start, self._skipped, key=_first) - 1
        while place < len(self._runs):
            run = self._runs[place]
            if run.first + run.count > to:
                break
            run.lose_body()
            departed.append(run)
            place += 1
        return departed

    @property
    def oldest_departed_us(self) -> int | None:
        """Stamp of the oldest run that has departed and is still remembered."""
        if self._skipped == len(self._runs):
            return None
        oldest = self._runs[self._skipped]
        return oldest.created_us if oldest.first + oldest.count <= self.log_start else None

    def forget(self, before_us: int) -> list[Run]:
        """Drop the transaction ids of departed runs that are older than an instant.

        Returns those runs. Cost: their messages, amortized.
        """
        runs, place = self._runs, self._skipped
        while place < len(runs):
            run = runs[place]
            if run.created_us >= before_us or run.first + run.count > self.log_start:
                break
            place += 1
        if place == self._skipped:
            return []
        forgotten = list(runs[self._skipped : place])
        for run in forgotten:
            self._unlearn(run)
        self._skipped = place
        if place * 2 > len(runs):
            kept = runs[place:]
            self._runs = kept if len(kept) >= LISTED_FROM else tuple(kept)
            self._skipped = 0
        if not self._runs:
            self._index = self._repeated = None
        return forgotten

    @property
    def is_forgotten(self) -> bool:
        """Whether nothing is remembered."""
        return self._skipped == len(self._runs)

    def remembered(self) -> Iterator[Run]:
        """All runs, the departed ones first."""
        for place in range(self._skipped, len(self._runs)):
            yield self._runs[place]

    def _from(self, place: int) -> int:
        """First retained offset of the run at a place or behind it."""
        runs = self._runs
        return max(runs[place].first, self.log_start) if place < len(runs) else self.end

    def _note(self, index: dict[str, int], run: Run) -> None:
        offset = run.first
        if isinstance(run.names, str) and run.names not in index:
            index[run.names] = offset
            return
        names = run.all_names
        if index.keys().isdisjoint(names):
            index.update(zip(names, range(offset, offset + len(names)), strict=True))
            return
        for name in names:
            earlier = index.get(name)
            if earlier is not None:
                if self._repeated is None:
                    self._repeated = {}
                self._repeated.setdefault(name, []).append(earlier)
            index[name] = offset
            offset += 1

    def _older(self, transaction_id: str, newest: int) -> list[int]:
        """Offsets below `newest` with the same transaction id, rising, without an index."""
        places = [run.place_of(transaction_id) for run in self.remembered()]
        return [offset for offset in places if offset is not None and offset != newest]

    def _unlearn(self, run: Run) -> None:
        index, repeated = self._index, self._repeated
        if index is None:
            return
        offset = run.first
        for name in run.all_names:
            if index.get(name) == offset:
                del index[name]
            elif repeated is not None and name in repeated:
                repeated[name].remove(offset)
                if not repeated[name]:
                    del repeated[name]
            offset += 1
