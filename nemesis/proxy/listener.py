"""Where an end dials another one: open, shut, or deaf."""

from __future__ import annotations

import errno
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Final

import trio

from .connection import bound_buffers, is_readable
from .control import Way
from .direction import abort
from .link_state import LinkState

_BACKLOG: Final = 128
_PROBE_S: Final = 0.05
_PAUSE_S: Final = 0.05
_SHORTAGES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS)


class Listener:
    """Listens for one way.

    While the way is cut nothing is accepted, and the system drops what would open more than one
    connection. While it refuses, nobody listens, which a connection of its own proves.

    Args:
        way: Where.
        there: The link from the dialler on.
        back: The link back to it.

    Raises:
        OSError: The address cannot be had.
    """

    def __init__(self, way: Way, there: LinkState, back: LinkState) -> None:
        self.way = way
        self._there = there
        self._back = back
        # Bound and never listened on: the address stays ours while it refuses.
        self._hold = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._hold.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._hold.bind(way.listen)
            self._plain: socket.socket | None = self._listening()
        except OSError:
            self._hold.close()
            raise
        self._socket = trio.socket.from_stdlib_socket(self._plain)
        self._changed = trio.Event()

    def _listening(self) -> socket.socket:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound_buffers(sock)
            sock.bind(self.way.listen)
            sock.listen(_BACKLOG)
        except OSError:
            sock.close()
            raise
        return sock

    @property
    def _is_cut(self) -> bool:
        return self._there.is_cut or self._back.is_cut

    @property
    def _refuses(self) -> bool:
        return self._there.rule.refuse and not self._is_cut

    def settle(self) -> None:
        """Do as the rules say, which have changed; raises OSError if it cannot listen again."""
        if self._refuses and self._plain is not None:
            self._plain = None
            self._socket.close()
        elif not self._refuses and self._plain is None:
            self._plain = self._listening()
            self._socket = trio.socket.from_stdlib_socket(self._plain)
        if self._plain is not None:
            self._socket.listen(0 if self._is_cut else _BACKLOG)
        self._changed.set()
        self._changed = trio.Event()

    def close(self) -> None:
        """Let go of the address."""
        self._hold.close()
        self._socket.close()

    async def connections(self) -> AsyncIterator[trio.SocketStream]:
        """Yield what is accepted, for ever."""
        while True:
            if self._refuses:
                await self._prove_refusal()
            elif self._is_cut:
                await self._stay_deaf()
                for stream in self._queued():
                    yield stream
            else:
                try:
                    accepted, _ = await self._socket.accept()
                except trio.ClosedResourceError:
                    continue
                except OSError as error:
                    if error.errno in _SHORTAGES:
                        await trio.sleep(_PAUSE_S)
                    continue
                yield trio.SocketStream(accepted)

    async def _stay_deaf(self) -> None:
        """Count that somebody dials, once, and wait for a change."""
        changed = self._changed
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._notice)
            await changed.wait()
            nursery.cancel_scope.cancel()

    def _queued(self) -> Iterator[trio.SocketStream]:
        """Accept what the system let in during the cut; one on which something was sent is reset.

        Without the proxy it had not been made, and nothing could have been sent.
        """
        while self._plain is not None and not self._is_cut:
            try:
                accepted, _ = self._plain.accept()
            except OSError:
                return
            stream = trio.SocketStream(trio.socket.from_stdlib_socket(accepted))
            if is_readable(stream.socket):
                abort(stream)
            else:
                yield stream

    async def _notice(self) -> None:
        try:
            await trio.lowlevel.wait_readable(self._socket)
        except (trio.ClosedResourceError, OSError):
            return
        for link in (self._there, self._back):
            if link.is_cut:
                link.note_held(0)

    async def _prove_refusal(self) -> None:
        """Dial as the source would, now and then, and count each refusal."""
        while self._refuses:
            with trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
                try:
                    await probe.connect(self.way.listen)
                except ConnectionRefusedError:
                    self._there.note_refused()
                except OSError:
                    pass
            with trio.move_on_after(_PROBE_S):
                await self._changed.wait()
