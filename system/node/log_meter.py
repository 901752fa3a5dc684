"""How many bytes of log lie behind the last applied entry, so that just enough is kept."""

from __future__ import annotations

from collections import deque
from typing import Final

MARK_BYTES_MAX: Final = 256 * 1024
_MARKS_A_TAIL: Final = 8
_MARK_ENTRIES: Final = 1024
_ENTRY_BYTES: Final = 64
"""About what an entry takes beside its data, in memory and on disk."""


class LogMeter:
    """Remembers at which index how many bytes had been applied, every now and then.

    Args:
        index: Everything up to here was applied before.
        tail_bytes: The least distance that will be asked for; an eighth of it is how exact the
            answers are, or `MARK_BYTES_MAX`.

    Attributes:
        total_bytes: Applied since the start.
    """

    def __init__(self, index: int, tail_bytes: int) -> None:
        self.total_bytes = 0
        self._mark_bytes = max(1, min(MARK_BYTES_MAX, tail_bytes // _MARKS_A_TAIL))
        self._last_index = index
        self._marks: deque[tuple[int, int]] = deque([(index, 0)])

    def note(self, index: int, data_bytes: int) -> None:
        """An entry was applied."""
        self.total_bytes += data_bytes + _ENTRY_BYTES
        self._last_index = index
        mark_index, mark_bytes = self._marks[-1]
        if self.total_bytes - mark_bytes >= self._mark_bytes or index - mark_index >= _MARK_ENTRIES:
            self.mark()

    def mark(self) -> None:
        """Remember the last applied entry."""
        if self._marks[-1][0] != self._last_index:
            self._marks.append((self._last_index, self.total_bytes))

    def restart(self, index: int) -> None:
        """The log begins anew behind an entry."""
        self._marks.clear()
        self._marks.append((index, self.total_bytes))
        self._last_index = index

    def index_behind(self, distance_bytes: int) -> int:
        """An entry behind which about so many bytes were applied, or a few more; 0 for none."""
        found = 0
        for index, total in self._marks:
            if self.total_bytes - total < distance_bytes:
                break
            found = index
        return found

    def forget(self, index: int) -> None:
        """Entries up to this one are not asked for any more."""
        while len(self._marks) > 1 and self._marks[1][0] <= index:
            self._marks.popleft()


def disposable_index(checkpoint: int, tail: int, hold: int, floor: int | None) -> int:
    """Up to which entry the log may go; never beyond the checkpoint.

    Args:
        checkpoint: The last entry that the durable checkpoint holds.
        tail: The entry behind which the tail lies that is kept in any case.
        hold: The entry behind which lies what is kept for a member that is further behind.
        floor: All other members hold everything up to here; None when there are none.
    """
    index = min(checkpoint, tail)
    if floor is not None and floor < index:
        index = max(floor, min(index, hold))
    return index
