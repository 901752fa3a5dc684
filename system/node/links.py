"""Connections that this node opens to its peers and keeps open."""

from __future__ import annotations

import math
import os
from collections.abc import Awaitable, Callable
from typing import Final

import trio

from ..http.transport import Transport, transport_of
from ..raft.messages import Message, encode_message
from .address import Address
from .counters import Counters
from .frames import (
    FRAME_BYTES_MAX,
    Channel,
    Forward,
    FrameBuffer,
    FrameError,
    NodeReport,
    ReplyFrame,
    TryAgain,
    Undelivered,
    Withdraw,
    decode_reply,
    encode,
    frame,
)
from .handshake import CHALLENGE_BYTES, HANDSHAKE_TIMEOUT_S, HandshakeError, greet
from .logbook import Logbook
from .outbox import Outbox

RAFT_FRAMES_MAX: Final = 1024
RAFT_BYTES_MAX: Final = 64 * 1024 * 1024

_PAUSE_S_MIN: Final = 0.02
_PAUSE_S_MAX: Final = 0.25


Met = Callable[[str, str, str], None]
"""Hears of each peer that was reached: its name, its incarnation, how it knows this node."""

Dial = Callable[[Address], Awaitable[trio.abc.Stream]]
"""Opens a connection; raises OSError when it cannot."""


async def dial_tcp(address: Address) -> trio.SocketStream:
    """Open a TCP connection."""
    return await trio.open_tcp_stream(*address)


class Link:
    """One connection to one peer, opened again whenever it is lost.

    Attributes:
        peer: Who is at the other end.
        connected: Whether frames can be sent right now.
    """

    channel: Channel

    def __init__(
        self,
        node: str,
        peer: str,
        address: Address,
        token: bytes,
        logbook: Logbook,
        counters: Counters,
        dial: Dial = dial_tcp,
        incarnation: str = "",
        own_address: str = "",
        met: Met | None = None,
    ) -> None:
        self._incarnation = incarnation
        self._own_address = own_address
        self._met = met
        self.peer = peer
        self.connected = False
        self._node = node
        self._address = address
        self._token = token
        self._logbook = logbook
        self._counters = counters
        self._dial = dial
        self._outbox = Outbox()

    async def run(self) -> None:
        """Keep the connection open until cancelled."""
        pause_s = _PAUSE_S_MIN
        told = ""
        while True:
            try:
                with trio.fail_after(HANDSHAKE_TIMEOUT_S):
                    stream, buffer = await self._connect()
            except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
                trouble = f"{type(error).__name__}: {error.__cause__ or error}"
            except (FrameError, HandshakeError) as error:
                trouble = str(error)
            else:
                told, pause_s = "", _PAUSE_S_MIN
                self._logbook.info("peer-connected", peer=self.peer, channel=self.channel)
                trouble = await self._use(stream, buffer)
            if trouble != told:
                self._logbook.warning(
                    "peer-unreachable", peer=self.peer, channel=self.channel, reason=trouble
                )
                told = trouble
            await trio.sleep(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_S_MAX)

    async def _connect(self) -> tuple[trio.abc.Stream, FrameBuffer]:
        stream = await self._dial(self._address)
        challenge = os.urandom(CHALLENGE_BYTES)
        try:
            buffer, welcome = await greet(
                stream,
                self._token,
                self._node,
                self.peer,
                self.channel,
                challenge,
                self._incarnation,
                self._own_address,
            )
        except BaseException:
            await trio.aclose_forcefully(stream)
            raise
        if self._met is not None:
            self._met(self.peer, welcome.incarnation, welcome.known)
        return stream, buffer

    async def _use(self, stream: trio.abc.Stream, buffer: FrameBuffer) -> str:
        buffer.frame_bytes_max = FRAME_BYTES_MAX
        transport = transport_of(stream, math.inf)
        self._outbox = Outbox()
        self.connected = True
        trouble = "closed by the peer"
        try:
            async with stream, trio.open_nursery() as nursery:
                nursery.start_soon(self._write, transport, nursery.cancel_scope)
                try:
                    await self._read(transport, buffer)
                except (FrameError, trio.BrokenResourceError) as error:
                    trouble = str(error) or type(error).__name__
                nursery.cancel_scope.cancel()
        finally:
            self.connected = False
            self._lost()
        return trouble

    async def _write(self, transport: Transport, scope: trio.CancelScope) -> None:
        try:
            await self._outbox.write_to(transport)
        except trio.BrokenResourceError:
            scope.cancel()

    async def _read(self, transport: Transport, buffer: FrameBuffer) -> None:
        while True:
            for content in buffer.frames():
                self._take(content)
            data = await transport.receive(buffer.is_cut)
            if not data:
                return
            buffer.feed(data)

    def _take(self, content: bytes) -> None:
        raise FrameError(f"{len(content)} bytes on a connection that carries nothing this way")

    def _lost(self) -> None:
        """The connection is gone."""


