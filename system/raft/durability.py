"""What of a server's memory is durable, and which messages wait for it.

Terms, votes and entries must be durable before they are answered (Raft §5, figure 2 "updated on
stable storage before responding"). The core changes its memory at once, numbers each write, and
holds a message back until the write it rests on is settled.
"""

from __future__ import annotations

from collections import deque

from .events import Send


class Durability:
    """Writes in flight, in issue order, and the messages that wait for them.

    Attributes:
        issued: Sequence number of the latest write; 0 before the first.
        settled: Every write up to this one is durable.
        durable_index: Entries up to this one are durable, as the log in memory has them.
        hard_state_sequence: The latest write that carried a term or a vote.
    """

    __slots__ = (
        "_checkpoint_index",
        "_held",
        "_writes",
        "durable_index",
        "hard_state_sequence",
        "issued",
        "settled",
    )

    def __init__(self, durable_index: int) -> None:
        self.issued = 0
        self.settled = 0
        self.durable_index = durable_index
        self._checkpoint_index = 0
        self.hard_state_sequence = 0
        self._writes: deque[tuple[int, int]] = deque()
        self._held: deque[tuple[int, Send]] = deque()

    def issue(self, sequence: int, last_index: int) -> None:
        """Note that write `sequence` makes the log durable up to `last_index`."""
        assert sequence == self.issued + 1, f"write-order: {sequence} after {self.issued}"
        self.issued = sequence
        self._writes.append((sequence, last_index))

    def truncate_from(self, index: int) -> None:
        """Forget the durability of entries that memory no longer has.

        Writes in flight lose the truncated part too: other entries will stand at these indexes.
        """
        self.durable_index = min(self.durable_index, index - 1)
        if self._writes and self._writes[-1][1] >= index:
            self._writes = deque((write, min(last, index - 1)) for write, last in self._writes)

    def rest_on(self, index: int, resets: bool) -> None:
        """Note that a durable checkpoint holds every entry up to `index`.

        Args:
            index: The last entry in the checkpoint.
            resets: Whether the log is dropped for it, with what is in flight.
        """
        self._checkpoint_index = index
        if resets:
            self.durable_index = index
            self._writes = deque((write, index) for write, _ in self._writes)
        else:
            self.durable_index = max(self.durable_index, index)

    def settle(self, sequence: int) -> None:
        """Note that every write up to `sequence` is durable."""
        assert sequence <= self.issued, f"write-order: settled {sequence}, issued {self.issued}"
        writes = self._writes
        while writes and writes[0][0] <= sequence:
            self.settled, last_index = writes.popleft()
            self.durable_index = max(last_index, self._checkpoint_index)

    def hold(self, sequence: int, send: Send) -> None:
        """Keep a message until write `sequence` is settled."""
        self._held.append((sequence, send))

    def release(self) -> list[Send]:
        """Return the messages whose writes are settled, oldest first."""
        ready = [send for sequence, send in self._held if sequence <= self.settled]
        if ready:
            self._held = deque(held for held in self._held if held[0] > self.settled)
        return ready

    def drop_held(self) -> None:
        """Forget the held messages: they belong to a term that is over."""
        self._held.clear()
