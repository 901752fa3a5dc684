"""A node's disk at the level of whole writes: syncs take time, a crash loses what is un-synced."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ...system.raft.core import Persist
from ...system.raft.log import LogStart
from ...system.raft.members import Checkpoint
from ...system.raft.messages import HardState
from .knobs import Knobs
from .oracles import Oracles
from .scheduler import Scheduler
from .streams import Stream


class SimulatedDisk:
    """Durable term, vote, entries and checkpoint of one node, and its writes in flight, in order.

    Attributes:
        hard_state: What is durable.
        log: What is durable, the checkpoint included.
        state: The state of the state machine at the checkpoint.
        written: The log as the node last wrote it, durable or not.
        stall_us_max: While positive, a sync takes up to this long.
        is_saving: Whether a checkpoint is being written.
    """

    __slots__ = (
        "_generation",
        "_knobs",
        "_node",
        "_on_synced",
        "_oracles",
        "_pending",
        "_saving",
        "_scheduler",
        "_stream",
        "_syncing",
        "hard_state",
        "is_saving",
        "log",
        "stall_us_max",
        "state",
        "written",
    )

    def __init__(
        self,
        node: int,
        knobs: Knobs,
        scheduler: Scheduler,
        stream: Stream,
        oracles: Oracles,
        on_synced: Callable[[int], None],
    ) -> None:
        self._node = node
        self._knobs = knobs
        self._scheduler = scheduler
        self._stream = stream
        self._oracles = oracles
        self._on_synced = on_synced
        self._pending: deque[Persist] = deque()
        self._syncing = 0
        self._generation = 0
        self._saving = 0
        self.is_saving = False
        self.hard_state = HardState(0, None)
        self.log = oracles.durable[node]
        self.state = 0
        self.written = self.log.copy()
        self.stall_us_max = 0

    def submit(self, persist: Persist, term: int) -> None:
        """Take a write of a node in `term`; it becomes durable after those before it."""
        self._oracles.on_write(
            self._node,
            term,
            self.written,
            persist.truncate_from,
            persist.entries,
            persist.reset,
        )
        self._pending.append(persist)
        if not self._syncing:
            self._start_sync()

    def _start_sync(self) -> None:
        self._syncing = len(self._pending) if self._knobs.group_commit else 1
        if self.stall_us_max:
            delay_us = self._stream.between(0, self.stall_us_max)
        else:
            delay_us = self._stream.between(self._knobs.sync_us // 2, self._knobs.sync_us * 2)
        self._scheduler.after(delay_us, self._end_sync, self._generation)

    def _end_sync(self, generation: int) -> None:
        if generation != self._generation:
            return
        sequence = self._settle(self._syncing)
        self._syncing = 0
        if self._pending:
            self._start_sync()
        self._on_synced(sequence)

    def _settle(self, count: int) -> int:
        """Make the oldest `count` writes durable; returns the sequence of the last."""
        sequence = 0
        log = self.log
        for _ in range(count):
            persist = self._pending.popleft()
            sequence = persist.sequence
            if persist.hard_state is not None:
                self._oracles.on_durable_term(self._node, self.hard_state, persist.hard_state)
                self.hard_state = persist.hard_state
            if persist.reset is not None:
                log.reset(persist.reset)
            if persist.truncate_from is not None:
                log.truncate_from(persist.truncate_from)
            log.extend(persist.entries)
        return sequence

    def save(
        self, checkpoint: Checkpoint, state: int, stream: Stream, on_saved: Callable[[], None]
    ) -> None:
        """Write a checkpoint beside the log, then call `on_saved`; a crash forgets it."""
        assert not self.is_saving, f"n{self._node + 1} saves two checkpoints at once"
        self.is_saving = True
        delay_us = stream.between(self._knobs.sync_us, 10 * self._knobs.sync_us)
        self._scheduler.after(delay_us, self._end_save, self._saving, checkpoint, state, on_saved)

    def _end_save(
        self, saving: int, checkpoint: Checkpoint, state: int, on_saved: Callable[[], None]
    ) -> None:
        if saving != self._saving:
            return
        self.activate(checkpoint, state)
        on_saved()

    def activate(self, checkpoint: Checkpoint, state: int) -> None:
        """Rest on a checkpoint, durably, in place of one that is being written."""
        self._saving += 1
        self.is_saving = False
        self.log.checkpoint = checkpoint
        self.state = state

    def drop_head(self, index: int) -> None:
        """Drop entries behind the checkpoint."""
        assert index <= self.log.checkpoint.index, f"drops {index} before {self.log.checkpoint}"
        self.log.drop_head(index)
        self.written.drop_head(index)

    def reset(self, start: LogStart) -> None:
        """Drop the whole log at a boot."""
        self.log.reset(start)
        self.written = self.log.copy()

    def crash(self, survivors: int | None = None) -> None:
        """Lose what is un-synced.

        Args:
            survivors: How many writes of those in flight become durable all the same; by default
                a random prefix of the sync that is under way.
        """
        if survivors is None:
            survivors = self._stream.between(0, self._syncing)
        self._settle(min(survivors, len(self._pending)))
        self._pending.clear()
        self._syncing = 0
        self._generation += 1
        self._saving += 1
        self.is_saving = False
        self.written = self.log.copy()

    def wipe(self) -> None:
        """Lose everything, after a crash."""
        self.log.wipe()
        self.state = 0
        self.hard_state = HardState(0, None)
        self.written = self.log.copy()

    def heal(self) -> None:
        """Be fast again, and end a sync that is under way at once."""
        self.stall_us_max = 0
        if self._syncing:
            self._generation += 1
            self._scheduler.after(self._knobs.sync_us, self._end_sync, self._generation)
