"""The leader's planner: one stamp and one seed for a batch of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .commands import Batch, Command, encode_batch


class Planner:
    """Turns commands into log entries; make one when this node may plan as leader.

    That is after its machine has applied the first entry of its own term: `last_us` then covers
    every stamp that can precede the planner's own.
    """

    def __init__(self, entropy: Callable[[int], bytes], last_us: int = 0) -> None:
        """Start after a stamp.

        Args:
            entropy: Returns so many random bytes.
            last_us: `Machine.now_us` of the node that became leader.
        """
        self._entropy = entropy
        self.last_us = last_us

    def plan(self, clock_us: int, commands: Sequence[Command]) -> bytes:
        """Encode one log entry's data, `Batch(max(clock, last + 1), seed, commands)`.

        A clock that jumps back cannot move stamps back: they then advance by 1 µs an entry.
        """
        assert commands, "a batch needs at least one command"
        self.last_us = max(clock_us, self.last_us + 1)
        return encode_batch(Batch(self.last_us, self._entropy(8), tuple(commands)))
