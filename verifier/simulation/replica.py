"""The state machine of one simulated node, with its checkpoints and the snapshots it takes in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from zlib import crc32

from ...system.raft.core import Checkpoint, Compact, Event, Members, SnapshotInstalled
from ...system.raft.members import decode_members
from ...system.raft.messages import Entry, EntryKind
from .counters import Counters
from .disk import SimulatedDisk
from .knobs import Knobs
from .oracles import Oracles
from .streams import Stream

_STATE_MASK = 2**61 - 1


class Replica:
    """What a node has applied.

    Attributes:
        applied_index: The last entry applied.
        applied_term: Its term.
        members: The membership in force there.
        state: Tells states apart.
    """

    __slots__ = (
        "_counters",
        "_disk",
        "_give",
        "_held",
        "_knobs",
        "_node",
        "_oracles",
        "_stream",
        "applied_index",
        "applied_term",
        "members",
        "state",
    )

    def __init__(
        self,
        node: int,
        knobs: Knobs,
        disk: SimulatedDisk,
        oracles: Oracles,
        counters: Counters,
        stream: Stream,
        give: Callable[[Event], None],
    ) -> None:
        self._node = node
        self._knobs = knobs
        self._disk = disk
        self._oracles = oracles
        self._counters = counters
        self._stream = stream
        self._give = give
        self._held: list[Entry] | None = None
        self._rest_on(disk.log.checkpoint)

    def _rest_on(self, checkpoint: Checkpoint) -> None:
        self.applied_index = checkpoint.index
        self.applied_term = checkpoint.term
        self.members: Members = checkpoint.members
        self.state = self._disk.state

    def apply(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Apply entries, or hold them back during an activation; returns those applied."""
        if self._held is not None:
            self._held += entries
            return ()
        oracles, node = self._oracles, self._node
        oracles.on_apply(node, self.applied_index, entries)
        for entry in entries:
            if entry.kind is EntryKind.CONFIG:
                self.members = decode_members(entry.data)
            self.applied_index = entry.index
            self.applied_term = entry.term
            self.state = (self.state * 1_000_003 + crc32(entry.data) + entry.term) & _STATE_MASK
            oracles.on_state(node, entry.index, self.state)
        self._save()
        return entries

    def _save(self) -> None:
        every = self._knobs.checkpoint_every
        disk = self._disk
        if every and not disk.is_saving and self.applied_index >= disk.log.checkpoint.index + every:
            checkpoint = Checkpoint(self.applied_index, self.applied_term, self.members)
            disk.save(checkpoint, self.state, self._stream, self._on_saved)

    def _on_saved(self) -> None:
        self._counters.checkpoints += 1
        index = self._disk.log.checkpoint.index - self._knobs.log_tail
        if index > 0:
            self._counters.compactions += 1
            if self._stream.chance(0.5):
                self._disk.drop_head(index)
            self._give(Compact(index))

    def begin_activation(self) -> None:
        """Hold back what is to be applied from now on."""
        self._held = []

    def end_activation(self, checkpoint: Checkpoint, state: int, wanted: bool) -> Sequence[Entry]:
        """Rest on a snapshot if it is still wanted; returns what was held back and is applied."""
        held, self._held = self._held or [], None
        if wanted:
            self._oracles.on_snapshot(self._node, checkpoint, state)
            self._counters.installs += 1
            self._disk.activate(checkpoint, state)
            self._rest_on(checkpoint)
            self._held = []
            self._give(SnapshotInstalled(checkpoint.index, checkpoint.term, checkpoint.members))
            held += self._held
            self._held = None
        return self.apply([entry for entry in held if entry.index > self.applied_index])