class RaftFramer:
    """Frames raft messages. What goes to several peers in a row is encoded once."""

    def __init__(self) -> None:
        self._message: Message | None = None
        self._framed = b""

    def framed(self, message: Message) -> bytes:
        """One message as a frame, length included."""
        # Entries are compared by what they are first, and these are the same objects.
        if message != self._message:
            self._framed = frame(encode_message(message))
            self._message = message
        return self._framed


class RaftLink(Link):
    """Carries raft messages one way; what cannot be sent soon is dropped, oldest first.

    Attributes:
        framer: May be shared with the links to other peers.
    """

    channel: Channel = "raft"
    framer: RaftFramer

    def __init__(
        self,
        node: str,
        peer: str,
        address: Address,
        token: bytes,
        logbook: Logbook,
        counters: Counters,
        dial: Dial = dial_tcp,
        incarnation: str = "",
        own_address: str = "",
        met: Met | None = None,
        framer: RaftFramer | None = None,
    ) -> None:
        super().__init__(
            node, peer, address, token, logbook, counters, dial, incarnation, own_address, met
        )
        self.framer = framer or RaftFramer()

    def send(self, message: Message) -> None:
        """Queue a message, or drop it when there is no connection."""
        if not self.connected:
            self._counters.raft_dropped += 1
            return
        outbox = self._outbox
        while len(outbox) >= RAFT_FRAMES_MAX or outbox.bytes_queued > RAFT_BYTES_MAX:
            outbox.drop_oldest()
            self._counters.raft_dropped += 1
        outbox.put(self.framer.framed(message))
        self._counters.raft_sent += 1


class Ask:
    """One request that waits for a peer's answer.

    Attributes:
        correlation: Its number on the connection.
        done: Set once `answer` is.
        answer: What came back.
    """

    __slots__ = ("answer", "correlation", "done")

    def __init__(self, correlation: int) -> None:
        self.correlation = correlation
        self.done = trio.Event()
        self.answer: ReplyFrame | None = None

    def settle(self, answer: ReplyFrame) -> None:
        """Hand over the answer."""
        self.answer = answer
        self.done.set()


class ForwardLink(Link):
    """Carries requests to a peer and its answers back."""

    channel: Channel = "forward"

    _asks: dict[int, Ask]
    _last: int

    def __init__(
        self,
        node: str,
        peer: str,
        address: Address,
        token: bytes,
        logbook: Logbook,
        counters: Counters,
        dial: Dial = dial_tcp,
        incarnation: str = "",
        own_address: str = "",
        met: Met | None = None,
    ) -> None:
        super().__init__(
            node, peer, address, token, logbook, counters, dial, incarnation, own_address, met
        )
        self._asks = {}
        self._last = 0

    def ask(
        self,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
        request_id: str,
        deadline_ms: int,
        asking: str = "",
        trial: int = 0,
    ) -> Ask:
        """Send a request; the answer is `TryAgain` at once when there is no connection."""
        self._last += 1
        ask = Ask(self._last)
        if not self.connected:
            ask.settle(TryAgain(ask.correlation, handed_over=False))
            return ask
        self._asks[ask.correlation] = ask
        forward = Forward(
            ask.correlation,
            method,
            target,
            headers,
            body,
            request_id,
            deadline_ms,
            asking,
            trial,
        )
        self._outbox.put(encode(forward))
        return ask

    def withdraw(self, ask: Ask, client_gone: bool) -> None:
        """Say that an answer is not awaited any longer (see `Withdraw`)."""
        if ask.correlation in self._asks and self.connected:
            self._outbox.put(encode(Withdraw(ask.correlation, client_gone)))

    def drop(self, ask: Ask) -> None:
        """Stop waiting; a claim that still comes back is handed back at once."""
        self.withdraw(ask, client_gone=True)
        self._asks.pop(ask.correlation, None)

    def undelivered(self, lease: str) -> None:
        """Say that a claim never reached its client."""
        if self.connected:
            self._outbox.put(encode(Undelivered(lease)))

    def report(self, report: NodeReport) -> None:
        """Say how this node is."""
        if self.connected:
            self._outbox.put(encode(report))

    def abandon(self) -> None:
        """Settle everything that waits here: the peer leads no longer, as far as is known."""
        for ask in list(self._asks.values()):
            self.drop(ask)
            ask.settle(TryAgain(ask.correlation, handed_over=True))

    def _take(self, content: bytes) -> None:
        answer = decode_reply(content)
        ask = self._asks.pop(answer.correlation, None)
        if ask is not None:
            ask.settle(answer)
        elif not isinstance(answer, TryAgain) and answer.lease is not None:
            self.undelivered(answer.lease)

    def _lost(self) -> None:
        asks, self._asks = self._asks, {}
        for ask in asks.values():
            ask.settle(TryAgain(ask.correlation, handed_over=True))
