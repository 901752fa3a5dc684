"""The channel of snapshots: whatever a peer sends, nothing but a whole snapshot is activated."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
import trio
import trio.testing

from atleastonce.system.broker.commands import Push, PushItem
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.bugs import NO_BUGS
from atleastonce.system.node.applier import Applier
from atleastonce.system.node.checkpointer import Checkpointer
from atleastonce.system.node.clock import NodeClock
from atleastonce.system.node.counters import Counters
from atleastonce.system.node.frames import FrameBuffer, FrameError, frame
from atleastonce.system.node.logbook import Logbook
from atleastonce.system.node.opening import StoreInForce
from atleastonce.system.node.snapshot_frames import (
    Chunk,
    Declined,
    Got,
    Have,
    OfferFrame,
    Resting,
    SnapshotFrame,
    hear,
    say,
)
from atleastonce.system.node.snapshot_receiver import SnapshotReceiver
from atleastonce.system.node.storage_limits import StorageLimits
from atleastonce.system.raft.events import Compact, SnapshotInstalled
from atleastonce.system.raft.members import Checkpoint, Members
from atleastonce.system.storage.checkpoint import CheckpointStore
from atleastonce.system.storage.checkpoint_folder import CheckpointFolder
from atleastonce.system.storage.disk import RealDisk

CHUNK_BYTES = 10_000
POSITION = Checkpoint(50, 3, Members(("n1", "n2")))


class ScriptedCore:
    """The core and its driver, as the receiver uses them."""

    def __init__(self) -> None:
        self.members = Members(("n1",))
        self.slowest_match_index = None
        self.installed: list[SnapshotInstalled] = []
        self.applied_index = 10
        self.asked_sequence = 0
        self.durable_sequence = 0

    def wants_snapshot(self, index: int) -> bool:
        return index > self.applied_index

    def step(self, event: SnapshotInstalled) -> None:
        self.installed.append(event)
        self.applied_index = event.index

    def compact(self, event: Compact) -> None:
        raise AssertionError(f"{event} without a checkpoint")


class Receiving:
    """A member with an empty store, and a peer's end of its connection."""

    def __init__(self, root: Path) -> None:
        self.core = ScriptedCore()
        self.disk = RealDisk(root)
        self.folder = CheckpointFolder(self.disk)
        self.folder.open()
        self.folder.begin()
        self.in_force = StoreInForce(CheckpointStore.open(self.folder.current_file))
        self.machine = Machine()
        self.counters = Counters()
        logbook = Logbook(lambda _: None, "n1")
        applier = Applier(self.machine, Checkpoint(), _ignore, lambda: None, lambda _: False)
        checkpointer = Checkpointer(
            self.in_force,
            applier,
            self.core,
            self.core.compact,
            lambda _: None,
            StorageLimits(),
            logbook,
            self.counters,
        )
        self.receiver = SnapshotReceiver(
            self.folder,
            self.in_force,
            checkpointer,
            applier,
            self.core,
            self.core,
            NodeClock(0),
            nullcontext,
            NO_BUGS,
            logbook,
            self.counters,
        )

    async def talk(self, peer: Callable[[Peer], Awaitable[None]]) -> str | None:
        """Let a peer speak over one connection; why the receiver closed it, if it did."""
        mine, theirs = trio.testing.memory_stream_pair()
        trouble: list[str] = []

        async def serve() -> None:
            try:
                await self.receiver.serve("n2", mine, FrameBuffer(1 << 21))
            except (FrameError, trio.BrokenResourceError, trio.TooSlowError) as error:
                trouble.append(str(error) or type(error).__name__)
            await mine.aclose()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            await peer(Peer(theirs))
            await theirs.aclose()
        return trouble[0] if trouble else None

    def close(self) -> None:
        self.in_force.store.close()
        self.folder.close()
        self.disk.close()


def _ignore(*_: object) -> None:
    return


