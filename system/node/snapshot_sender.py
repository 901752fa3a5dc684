"""A leader's side of snapshots: copy the store, and send the copy to whoever lacks its entries.

One copy at a time serves all receivers, as long as it is new enough; it is deleted when nobody has
asked for one for a while. Chunks leave at a bounded rate, a few ahead of their confirmations, on a
connection of their own, so that heartbeats go their way beside them.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from ..raft.events import SendSnapshot, SnapshotSent
from ..storage.checkpoint import CheckpointStore
from ..storage.checkpoint_folder import OUTGOING
from ..storage.errors import StorageError
from .address import Address
from .checkpointer import Checkpointer
from .counters import Counters
from .frames import FrameBuffer, FrameError
from .handshake import CHALLENGE_BYTES, HANDSHAKE_TIMEOUT_S, HandshakeError, greet
from .links import Dial
from .logbook import Logbook
from .opening import StoreInForce
from .snapshot_frames import (
    ACTIVATION_S_MAX,
    CHUNK_BYTES,
    CHUNKS_AHEAD_MAX,
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

KEEP_COPY_S: Final = 60.0
_PAUSE_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the store, and what it is."""

    file: Path
    offer: OfferFrame


class SnapshotSender:
    """Carries out `SendSnapshot`; see the module.

    Args:
        node: This node.
        token: The cluster's secret.
        addresses: Where members are reached.
        dial: Opens connections.
        in_force: The store to copy.
        checkpointer: Hears what is being sent, and is asked for a newer checkpoint.
        folder: Where the copy goes.
        step: Hands the core an event.
        bytes_per_s: The rate.
        logbook: Hears of each transfer.
        counters: Counts.
    """

    def __init__(
        self,
        node: str,
        token: bytes,
        addresses: Mapping[str, Address],
        dial: Dial,
        in_force: StoreInForce,
        checkpointer: Checkpointer,
        folder: Path,
        step: Callable[[SnapshotSent], None],
        bytes_per_s: int,
        logbook: Logbook,
        counters: Counters,
    ) -> None:
        self.copying = trio.Lock()
        self._node = node
        self._token = token
        self._addresses = addresses
        self._dial = dial
        self._in_force = in_force
        self._checkpointer = checkpointer
        self._folder = folder
        self._step = step
        self._bytes_per_s = bytes_per_s
        self._logbook = logbook
        self._counters = counters
        self._copy: Copy | None = None
        self._copies = 0
        self._users = 0
        self._used_at = 0.0
        self._asked_in, self._asked_out = trio.open_memory_channel[SendSnapshot](1 << 10)

    def ask(self, effect: SendSnapshot) -> None:
        """A member needs a snapshot; `SnapshotSent` follows."""
        self._asked_in.send_nowait(effect)

    async def run(self) -> None:
        """Send what is asked for, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._expire)
            async for effect in self._asked_out:
                nursery.start_soon(self._serve, effect)

    async def _expire(self) -> None:
        while True:
            await trio.sleep(KEEP_COPY_S / 4)
            async with self.copying:
                unused_s = trio.current_time() - self._used_at
                if self._copy is not None and not self._users and unused_s > KEEP_COPY_S:
                    await self._delete_copy()

    async def _delete_copy(self) -> None:
        copy, self._copy = self._copy, None
        self._checkpointer.sending_index = None
        if copy is not None:
            await in_thread(_delete, copy.file)

    async def _serve(self, effect: SendSnapshot) -> None:
        is_resting, index = False, 0
        self._users += 1
        try:
            copy = await self._copy_with(effect.index_min)
            index = copy.offer.index
            self._logbook.info(
                "snapshot-sending", to=effect.to, log_index=index, bytes=copy.offer.size
            )
            began = trio.current_time()
            await self._send(effect.to, copy)
            is_resting = True
            self._counters.snapshots_sent += 1
            took_ms = round((trio.current_time() - began) * 1000)
            self._logbook.info("snapshot-sent", to=effect.to, log_index=index, took_ms=took_ms)
        except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
            self._fail(effect.to, f"{type(error).__name__}: {error}")
        except (FrameError, HandshakeError, StorageError) as error:
            self._fail(effect.to, str(error))
        finally:
            self._users -= 1
            self._used_at = trio.current_time()
        if not is_resting:
            await trio.sleep(_PAUSE_S)
        self._step(SnapshotSent(effect.to, index, is_resting))

    def _fail(self, to: str, reason: str) -> None:
        self._logbook.warning("snapshot-broken-off", to=to, reason=reason)

    async def _copy_with(self, index_min: int) -> Copy:
        """A copy that holds the entries up to `index_min` at least."""
        async with self.copying:
            copy = self._copy
            if copy is not None and copy.offer.index >= index_min:
                return copy
            if self._checkpointer.position.index < index_min:
                await self._checkpointer.commit()
            await self._delete_copy()
            self._copies += 1
            # Those who still read an older copy have its file open.
            file = self._folder / f"{OUTGOING}-{self._copies}"
            self._checkpointer.sending_index = self._checkpointer.position.index
            store = self._in_force.store
            offer = await in_thread(_make_copy, store, file)
            self._copy = Copy(file, offer)
            self._checkpointer.sending_index = offer.index
            return self._copy

    async def _send(self, to: str, copy: Copy) -> None:
        address = self._addresses.get(to)
        if address is None:
            raise FrameError(f"no address of {to} is known")
        with trio.fail_after(HANDSHAKE_TIMEOUT_S):
            stream = await self._dial(address)
        try:
            challenge = os.urandom(CHALLENGE_BYTES)
            with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                buffer, _ = await greet(stream, self._token, self._node, to, "snapshot", challenge)
            buffer.frame_bytes_max = FRAME_BYTES_MAX
            await self._transfer(stream, buffer, copy)
        finally:
            await trio.aclose_forcefully(stream)

    async def _transfer(self, stream: trio.abc.Stream, buffer: FrameBuffer, copy: Copy) -> None:
        offer = copy.offer
        await say(stream, offer)
        with trio.fail_after(SILENCE_S_MAX):
            answer = await hear(stream, buffer)
        if isinstance(answer, Resting):
            return
        offset = _wanted(answer, offer.size)
        descriptor = await in_thread(os.open, copy.file, os.O_RDONLY | os.O_CLOEXEC)
        try:
            await self._send_chunks(stream, buffer, offer, descriptor, offset)
        finally:
            os.close(descriptor)
        with trio.fail_after(ACTIVATION_S_MAX):
            answer = await hear(stream, buffer)
        if not isinstance(answer, Resting):
            raise FrameError(_trouble(answer))

    async def _send_chunks(
        self,
        stream: trio.abc.Stream,
        buffer: FrameBuffer,
        offer: OfferFrame,
        descriptor: int,
        offset: int,
    ) -> None:
        confirmed = offset
        due = trio.current_time()
        while confirmed < offer.size:
            ahead = offset - confirmed < CHUNKS_AHEAD_MAX * offer.chunk_bytes
            if offset < offer.size and ahead:
                chunk = await in_thread(_read, descriptor, offset, offer.chunk_bytes)
                await trio.sleep_until(due)
                due = max(due, trio.current_time() - 1.0) + len(chunk.data) / self._bytes_per_s
                with trio.fail_after(SILENCE_S_MAX):
                    await say(stream, chunk)
                offset += len(chunk.data)
                continue
            with trio.fail_after(SILENCE_S_MAX):
                answer = await hear(stream, buffer)
            if not isinstance(answer, Got) or not confirmed < answer.offset <= offset:
                raise FrameError(_trouble(answer))
            confirmed = answer.offset


def _make_copy(store: CheckpointStore, file: Path) -> OfferFrame:
    """Copy a store and look at the copy. Blocks; about a second for each few hundred MiB."""
    file.unlink(missing_ok=True)
    store.copy_to(file)
    copy = CheckpointStore.open(file, must_exist=True)
    position = copy.position
    copy.close()
    Path(f"{file}-lock").unlink(missing_ok=True)
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256")
    return OfferFrame(
        position.index, position.term, file.stat().st_size, digest.hexdigest(), CHUNK_BYTES
    )


def _delete(file: Path) -> None:
    file.unlink(missing_ok=True)


def _read(descriptor: int, offset: int, size: int) -> Chunk:
    data = os.pread(descriptor, size, offset)
    return Chunk(offset, data, hashlib.sha256(data).digest())


def _wanted(answer: object, size: int) -> int:
    if isinstance(answer, Have) and 0 <= answer.offset <= size:
        return answer.offset
    raise FrameError(_trouble(answer))


def _trouble(answer: object) -> str:
    if isinstance(answer, Declined):
        return f"declined: {answer.reason}"
    return f"{type(answer).__name__.lower()} where it makes no sense"
