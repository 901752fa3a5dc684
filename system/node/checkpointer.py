"""The broker's state on its way into the store, about every second, while the node goes on.

The event loop collects what has changed; a thread commits it in one transaction, together with the
log index up to which it holds. Behind it the log may go, as far as no member is likely to need it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import trio

from ..raft.events import Compact
from ..raft.members import Checkpoint, Members
from ..raft.messages import Entry
from .applier import Applier
from .counters import Counters
from .log_meter import LogMeter, disposable_index
from .logbook import Logbook
from .opening import StoreInForce
from .storage_limits import StorageLimits
from .threads import in_thread

SLOW_CHECKPOINT_MS = 2000


class Core(Protocol):
    """What the consensus core says about its log."""

    @property
    def members(self) -> Members:
        """The membership in force."""
        ...

    @property
    def slowest_match_index(self) -> int | None:
        """The lowest index that a member is known to hold; None when this node does not lead."""
        ...


class Checkpointer:
    """Makes checkpoints and lets go of the log behind them.

    Args:
        in_force: The store.
        applier: Holds the machine, and says how far it is.
        core: Says how far the members are.
        step: Hands the core an event.
        purge: Deletes log segments without entries above an index; returns at once.
        limits: When, and what is kept.
        logbook: Hears of slow ones.
        counters: Counts them.

    Attributes:
        lock: Held while the store is written, and by whoever puts another one in its place.
        log_floor: Other members hold everything up to here, as the leader said last; 0 as long as
            none has.
        sending_index: A snapshot up to this entry is being sent; None for none.
        purged_index: The log was let go up to here.
    """

    def __init__(
        self,
        in_force: StoreInForce,
        applier: Applier,
        core: Core,
        step: Callable[[Compact], None],
        purge: Callable[[int], None],
        limits: StorageLimits,
        logbook: Logbook,
        counters: Counters,
    ) -> None:
        self.lock = trio.Lock()
        self.log_floor = 0
        self.sending_index: int | None = None
        self.purged_index = 0
        self._in_force = in_force
        self._applier = applier
        self._core = core
        self._step = step
        self._purge = purge
        self._limits = limits
        self._logbook = logbook
        self._counters = counters
        self._meter = LogMeter(applier.applied_index, limits.tail_bytes)
        self._committed_bytes = 0
        self._committed_at = trio.lowlevel.current_clock().current_time()
        self._is_due = trio.Event()

    @property
    def position(self) -> Checkpoint:
        """The last checkpoint."""
        return self._in_force.store.position

    @property
    def age_s(self) -> float:
        """How long ago the store last held everything that was applied."""
        if self.position.index == self._applier.applied_index:
            return 0.0
        return trio.current_time() - self._committed_at

    @property
    def own_floor(self) -> int | None:
        """Up to where all other members hold everything; None when this node does not lead."""
        floor = self._core.slowest_match_index
        if floor is None or self.sending_index is None:
            return floor
        return min(floor, self.sending_index) if floor else self.sending_index

    def hear_floor(self, floor: int | None) -> None:
        """The leader says up to where all other members hold everything."""
        if floor is not None:
            self.log_floor = floor

    def applied(self, entry: Entry) -> None:
        """An entry was applied."""
        self._meter.note(entry.index, len(entry.data))
        if self._meter.total_bytes - self._committed_bytes >= self._limits.checkpoint_bytes:
            self._is_due.set()

    def restart(self) -> None:
        """Another store was put in force."""
        self._meter.restart(self.position.index)
        self._committed_bytes = self._meter.total_bytes
        self._committed_at = trio.current_time()

    async def run(self) -> None:
        """Make checkpoints until cancelled."""
        while True:
            with trio.move_on_after(self._limits.checkpoint_ms / 1000):
                await self._is_due.wait()
            self._is_due = trio.Event()
            await self.commit()

    async def commit(self) -> None:
        """Make a checkpoint of what is applied now, if that is more than the last one holds.

        Raises:
            DiskFailedError: The disk refused.
            DamagedCheckpointError: The store is broken.
        """
        async with self.lock:
            await self._commit_locked()
        self._let_go()

    async def _commit_locked(self) -> None:
        # Once the machine has given its changes away, they must be committed, whatever is
        # cancelled: a stopping node makes another checkpoint after this one.
        with trio.CancelScope(shield=True):
            applier = self._applier
            if applier.applied_index == self.position.index:
                self._committed_at = trio.current_time()
                return
            began_s = time.monotonic()
            machine, committed_bytes = applier.machine, self._meter.total_bytes
            began_at = trio.current_time()
            self._meter.mark()
            changes = machine.take_changes()
            position = applier.position
            took_ms = round((time.monotonic() - began_s) * 1000)
            await in_thread(self._in_force.store.commit, changes, position)
            machine.changes_durable()
            self._committed_bytes, self._committed_at = committed_bytes, began_at
            self._note(len(changes), took_ms, round((time.monotonic() - began_s) * 1000))

    def _note(self, rows: int, collect_ms: int, whole_ms: int) -> None:
        counters = self._counters
        counters.checkpoints += 1
        counters.checkpoint_rows += rows
        counters.checkpoint_us += whole_ms * 1000
        counters.checkpoint_stall_us_max = max(counters.checkpoint_stall_us_max, collect_ms * 1000)
        if whole_ms > SLOW_CHECKPOINT_MS:
            self._logbook.warning(
                "slow-checkpoint", rows=rows, collect_ms=collect_ms, took_ms=whole_ms
            )

    def _let_go(self) -> None:
        """Let the log go up to the checkpoint, but for a tail, and what a member may need."""
        limits, meter = self._limits, self._meter
        floor: int | None = None
        if len(self._core.members.servers) > 1:
            own = self.own_floor
            floor = self.log_floor if own is None else own
        index = disposable_index(
            self.position.index,
            meter.index_behind(limits.tail_bytes),
            meter.index_behind(limits.hold_bytes),
            floor,
        )
        if index > self.purged_index:
            self.purged_index = index
            meter.forget(index)
            self._step(Compact(index))
            self._purge(index)
