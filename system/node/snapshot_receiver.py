"""A member's side of snapshots: stage what comes, check it, put it in force, go on from there.

The node keeps its place in the cluster meanwhile. What is staged survives a broken connection and
a crash. The new state is built beside the old one, so the node stops applying only for the few
file operations between them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from typing import Final, Protocol

import trio

from ..broker.machine import Machine
from ..bugs import Bugs
from ..raft.events import SnapshotInstalled
from ..raft.members import Checkpoint
from ..storage.checkpoint import CheckpointStore
from ..storage.checkpoint_folder import INCOMING, CheckpointFolder, Offer
from ..storage.errors import DamagedCheckpointError
from .applier import Applier
from .checkpointer import Checkpointer
from .clock import NodeClock
from .counters import Counters
from .frames import FrameBuffer, FrameError
from .logbook import Logbook
from .opening import StoreInForce, restore_machine
from .snapshot_frames import (
    CHUNK_BYTES,
    FRAME_BYTES_MAX,
    SILENCE_S_MAX,
    Chunk,
    Declined,
    Got,
    Have,
    OfferFrame,
    Resting,
    hear,
    say,
)
from .threads import in_thread

_LOOK_S: Final = 0.005


class Core(Protocol):
    """What the consensus core is asked."""

    def wants_snapshot(self, index: int) -> bool:
        """Whether a snapshot up to this entry is any news."""
        ...


class Driver(Protocol):
    """Takes events for the core, and says what of the log is durable."""

    @property
    def asked_sequence(self) -> int:
        """The last write that was asked for."""
        ...

    @property
    def durable_sequence(self) -> int:
        """The last write that is durable."""
        ...

    def step(self, event: SnapshotInstalled) -> None:
        """Hand over one event."""
        ...


@dataclass(frozen=True, slots=True)
class _Staged:
    """A received store that has been read whole: its state, and what it reflects."""

    machine: Machine
    payloads: StoreInForce
    position: Checkpoint


class SnapshotReceiver:
    """Takes snapshots, one at a time; see the module.

    Args:
        folder: Stages and activates.
        in_force: The store that is replaced.
        checkpointer: Is stopped meanwhile.
        applier: Is held meanwhile, and its machine takes over what was received.
        core: Says whether it is needed.
        driver: Hands the core an event.
        clock: Follows the stamps in what was received.
        ends_process: A block in which a failing disk ends the process.
        bugs: Planted defects.
        logbook: Hears of each.
        counters: Counts them.
    """

    def __init__(
        self,
        folder: CheckpointFolder,
        in_force: StoreInForce,
        checkpointer: Checkpointer,
        applier: Applier,
        core: Core,
        driver: Driver,
        clock: NodeClock,
        ends_process: Callable[[], AbstractContextManager[None]],
        bugs: Bugs,
        logbook: Logbook,
        counters: Counters,
    ) -> None:
        self._ends_process = ends_process
        self._folder = folder
        self._in_force = in_force
        self._checkpointer = checkpointer
        self._applier = applier
        self._core = core
        self._driver = driver
        self._clock = clock
        self._bugs = bugs
        self._logbook = logbook
        self._counters = counters
        self._is_busy = False

    async def serve(self, peer: str, stream: trio.abc.Stream, buffer: FrameBuffer) -> None:
        """Take what a peer sends on its connection.

        Raises:
            FrameError: It is no snapshot.
            trio.BrokenResourceError: The connection is lost.
            trio.TooSlowError: Nothing came for too long.
        """
        buffer.frame_bytes_max = FRAME_BYTES_MAX
        with trio.fail_after(SILENCE_S_MAX):
            frame = await hear(stream, buffer)
        if not isinstance(frame, OfferFrame) or not 0 < frame.chunk_bytes <= CHUNK_BYTES:
            raise FrameError("a snapshot's connection must begin with an offer")
        if self._is_busy:
            await say(stream, Declined("another snapshot is being received"))
            return
        self._is_busy = True
        try:
            await self._take(peer, stream, buffer, frame)
        finally:
            self._is_busy = False

    async def _take(
        self, peer: str, stream: trio.abc.Stream, buffer: FrameBuffer, frame: OfferFrame
    ) -> None:
        if not self._core.wants_snapshot(frame.index):
            await say(stream, Resting())
            return
        offer = Offer(frame.index, frame.term, frame.size, frame.sha256, frame.chunk_bytes)
        try:
            have = await in_thread(self._folder.resume, offer)
            self._logbook.info(
                "snapshot-receiving", peer=peer, log_index=offer.index, bytes=offer.size, have=have
            )
            await say(stream, Have(have))
            await self._stage(stream, buffer, offer, have)
        except OSError as error:
            await self._decline(peer, stream, error.strerror or str(error))
            return
        # From here on the peer's connection matters no more: what is staged is whole.
        try:
            staged = await in_thread(self._read_staged, offer)
        except DamagedCheckpointError as error:
            await self._decline(peer, stream, error.reason)
            return
        if self._core.wants_snapshot(offer.index):
            with trio.CancelScope(shield=True), self._ends_process():
                await self._activate(staged)
        await say(stream, Resting())

    async def _decline(self, peer: str, stream: trio.abc.Stream, reason: str) -> None:
        """What is staged is of no use; the state in force is not touched."""
        self._logbook.warning("snapshot-refused", peer=peer, reason=reason)
        with suppress(OSError):
            # Nothing depends on it: the next offer tries again.
            await in_thread(self._folder.drop_incoming)
        await say(stream, Declined(reason))

    async def _stage(
        self, stream: trio.abc.Stream, buffer: FrameBuffer, offer: Offer, offset: int
    ) -> None:
        while offset < offer.size:
            with trio.fail_after(SILENCE_S_MAX):
                frame = await hear(stream, buffer)
            expected = min(offer.chunk_bytes, offer.size - offset)
            if (
                not isinstance(frame, Chunk)
                or (frame.offset, len(frame.data)) != (offset, expected)
                or not frame.is_whole
            ):
                raise FrameError(f"no whole chunk for byte {offset} of a snapshot")
            await in_thread(self._folder.receive, frame.data)
            offset += expected
            self._counters.snapshot_bytes_received += expected
            await say(stream, Got(offset))

    def _read_staged(self, offer: Offer) -> _Staged:
        """Read all of the received store, on a thread, while the old one is in use.

        Raises:
            DamagedCheckpointError: It is not what was offered.
        """
        file = self._folder.file(INCOMING)
        with file.open("rb") as stream:
            found = hashlib.file_digest(stream, "sha256").hexdigest()
        if found != offer.sha256:
            raise DamagedCheckpointError(str(file), "it fails its checksum", "receive it again")
        store = CheckpointStore.open(file, must_exist=True)
        try:
            position = store.position
            if (position.index, position.term) != (offer.index, offer.term):
                reason = f"it holds entry {position.index}, not {offer.index}"
                raise DamagedCheckpointError(str(file), reason, "receive it again")
            payloads = StoreInForce(store)
            return _Staged(restore_machine(store, self._bugs, payloads), payloads, position)
        finally:
            store.close()

    async def _activate(self, staged: _Staged) -> None:
        """Put the staged store in force. A crash on the way leaves the old one or the new one."""
        began = trio.current_time()
        checkpointer, applier, driver = self._checkpointer, self._applier, self._driver
        async with checkpointer.lock:
            if not self._core.wants_snapshot(staged.position.index):
                return
            applier.hold()
            store = await in_thread(self._put_in_force)
            staged.payloads.store, staged.payloads.fail = store, self._in_force.fail
            old, self._in_force.store = self._in_force.store, store
            position = staged.position
            driver.step(SnapshotInstalled(position.index, position.term, position.members))
            reset = driver.asked_sequence
            applier.machine.take_over(staged.machine)
            self._clock.observe(applier.machine.now_us, is_live=True)
            checkpointer.restart()
            applier.go_on(position)
            while driver.durable_sequence < reset:
                await trio.sleep(_LOOK_S)
            await in_thread(self._settle, old)
        self._counters.snapshots_installed += 1
        took_ms = round((trio.current_time() - began) * 1000)
        self._logbook.info("snapshot-installed", log_index=position.index, took_ms=took_ms)

    def _put_in_force(self) -> CheckpointStore:
        self._folder.activate()
        return CheckpointStore.open(self._folder.current_file, must_exist=True)

    def _settle(self, old: CheckpointStore) -> None:
        old.close()
        self._folder.settle()
        self._folder.drop_incoming()
        self._folder.drop_old()
