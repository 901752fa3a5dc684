"""One connection through the proxy: two sockets, and a direction each way between them."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal

import trio

from .control import Way
from .direction import CHUNK_BYTES, Direction, abort
from .link_state import LinkState
from .messages import MessageSieve
from .tap import Tap

BUFFER_BYTES: Final = 65_536
"""Of each socket, so that little is acknowledged on behalf of an end that is cut off."""

How = Literal["", "one", "half_open"]


def bound_buffers(sock: trio.socket.SocketType | socket.socket) -> None:
    """Bound what the system takes in for a socket; before it listens or connects."""
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)


def is_readable(sock: trio.socket.SocketType) -> bool:
    """Whether something has come over a socket, or its end."""
    readable, _, _ = select.select([sock], [], [], 0)
    return bool(readable)


class Connection:
    """Carries both ways from the moment that it was accepted.

    Args:
        way: How it came here.
        near: The socket of the end that dialled.
        there: The link from the dialler on.
        back: The link back to it.
        tap: Makes what hears of it; None if nobody listens.
    """

    def __init__(
        self,
        way: Way,
        near: trio.SocketStream,
        there: LinkState,
        back: LinkState,
        tap: Callable[[Way, int], Tap] | None,
    ) -> None:
        self.way = way
        self._near = near
        self._far: trio.SocketStream | None = None
        self._there = there
        self._back = back
        self._make_tap = tap
        self._tap: Tap | None = None
        self._how: How = ""
        self._fault = ""

    async def run(self) -> None:
        """Dial the target once nothing is cut, and carry until both directions have ended."""
        try:
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                if not await self._wait_for_gates():
                    return
                self._far = await self._dial()
                if self._make_tap is not None:
                    port = self._near.socket.getpeername()[1]
                    self._tap = self._make_tap(self.way, port)
                    self._tap.opened()
                await self._carry_both(self._far)
                self._near.socket.close()
                self._far.socket.close()
        finally:
            self.abort()

    async def _wait_for_gates(self) -> bool:
        """Wait while either way is cut; False if something was sent before it could be heard.

        Without the proxy that connection had not been made, and nothing could have been sent.
        """
        waited = False
        while self._there.is_cut or self._back.is_cut:
            waited = True
            for link in (self._there, self._back):
                if link.is_cut:
                    link.note_held(0)
                    await link.opened()
        return not waited or not is_readable(self._near.socket)

    async def _dial(self) -> trio.SocketStream:
        sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            bound_buffers(sock)
            await sock.connect(self.way.dial)
        except BaseException:
            sock.close()
            raise
        return trio.SocketStream(sock)

    async def _carry_both(self, far: trio.SocketStream) -> None:
        is_peer = self.way.service == "peer"
        there = Direction(
            self._there, self._near, far, MessageSieve() if is_peer else None, self._tap
        )
        back = Direction(self._back, far, self._near, None, self._tap)
        async with trio.open_nursery() as nursery:
            for direction in (there, back):
                nursery.start_soon(self._carry, direction, nursery)

    async def _carry(self, direction: Direction, nursery: trio.Nursery) -> None:
        try:
            await direction.run(nursery)
        except trio.ClosedResourceError:
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                await self._carry_to_nobody(direction)
        except (OSError, trio.BrokenResourceError):
            # Not even a reset gets through a cut.
            await self._there.opened()
            await self._back.opened()
            if self._tap is not None and not self._how:
                self._tap.ended(direction.link.pair, "rst", direction.link.faults())
            self.abort()

    async def _carry_to_nobody(self, direction: Direction) -> None:
        """Take what is sent to an end that the proxy has closed: with a reset, or in silence."""
        link = direction.link
        if direction.undelivered:
            link.note_swallowed(direction.undelivered)
        while self._how == "half_open":
            data = await direction.source.receive_some(CHUNK_BYTES)
            if not data:
                return
            link.note_swallowed(len(data))
            if self._tap is not None:
                self._tap.sent(link.pair, data, "drop", link.faults())
        abort(direction.source)

    def is_between(self, one: str, other: str) -> bool:
        """Whether these are its ends, in whatever order."""
        return {one, other} == {self.way.source, self.way.target}

    @property
    def is_made(self) -> bool:
        """Whether both its sockets are connected."""
        return self._far is not None and self._near.socket.fileno() >= 0

    def abort(self) -> None:
        """Reset both ends."""
        abort(self._near)
        if self._far is not None:
            abort(self._far)

    def close_end(self, end: str, fault: str, how: How) -> None:
        """Close the socket of one end; the other end is told when it sends, or not at all.

        Args:
            end: With a reset if `how` is `one`, in good order otherwise.
            fault: Who does it.
            how: `half_open` if the other end is not told until `let_go`.
        """
        assert self._far is not None, "not connected"
        self._how, self._fault = how, fault
        stream = self._near if end == self.way.source else self._far
        if how == "one":
            abort(stream)
        else:
            stream.socket.close()

    def let_go(self, fault: str) -> bool:
        """Reset what a fault left half open; whether it had."""
        if self._how != "half_open" or self._fault != fault:
            return False
        self._how = "one"
        self.abort()
        return True
