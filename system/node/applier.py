"""Committed entries on their way into the machine, a slice at a time.

A restarted node applies its whole log again. Doing that in one go would keep it from answering
heartbeats for seconds, so a long backlog is applied in slices between which other tasks run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from ..broker.machine import Machine
from ..broker.replies import Reply
from ..raft.messages import Entry, EntryKind

SLICE_S: Final = 0.01


class Applier:
    """Applies entries in order.

    Args:
        machine: The replicated state.
        applied: Called behind each entry with its replies; no replies for entries that carry no
            commands.
        caught_up: Called when nothing more is left to apply.

    Attributes:
        applied_index: The last entry applied.
        applied_term: Its term.
    """

    def __init__(
        self,
        machine: Machine,
        applied: Callable[[Entry, list[Reply]], None],
        caught_up: Callable[[], None],
    ) -> None:
        self.applied_index = 0
        self.applied_term = 0
        self._machine = machine
        self._applied = applied
        self._caught_up = caught_up
        self._backlog: deque[Entry] = deque()
        self._is_behind = False
        self._more = trio.Event()

    def add(self, entries: tuple[Entry, ...]) -> None:
        """Apply entries: at once if they take less than a slice, the rest by `run`."""
        self._backlog.extend(entries)
        if not self._is_behind:
            self._apply_slice()

    async def run(self) -> None:
        """Apply what `add` left over, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._is_behind:
                self._apply_slice()
                await trio.lowlevel.checkpoint()

    def _apply_slice(self) -> None:
        ends = time.perf_counter() + SLICE_S
        while self._backlog:
            entry = self._backlog.popleft()
            assert entry.index == self.applied_index + 1, (
                f"entry {entry.index} to apply behind {self.applied_index}"
            )
            replies: list[Reply] = []
            if entry.kind is EntryKind.COMMAND:
                replies = self._machine.apply(entry.index, entry.data)
            self.applied_index = entry.index
            self.applied_term = entry.term
            self._applied(entry, replies)
            if self._backlog and time.perf_counter() > ends:
                self._is_behind = True
                self._more.set()
                return
        self._is_behind = False
        self._caught_up()
