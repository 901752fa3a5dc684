"""One direction of a connection: bytes from one socket to another, under the rules of a link."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Final

import trio

from .link_state import LinkState
from .messages import MessageSieve
from .tap import Tap

CHUNK_BYTES: Final = 65_536
_QUEUE: Final = 256
_ABORT: Final = struct.pack("ii", 1, 0)


def abort(stream: trio.SocketStream) -> None:
    """Close a socket so that its peer sees a reset."""
    try:
        stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    except OSError:
        return  # It is closed.
    stream.socket.close()


class Direction:
    """Carries one way until the source ends, or either socket is gone.

    Args:
        link: Whose rules hold.
        source: Where bytes come from.
        sink: Where they go.
        sieve: Tells messages apart; None where nobody has to.
        tap: Hears of everything; None if nobody listens.

    Attributes:
        undelivered: Bytes that were taken and could not be handed on.
    """

    def __init__(
        self,
        link: LinkState,
        source: trio.SocketStream,
        sink: trio.SocketStream,
        sieve: MessageSieve | None,
        tap: Tap | None,
    ) -> None:
        self.link = link
        self.source = source
        self.sink = sink
        self._sieve = sieve
        self._tap = tap
        self._queue: trio.MemorySendChannel[tuple[float, bytes]] | None = None
        self._waiting = 0
        self.undelivered = 0

    async def run(self, nursery: trio.Nursery) -> None:
        """Carry.

        Args:
            nursery: Takes the task that sends what is late.

        Raises:
            OSError: A socket was reset.
            trio.BrokenResourceError: The same.
            trio.ClosedResourceError: The proxy has closed one.
        """
        link = self.link
        while True:
            await self._at_gate()
            data = await self.source.receive_some(CHUNK_BYTES)
            if link.is_plain and self._queue is None and self._sieve is None and self._tap is None:
                if not data:
                    break
                await self.sink.send_all(data)
                continue
            if not data and self._sieve is not None:
                data = self._sieve.flush()
                if data:
                    await self._forward(nursery, data)
                data = b""
            elif self._sieve is not None:
                data = self._sift(data)
                if not data:
                    continue
            await self._forward(nursery, data)
            if not data:
                return
        await self._send_end()

    async def _at_gate(self) -> None:
        """Wait while the link is cut; what comes meanwhile is left with the sender's system."""
        while self.link.is_cut:
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._notice)
                    await self.link.opened()
                    scope.cancel()

    async def _notice(self) -> None:
        # Whoever closes it meanwhile is heard of at the next receive.
        with suppress(OSError, trio.ClosedResourceError):
            await trio.lowlevel.wait_readable(self.source.socket)
            self.link.note_held(0)

    def _sift(self, data: bytes) -> bytes:
        assert self._sieve is not None, "nothing to sift with"
        link = self.link
        sifted = self._sieve.feed(data, link.unwanted)
        if sifted.bytes or sifted.messages:
            link.note_sifted(sifted.messages, sifted.bytes)
            if self._tap is not None:
                self._tap.sent(link.pair, data, "drop", link.faults())
        return sifted.kept

    async def _forward(self, nursery: trio.Nursery, data: bytes) -> None:
        """Send bytes, or the end if there are none, now or when they are due."""
        link = self.link
        if self._tap is not None and data:
            verdict = "hold" if link.is_cut else "delay" if link.is_shaped else "pass"
            self._tap.sent(link.pair, data, verdict, link.faults())
        if link.is_cut:
            link.note_held(len(data))
            await link.opened()
        if not link.is_shaped and not self._waiting:
            await self._deliver(data)
            return
        if self._queue is None:
            self._queue, waiting = trio.open_memory_channel[tuple[float, bytes]](_QUEUE)
            nursery.start_soon(self._send_late, waiting)
        self._waiting += 1
        await self._queue.send((link.due(), data))
        if not data:
            self._queue.close()

    async def _send_late(self, waiting: trio.MemoryReceiveChannel[tuple[float, bytes]]) -> None:
        # The reader learns of a dead sink when it sends the next bytes here.
        with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async with waiting:
                async for due, data in waiting:
                    await trio.sleep_until(due)
                    await self.link.opened()
                    await self._deliver(data)
                    self._waiting -= 1

    async def _deliver(self, data: bytes) -> None:
        if not data:
            await self._send_end()
            return
        grain = self.link.grain() or len(data)
        for at in range(0, len(data), grain):
            piece = data[at : at + grain]
            await self.link.pay(len(piece))
            self.undelivered = len(data) - at
            await self.sink.send_all(piece)
        self.undelivered = 0
        if not self.link.is_plain:
            self.link.note_passed(len(data))
        if self._tap is not None:
            self._tap.delivered(self.link.pair, data, self.link.faults())

    async def _send_end(self) -> None:
        if self._tap is not None:
            self._tap.ended(self.link.pair, "fin", self.link.faults())
        await self.sink.send_eof()
