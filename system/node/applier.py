"""Committed entries on their way into the machine, a slice at a time.

A restarted node applies the log behind its checkpoint again. Doing that in one go would keep it
from answering heartbeats for seconds, so a long backlog is applied in slices between which other
tasks run.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

import trio

from ..broker.machine import Machine
from ..broker.replies import Reply
from ..raft.members import Checkpoint, Members, decode_members
from ..raft.messages import Entry, EntryKind

SLICE_S: Final = 0.01


class Applier:
    """Applies entries in order.

    Args:
        machine: The replicated state.
        position: What it reflects already.
        applied: Called behind each entry with its replies; no replies for entries that carry no
            commands.
        caught_up: Called when nothing more is left to apply.
        is_awaited: Whether somebody here waits for the replies to the entry at an index.

    Attributes:
        machine: The replicated state.
        applied_index: The last entry applied.
        applied_term: Its term.
        members: The membership as of that entry.
    """

    def __init__(
        self,
        machine: Machine,
        position: Checkpoint,
        applied: Callable[[Entry, list[Reply]], None],
        caught_up: Callable[[], None],
        is_awaited: Callable[[int], bool],
    ) -> None:
        self.machine = machine
        self.applied_index = position.index
        self.applied_term = position.term
        self.members: Members = position.members
        self._applied = applied
        self._caught_up = caught_up
        self._is_awaited = is_awaited
        self._backlog: deque[Entry] = deque()
        self._is_behind = False
        self._is_held = False
        self._more = trio.Event()

    @property
    def position(self) -> Checkpoint:
        """What the machine reflects."""
        return Checkpoint(self.applied_index, self.applied_term, self.members)

    def add(self, entries: tuple[Entry, ...]) -> None:
        """Apply entries: at once if they take less than a slice, the rest by `run`."""
        self._backlog.extend(entries)
        if not self._is_behind and not self._is_held:
            self._apply_slice()

    def hold(self) -> None:
        """Apply nothing until `go_on`; the machine is about to take over a received state."""
        self._is_held = True

    def go_on(self, position: Checkpoint) -> None:
        """The machine reflects a later position now: apply again what has gathered behind it."""
        self.applied_index, self.applied_term = position.index, position.term
        self.members = position.members
        while self._backlog and self._backlog[0].index <= position.index:
            self._backlog.popleft()
        self._is_held = False
        self._apply_slice()

    async def run(self) -> None:
        """Apply what `add` left over, until cancelled."""
        while True:
            await self._more.wait()
            self._more = trio.Event()
            while self._is_behind and not self._is_held:
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
                is_awaited = self._is_awaited(entry.index)
                replies = self.machine.apply(entry.index, entry.data, is_awaited)
            elif entry.kind is EntryKind.CONFIG:
                self.members = decode_members(entry.data)
            self.applied_index = entry.index
            self.applied_term = entry.term
            self._applied(entry, replies)
            if self._backlog and time.perf_counter() > ends:
                self._is_behind = True
                self._more.set()
                return
        self._is_behind = False
        self._caught_up()
