"""One partition: an ordered log with gapless offsets, and the memory of its transaction ids."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec

from .message import Message

if TYPE_CHECKING:
    from .readiness import Cursor

_created = attrgetter("created_us")


class Partition:
    """The log of one partition.

    Attributes:
        number: Minted by the machine, never reused; orders partitions.
        partition_id: The number as the wire carries it.
        queue: Name of its queue.
        name: Its name in the queue.
        log_start: Offset of the oldest retained message; `end` when there is none.
        last_write_us: Stamp of the newest message, 0 before the first.
        cursors: One for each group that has one here, in the order of their first contact.
        completed: Messages below this offset are behind every cursor (see retention).
    """

    __slots__ = (
        "_base",
        "_departed",
        "_index",
        "_messages",
        "_repeated",
        "completed",
        "cursors",
        "last_write_us",
        "log_start",
        "name",
        "number",
        "partition_id",
        "queue",
    )

    def __init__(self, number: int, queue: str, name: str) -> None:
        self.number = number
        self.partition_id = str(number)
        self.queue = queue
        self.name = name
        self.log_start = 0
        self.last_write_us = 0
        self.completed = 0
        self.cursors: list[Cursor] = []
        self._base = 0  # offset of _messages[0]; below log_start after a trim, until compaction
        self._messages: list[Message] = []
        self._index: dict[str, Message] = {}
        self._repeated: dict[str, list[int]] = {}
        self._departed: deque[Message] = deque()

    @property
    def end(self) -> int:
        """The offset that the next message gets: the high watermark."""
        return self._base + len(self._messages)

    def stored(self, transaction_id: str) -> Message | None:
        """The newest message with this transaction id that is still remembered."""
        return self._index.get(transaction_id)

    def append(self, message: Message) -> None:
        """Add a message at the end."""
        assert message.offset == self.end, f"offset {message.offset} after end {self.end}"
        assert message.created_us >= self.last_write_us, (
            f"created {message.created_us} before {self.last_write_us}"
        )
        earlier = self._index.get(message.transaction_id)
        if earlier is not None:
            self._repeated.setdefault(message.transaction_id, []).append(earlier.offset)
        self._index[message.transaction_id] = message
        self._messages.append(message)
        self.last_write_us = message.created_us

    def resolve(self, transaction_id: str, committed: int, last: int) -> int | None:
        """Find the offset that an ack means.

        Returns the lowest offset in (committed, last] with this transaction id, else the highest
        at or below `committed`, else None. Ids repeat only beyond the dedup window.
        """
        newest = self._index.get(transaction_id)
        if newest is None:
            return None
        if transaction_id not in self._repeated:
            return newest.offset if newest.offset <= last else None
        offsets = [*self._repeated[transaction_id], newest.offset]
        inside = [offset for offset in offsets if committed < offset <= last]
        behind = [offset for offset in offsets if offset <= committed]
        return inside[0] if inside else behind[-1] if behind else None

    def slice(self, first: int, count: int) -> list[Message]:
        """Up to `count` retained messages from `first` on. Cost: `count`."""
        assert first >= self.log_start, f"offset {first} below log start {self.log_start}"
        start = first - self._base
        return self._messages[start : start + count]

    def at(self, offset: int) -> Message:
        """The retained message at an offset."""
        assert offset >= self.log_start, f"offset {offset} below log start {self.log_start}"
        return self._messages[offset - self._base]

    def first_since(self, instant_us: int) -> int:
        """Offset of the first retained message created at or after an instant, else `end`."""
        oldest = self.log_start - self._base
        return self._base + bisect_left(self._messages, instant_us, oldest, key=_created)

    def visible_end(self, now_us: int, delay_us: int) -> int:
        """First offset that is still hidden by delayed processing."""
        if not delay_us:
            return self.end
        oldest = self.log_start - self._base
        return self._base + bisect_right(self._messages, now_us - delay_us, oldest, key=_created)

    def trim(self, to: int) -> int:
        """Let go of the payloads below an offset; their transaction ids stay known.

        Returns how many payload bytes were freed. Cost: the messages let go, amortized.
        """
        messages, freed = self._messages, 0
        for place in range(self.log_start - self._base, min(to, self.end) - self._base):
            message = messages[place]
            freed += len(message.payload)
            slim = msgspec.structs.replace(message, payload=b"", trace_id=None)
            messages[place] = slim
            if self._index.get(message.transaction_id) is message:
                self._index[message.transaction_id] = slim
            self._departed.append(slim)
            self.log_start += 1
        gone = self.log_start - self._base
        if gone * 2 > len(messages):
            del messages[:gone]
            self._base = self.log_start
        return freed

    @property
    def oldest_departed_us(self) -> int | None:
        """Stamp of the oldest message that has left the log and whose id is still remembered."""
        return self._departed[0].created_us if self._departed else None

    def forget(self, before_us: int) -> None:
        """Drop transaction ids of messages that have left the log and are older than an instant."""
        departed = self._departed
        while departed and departed[0].created_us < before_us:
            message = departed.popleft()
            if self._index.get(message.transaction_id) is message:
                del self._index[message.transaction_id]
                self._repeated.pop(message.transaction_id, None)
            elif message.transaction_id in self._repeated:
                self._drop_repeat(message)

    def _drop_repeat(self, message: Message) -> None:
        offsets = self._repeated[message.transaction_id]
        if message.offset in offsets:
            offsets.remove(message.offset)
        if not offsets:
            del self._repeated[message.transaction_id]

    def retained(self) -> list[Message]:
        """A copy of the retained messages."""
        return self._messages[self.log_start - self._base :]

    def remembered(self) -> dict[str, Message]:
        """Transaction id to its newest message, for digests; do not change it."""
        return self._index