class Peer:
    """The sender's end."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._buffer = FrameBuffer(1 << 21)

    async def ask(self, message: SnapshotFrame) -> SnapshotFrame:
        await say(self.stream, message)
        return await hear(self.stream, self._buffer)

    async def hear(self) -> SnapshotFrame:
        return await hear(self.stream, self._buffer)


def make_store(file: Path, position: Checkpoint = POSITION) -> bytes:
    """The bytes of a store with some rows that a machine can be made of."""
    source = Machine()
    source.apply(50, _batch())
    store = CheckpointStore.open(file, map_bytes_min=1 << 20)
    store.commit(source.take_changes(), position)
    store.close()
    return file.read_bytes()


def _batch() -> bytes:
    items = tuple(PushItem("q", "p", f"t{n}", b'"%d"' % n) for n in range(200))
    return Planner(bytes, 0).plan(1_000, [Push("r", items)])


def offer_of(data: bytes, position: Checkpoint = POSITION) -> OfferFrame:
    digest = hashlib.sha256(data).hexdigest()
    return OfferFrame(position.index, position.term, len(data), digest, CHUNK_BYTES)


def chunk_of(data: bytes, offset: int) -> Chunk:
    piece = data[offset : offset + CHUNK_BYTES]
    return Chunk(offset, piece, hashlib.sha256(piece).digest())


async def send_from(peer: Peer, data: bytes, offset: int) -> None:
    for at in range(offset, len(data), CHUNK_BYTES):
        got = await peer.ask(chunk_of(data, at))
        assert got == Got(min(at + CHUNK_BYTES, len(data)))


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    return make_store(tmp_path / "source")


def run_receiving(root: Path, scenario: Callable[[Receiving], Awaitable[None]]) -> Receiving:
    kept: list[Receiving] = []

    async def main() -> None:
        receiving = Receiving(root)
        kept.append(receiving)
        try:
            with trio.fail_after(20):
                await scenario(receiving)
        finally:
            receiving.close()

    trio.run(main)
    return kept[0]


def test_a_whole_snapshot_is_put_in_force(tmp_path: Path, data: bytes) -> None:
    async def scenario(receiving: Receiving) -> None:
        async def peer(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Have(0)
            await send_from(peer, data, 0)
            assert await peer.hear() == Resting()

        assert await receiving.talk(peer) is None
        assert receiving.in_force.store.position == POSITION
        source = Machine()
        source.apply(50, _batch())
        assert receiving.machine.digest() == source.digest()

    receiving = run_receiving(tmp_path / "root", scenario)
    assert receiving.core.installed == [SnapshotInstalled(50, 3, POSITION.members)]
    assert sorted(path.name for path in (tmp_path / "root" / "checkpoint").iterdir()) == [
        "00000002.mdb", "00000002.mdb-lock", "CURRENT",
    ]  # fmt: skip


def test_a_broken_connection_costs_no_more_than_the_last_chunk(tmp_path: Path, data: bytes) -> None:
    async def scenario(receiving: Receiving) -> None:
        async def breaks(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Have(0)
            await send_from(peer, data[: 3 * CHUNK_BYTES], 0)

        async def goes_on(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Have(2 * CHUNK_BYTES)
            await send_from(peer, data, 2 * CHUNK_BYTES)
            assert await peer.hear() == Resting()

        assert len(data) > 3 * CHUNK_BYTES
        await receiving.talk(breaks)
        assert receiving.core.installed == []
        assert await receiving.talk(goes_on) is None
        assert receiving.in_force.store.position == POSITION

    run_receiving(tmp_path / "root", scenario)


def test_a_member_that_needs_none_says_so(tmp_path: Path, data: bytes) -> None:
    async def scenario(receiving: Receiving) -> None:
        receiving.core.applied_index = 50

        async def peer(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Resting()

        assert await receiving.talk(peer) is None
        assert receiving.core.installed == []

    run_receiving(tmp_path / "root", scenario)


def test_a_snapshot_that_is_not_what_was_offered_is_dropped_whole(
    tmp_path: Path, data: bytes
) -> None:
    rotten = bytearray(data)
    rotten[len(rotten) // 2] ^= 1
    other_position = Checkpoint(60, 3)

    async def scenario(receiving: Receiving) -> None:
        async def rots(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Have(0)
            await send_from(peer, bytes(rotten), 0)
            answer = await peer.hear()
            assert isinstance(answer, Declined)
            assert "checksum" in answer.reason

        async def lies(peer: Peer) -> None:
            assert await peer.ask(offer_of(data, other_position)) == Have(0)
            await send_from(peer, data, 0)
            answer = await peer.hear()
            assert isinstance(answer, Declined)
            assert "it holds entry 50, not 60" in answer.reason

        async def is_no_store(peer: Peer) -> None:
            noise = random.Random(1).randbytes(50_000)
            assert await peer.ask(offer_of(noise)) == Have(0)
            await send_from(peer, noise, 0)
            assert isinstance(await peer.hear(), Declined)

        for peer in (rots, lies, is_no_store):
            assert await receiving.talk(peer) is None
            assert receiving.in_force.store.position == Checkpoint()
            assert receiving.core.installed == []
        names = {path.name for path in (tmp_path / "root" / "checkpoint").iterdir()}
        assert names == {"00000001.mdb", "00000001.mdb-lock", "CURRENT"}

    run_receiving(tmp_path / "root", scenario)


def test_a_second_snapshot_at_the_same_time_is_declined(tmp_path: Path, data: bytes) -> None:
    async def scenario(receiving: Receiving) -> None:
        async def second(peer: Peer) -> None:
            answer = await peer.ask(offer_of(data))
            assert answer == Declined("another snapshot is being received")

        async def first(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Have(0)
            assert await receiving.talk(second) is None
            await send_from(peer, data, 0)
            assert await peer.hear() == Resting()

        assert await receiving.talk(first) is None

    run_receiving(tmp_path / "root", scenario)


@pytest.mark.parametrize(
    "bad",
    [
        Chunk(0, b"x" * CHUNK_BYTES, b"no digest"),
        Chunk(CHUNK_BYTES, b"", hashlib.sha256(b"").digest()),
        Chunk(0, b"short", hashlib.sha256(b"short").digest()),
        Got(5),
        OfferFrame(1, 1, 1, "", 1),
    ],
    ids=lambda frame: type(frame).__name__,
)
def test_anything_but_the_next_whole_chunk_ends_the_connection(
    tmp_path: Path, data: bytes, bad: SnapshotFrame
) -> None:
    async def scenario(receiving: Receiving) -> None:
        async def peer(peer: Peer) -> None:
            assert await peer.ask(offer_of(data)) == Have(0)
            with pytest.raises((FrameError, trio.BrokenResourceError)):
                await peer.ask(bad)

        trouble = await receiving.talk(peer)
        assert trouble is not None
        assert "no whole chunk for byte 0" in trouble
        assert receiving.core.installed == []

    run_receiving(tmp_path / "root", scenario)


@pytest.mark.parametrize("seed", range(30))
def test_noise_ends_the_connection_and_changes_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    noise = chance.randbytes(chance.randrange(1, 300))
    framed = frame(noise)

    async def scenario(receiving: Receiving) -> None:
        async def peer(peer: Peer) -> None:
            await peer.stream.send_all(framed if seed % 2 else noise)

        assert await receiving.talk(peer) is not None
        assert receiving.core.installed == []

    run_receiving(tmp_path / "root", scenario)
