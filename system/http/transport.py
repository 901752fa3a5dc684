"""The bytes of one connection, with no more system calls than they need."""

from __future__ import annotations

import os
import socket
import struct
from typing import Final, Protocol

import trio

READ_BYTES: Final = 256 * 1024
WRITE_TIMEOUT_S: Final = 30.0

_RECEIVED: Final = memoryview(bytearray(READ_BYTES))
"""Where every connection reads, one at a time: a new buffer for each read costs more than it."""

_BUFFERS: Final = [_RECEIVED]
_STREAM_READ_BYTES: Final = 64 * 1024
_ON_CLOSE_RESET: Final = struct.pack("ii", 1, 0)
_ON_CLOSE_FINISH: Final = struct.pack("ii", 0, 0)


class Transport(Protocol):
    """What a connection needs of its stream; one task reads from it and one writes."""

    async def receive(self, is_likely: bool) -> bytes | memoryview:
        """Wait for bytes; none mean that the client has finished.

        What it returns is good until the caller awaits anything.

        Args:
            is_likely: Whether there may be some already.

        Raises:
            trio.BrokenResourceError: The connection is lost.
        """

    async def send(self, data: bytes) -> None:
        """Write everything. A checkpoint only when the client does not take it at once.

        Raises:
            trio.BrokenResourceError: The client is gone, or reads too slowly.
        """

    def send_now(self, data: bytes) -> int:
        """Write what is taken at once; how many bytes that was, 0 also where it is not known."""

    def has_more(self) -> bool:
        """Whether something can be received without waiting, as far as can be known."""

    def reset_on_close(self, value: bool) -> None:
        """Whether closing tells the client of an accident rather than of an end."""


class StreamTransport:
    """Any stream: TLS, or one of a test."""

    def __init__(self, stream: trio.abc.Stream, write_timeout_s: float) -> None:
        self._stream = stream
        self._write_timeout_s = write_timeout_s
        below = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
        self._socket = below.socket if isinstance(below, trio.SocketStream) else None

    async def receive(self, is_likely: bool) -> bytes | memoryview:  # noqa: ARG002
        """See `Transport`."""
        return bytes(await self._stream.receive_some(_STREAM_READ_BYTES))

    async def send(self, data: bytes) -> None:
        """See `Transport`."""
        await _send_all(self._stream, memoryview(data), self._write_timeout_s)

    def send_now(self, data: bytes) -> int:  # noqa: ARG002
        """See `Transport`."""
        return 0

    def has_more(self) -> bool:
        """See `Transport`; part of a TLS record counts, and brings nothing yet."""
        return self._socket is not None and self._socket.is_readable()

    def reset_on_close(self, value: bool) -> None:
        """See `Transport`; not done here."""


class SocketTransport:
    """A TCP connection. Reads when there is something to read, writes without asking first."""

    def __init__(self, stream: trio.SocketStream, write_timeout_s: float) -> None:
        self._stream = stream
        self._write_timeout_s = write_timeout_s
        self._descriptor = stream.socket.fileno()

    async def receive(self, is_likely: bool) -> bytes | memoryview:
        """See `Transport`."""
        descriptor = self._descriptor
        if is_likely:
            await trio.lowlevel.checkpoint()
        else:
            await trio.lowlevel.wait_readable(descriptor)
        while True:
            try:
                return _RECEIVED[: os.readv(descriptor, _BUFFERS)]
            except BlockingIOError:
                await trio.lowlevel.wait_readable(descriptor)
            except OSError as error:
                raise trio.BrokenResourceError(str(error)) from error

    async def send(self, data: bytes) -> None:
        """See `Transport`."""
        try:
            sent = os.write(self._descriptor, data)
        except BlockingIOError:
            sent = 0
        except OSError as error:
            raise trio.BrokenResourceError(str(error)) from error
        if sent < len(data):
            await _send_all(self._stream, memoryview(data)[sent:], self._write_timeout_s)

    def send_now(self, data: bytes) -> int:
        """See `Transport`."""
        try:
            return os.write(self._descriptor, data)
        except OSError:
            # Whoever sends next finds out.
            return 0

    def has_more(self) -> bool:
        """See `Transport`."""
        return self._stream.socket.is_readable()

    def reset_on_close(self, value: bool) -> None:
        """See `Transport`."""
        linger = _ON_CLOSE_RESET if value else _ON_CLOSE_FINISH
        self._stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def transport_of(stream: trio.abc.Stream, write_timeout_s: float = WRITE_TIMEOUT_S) -> Transport:
    """The cheapest way to use a stream.

    Args:
        stream: It is still to be closed by the caller.
        write_timeout_s: How long the other side may take to read what is written at once.
    """
    if isinstance(stream, trio.SocketStream):
        return SocketTransport(stream, write_timeout_s)
    return StreamTransport(stream, write_timeout_s)


async def _send_all(stream: trio.abc.Stream, data: memoryview, timeout_s: float) -> None:
    with trio.move_on_after(timeout_s) as scope:
        await stream.send_all(data)
    if scope.cancelled_caught:
        raise trio.BrokenResourceError("what was written is not read in time")
