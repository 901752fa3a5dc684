"""Requests as bytes, and the two ends of a connection."""

from __future__ import annotations

import socket

import trio

Stream = trio.abc.HalfCloseableStream


def get(target: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: a", *headers, "", ""]).encode()


async def read_all(stream: Stream) -> bytes:
    """Everything up to the end."""
    found = bytearray()
    while data := await stream.receive_some():
        found += data
    return bytes(found)


async def read_until(stream: Stream, ending: bytes) -> bytes:
    """Everything up to some bytes."""
    found = bytearray()
    while not found.endswith(ending):
        data = await stream.receive_some()
        assert data, f"closed after {bytes(found)!r}"
        found += data
    return bytes(found)


def socket_stream_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    """Two ends of a connection that the kernel keeps."""
    left, right = socket.socketpair()
    return (
        trio.SocketStream(trio.socket.from_stdlib_socket(left)),
        trio.SocketStream(trio.socket.from_stdlib_socket(right)),
    )
