"""The peer port: who may connect, and what each connection then carries."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Final, Protocol

import trio

from ..http.answer import error_answer
from ..http.transport import transport_of
from ..raft.messages import Message, decode_message
from .asker import Asker
from .counters import Counters
from .frames import (
    FRAME_BYTES_MAX,
    Forward,
    FrameBuffer,
    FrameError,
    Hello,
    NodeReport,
    Reply,
    ReplyFrame,
    TryAgain,
    Withdraw,
    decode_forward,
    encode,
)
from .handshake import CHALLENGE_BYTES, HANDSHAKE_TIMEOUT_S, HandshakeError, admit
from .logbook import Logbook
from .node_settings import NodeSettings
from .outbox import Outbox

STRANGERS_MAX: Final = 64
"""Connections that have not introduced themselves yet."""

_UNWRITTEN_BYTES_MAX: Final = 128 * 1024 * 1024


class ForwardedRequests(Protocol):
    """What answers the requests that peers send on."""

    async def answer_forwarded(self, forward: Forward, asker: Asker) -> ReplyFrame:
        """Answer as leader, or say `TryAgain`; never forwards again."""
        ...

    def take_back(self, lease: str) -> None:
        """Undo a claim that nobody received."""
        ...

    def heard(self, peer: str, connection: object, report: NodeReport) -> None:
        """A peer says how it is."""
        ...

    def lost(self, peer: str, connection: object) -> None:
        """A peer's connection has ended, and what it said there is of no account any longer."""
        ...


class SnapshotEnd(Protocol):
    """What takes a snapshot that a peer sends."""

    async def serve(self, peer: str, stream: trio.abc.Stream, buffer: FrameBuffer) -> None:
        """Take it; raises what `PeerGate.serve` answers by closing."""
        ...


class Acquaintances(Protocol):
    """What the node knows of others."""

    def known_incarnation(self, name: str) -> str:
        """The id of a member's data folder; empty when unknown."""
        ...

    def introduced(self, hello: Hello) -> None:
        """A node that knows the token has connected."""
        ...


