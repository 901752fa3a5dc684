"""Carries snapshots from one node to another, beside the links of the messages."""

from __future__ import annotations

from typing import Final

from ...system.raft.core import Checkpoint, SnapshotSent
from .counters import Counters
from .knobs import Knobs
from .network import Network
from .oracles import number_of
from .scheduler import Scheduler
from .server import Server
from .streams import Stream

TRANSFER_US_MIN: Final = 2_000
ACTIVATION_US_MAX: Final = 60_000
_PAUSED_US: Final = 10_000


class Courier:
    """Snapshots on their way. One fails when a link is cut, or its receiver is down, on arrival."""

    __slots__ = ("_counters", "_knobs", "_network", "_scheduler", "_servers", "_stream")

    def __init__(
        self,
        seed: int,
        knobs: Knobs,
        scheduler: Scheduler,
        network: Network,
        servers: list[Server],
        counters: Counters,
    ) -> None:
        self._stream = Stream(seed, "courier")
        self._knobs = knobs
        self._scheduler = scheduler
        self._network = network
        self._servers = servers
        self._counters = counters

    def send(self, source: Server, to: str, index_min: int) -> None:
        """Take the source's checkpoint as it is, and set out."""
        checkpoint, state = source.disk.log.checkpoint, source.disk.state
        assert checkpoint.index >= index_min, f"{source.name} has no snapshot of {index_min}"
        self._counters.snapshots += 1
        delay_us = self._stream.between(TRANSFER_US_MIN, self._knobs.snapshot_us_max)
        target = self._servers[number_of(to)]
        self._scheduler.after(
            delay_us, self._arrive, source, source.incarnation, target, checkpoint, state
        )

    def _arrive(
        self, source: Server, incarnation: int, target: Server, checkpoint: Checkpoint, state: int
    ) -> None:
        is_cut = self._network.is_cut(source.node, target.node)
        if is_cut or target.is_down or target.is_paused or target.is_activating:
            self._report(source, incarnation, SnapshotSent(target.name, checkpoint.index, False))
            return
        target.begin_activation()
        self._scheduler.after(
            self._stream.between(0, ACTIVATION_US_MAX),
            self._activate,
            source,
            incarnation,
            target,
            target.incarnation,
            checkpoint,
            state,
        )

    def _activate(
        self,
        source: Server,
        incarnation: int,
        target: Server,
        target_incarnation: int,
        checkpoint: Checkpoint,
        state: int,
    ) -> None:
        if target.is_down or target.incarnation != target_incarnation:
            self._report(source, incarnation, SnapshotSent(target.name, checkpoint.index, False))
        elif target.is_paused:
            self._scheduler.after(
                _PAUSED_US,
                self._activate,
                source,
                incarnation,
                target,
                target_incarnation,
                checkpoint,
                state,
            )
        else:
            target.end_activation(checkpoint, state)
            self._report(source, incarnation, SnapshotSent(target.name, checkpoint.index, True))

    def _report(self, source: Server, incarnation: int, event: SnapshotSent) -> None:
        """Tell the sender after the way back, unless it has restarted meanwhile."""
        if source.incarnation == incarnation:
            source.take(event)