class PeerGate:
    """Serves the connections that peers open to this node."""

    def __init__(
        self,
        settings: NodeSettings,
        receive: Callable[[str, Message, str], None],
        requests: ForwardedRequests,
        logbook: Logbook,
        counters: Counters,
        snapshots: SnapshotEnd | None,
        members: Acquaintances,
    ) -> None:
        self._incarnation = settings.incarnation
        self._members = members
        self._snapshots = snapshots
        self._node = settings.node
        self._token = settings.token
        self._receive = receive
        self._requests = requests
        self._logbook = logbook
        self._counters = counters
        self._strangers = 0

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection until it ends; nothing that it sends can raise here."""
        async with stream:
            peer = "unknown"
            if self._strangers >= STRANGERS_MAX:
                self._refuse(peer, f"{STRANGERS_MAX} connections have not introduced themselves")
                return
            self._strangers += 1
            try:
                try:
                    with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                        hello, buffer = await admit(
                            stream,
                            self._token,
                            self._node,
                            os.urandom(CHALLENGE_BYTES),
                            self._incarnation,
                            self._members.known_incarnation,
                        )
                        peer, channel = hello.node, hello.channel
                        self._members.introduced(hello)
                finally:
                    self._strangers -= 1
                buffer.frame_bytes_max = FRAME_BYTES_MAX
                if channel == "raft":
                    await self._serve_raft(peer, hello.incarnation, stream, buffer)
                elif channel == "snapshot":
                    await self._serve_snapshot(peer, stream, buffer)
                else:
                    await self._serve_forward(peer, stream, buffer)
            except trio.BrokenResourceError:
                return
            except (FrameError, HandshakeError) as error:
                self._refuse(peer, str(error))
            except trio.TooSlowError:
                self._refuse(peer, "no greeting, or no more of a snapshot, for too long")

    def _refuse(self, peer: str, reason: str) -> None:
        self._counters.refused_peers += 1
        self._logbook.warning("peer-refused", peer=peer, reason=reason)

    async def _serve_raft(
        self, peer: str, incarnation: str, stream: trio.abc.Stream, buffer: FrameBuffer
    ) -> None:
        transport = transport_of(stream, math.inf)
        while True:
            for content in buffer.frames():
                try:
                    message = decode_message(content)
                except ValueError as error:
                    raise FrameError(str(error)) from None
                self._counters.raft_received += 1
                self._receive(peer, message, incarnation)
            data = await transport.receive(buffer.is_cut)
            if not data:
                return
            buffer.feed(data)

    async def _serve_snapshot(
        self, peer: str, stream: trio.abc.Stream, buffer: FrameBuffer
    ) -> None:
        if self._snapshots is None:
            raise FrameError("this node has no disk to take a snapshot")
        await self._snapshots.serve(peer, stream, buffer)

    async def _serve_forward(self, peer: str, stream: trio.abc.Stream, buffer: FrameBuffer) -> None:
        connection = _ForwardConnection(peer, self._requests, stream)
        trouble: FrameError | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(connection.write)
            try:
                await connection.read(buffer, nursery)
            except FrameError as error:
                trouble = error
            except trio.BrokenResourceError:
                trouble = None
            finally:
                # Requests that are in the log already run on to their end: their claims must be
                # taken back, so the nursery waits for them.
                connection.lost()
        if trouble is not None:
            raise trouble


class _ForwardConnection:
    """Requests of one peer: read in order, answered as they become ready."""

    def __init__(self, peer: str, requests: ForwardedRequests, stream: trio.abc.Stream) -> None:
        self._peer = peer
        self._requests = requests
        self._transport = transport_of(stream, math.inf)
        self._outbox = Outbox()
        self._askers: dict[int, Asker] = {}
        self._writing = trio.CancelScope()
        self._is_lost = False

    async def read(self, buffer: FrameBuffer, nursery: trio.Nursery) -> None:
        """Take requests until the peer closes.

        Raises:
            FrameError: The peer sent something else.
            trio.BrokenResourceError: The connection is lost.
        """
        while True:
            for content in buffer.frames():
                message = decode_forward(content)
                if isinstance(message, Forward):
                    if message.correlation in self._askers:
                        raise FrameError(f"request {message.correlation} is not answered yet")
                    asker = self._askers[message.correlation] = Asker()
                    nursery.start_soon(self._answer, message, asker)
                elif isinstance(message, Withdraw):
                    known = self._askers.get(message.correlation)
                    if known is not None:
                        known.withdraw(message.client_gone)
                elif isinstance(message, NodeReport):
                    self._requests.heard(self._peer, self, message)
                else:
                    self._requests.take_back(message.lease)
            if self._outbox.bytes_queued > _UNWRITTEN_BYTES_MAX:
                raise FrameError(f"more than {_UNWRITTEN_BYTES_MAX} bytes of answers unread")
            data = await self._transport.receive(buffer.is_cut)
            if not data:
                return
            buffer.feed(data)

    async def write(self) -> None:
        """Write answers until `lost`."""
        with self._writing:
            try:
                await self._outbox.write_to(self._transport)
            except trio.BrokenResourceError:
                # The reader sees the end of the same connection, and acts on it.
                return

    def lost(self) -> None:
        """Withdraw whatever is still asked for, and take back what was not written."""
        self._is_lost = True
        self._requests.lost(self._peer, self)
        self._writing.cancel()
        for asker in self._askers.values():
            asker.withdraw(client_gone=True)
        for lease in self._outbox.unwritten_leases:
            self._requests.take_back(lease)

    async def _answer(self, forward: Forward, asker: Asker) -> None:
        answer = await self._requests.answer_forwarded(forward, asker)
        del self._askers[forward.correlation]
        lease = None if isinstance(answer, TryAgain) else answer.lease
        if not self._is_lost and not asker.gone:
            try:
                self._outbox.put(encode(answer), lease)
            except FrameError as error:
                self._outbox.put(encode(_too_large(forward, str(error))))
                if lease is not None:
                    self._requests.take_back(lease)
        elif lease is not None:
            self._requests.take_back(lease)


def _too_large(forward: Forward, reason: str) -> Reply:
    answer = error_answer(500, "internal", f"the answer is too large to be sent on: {reason}")
    return Reply(forward.correlation, 500, answer.content_type, [], answer.body, None)
