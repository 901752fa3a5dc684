"""Netlink's messages and attributes, and one exchange with the kernel (`netlink(7)`).

Nothing is started for it and no library is loaded: a change takes some 50 µs. The namespace of the
*thread* that makes the socket is the one that is asked and changed, for as long as it is open.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

NETLINK_ROUTE: Final = 0
NETLINK_SOCK_DIAG: Final = 4
NETLINK_NETFILTER: Final = 12

REQUEST: Final = 0x1
ACK: Final = 0x4
DUMP: Final = 0x300
CREATE: Final = 0x400
EXCL: Final = 0x200

_NESTED: Final = 0x8000
_TYPE_MASK: Final = 0x3FFF
_NLMSG_ERROR: Final = 2
_NLMSG_DONE: Final = 3
_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_RECEIVE_BYTES: Final = 1 << 17
_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Message:
    """One request or answer: its type, its flags, and its body (header structs and attributes)."""

    kind: int
    flags: int
    body: bytes


def attribute(kind: int, value: bytes) -> bytes:
    """Encode one attribute, padded to four bytes."""
    size = _ATTRIBUTE.size + len(value)
    return _ATTRIBUTE.pack(size, kind) + value + bytes(-size % 4)


def nested(kind: int, *attributes: bytes) -> bytes:
    """Encode an attribute that holds attributes."""
    return attribute(kind | _NESTED, b"".join(attributes))


def text(kind: int, value: str) -> bytes:
    """Encode a name, ended with a zero byte."""
    return attribute(kind, value.encode("ascii") + b"\0")


def number(kind: int, value: int) -> bytes:
    """Encode 32 bits in the host's order, as rtnetlink wants them."""
    return attribute(kind, struct.pack("=I", value))


def number_be(kind: int, value: int) -> bytes:
    """Encode 32 bits in network order, as netfilter wants them."""
    return attribute(kind, struct.pack(">I", value & 0xFFFFFFFF))


def long_be(kind: int, value: int) -> bytes:
    """Encode 64 bits in network order."""
    return attribute(kind, struct.pack(">Q", value))


def attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Decode the attributes one after another: type and value."""
    offset = 0
    while offset + _ATTRIBUTE.size <= len(data):
        size, kind = _ATTRIBUTE.unpack_from(data, offset)
        if size < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_MASK, data[offset + _ATTRIBUTE.size : offset + size]
        offset += (size + 3) & ~3


class Netlink:
    """A socket to one part of the kernel, for the network namespace of the calling thread.

    Args:
        protocol: NETLINK_ROUTE and its like.

    Raises:
        OSError: The kernel lacks the protocol.
    """

    def __init__(self, protocol: int) -> None:
        self._socket = socket.socket(
            socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol
        )
        self._socket.settimeout(_TIMEOUT_S)
        self._socket.bind((0, 0))
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def ask(self, messages: Sequence[Message]) -> list[Message]:
        """Send requests in one go, and return what the kernel answers beside its acknowledgements.

        Each request that has the flag ACK or DUMP is waited for.

        Raises:
            OSError: The kernel refuses one of them; those after it may have been carried out.
        """
        waiting: set[int] = set()
        sent = bytearray()
        for message in messages:
            self._sequence += 1
            size = _HEADER.size + len(message.body)
            sent += _HEADER.pack(size, message.kind, message.flags, self._sequence, 0)
            sent += message.body + bytes(-size % 4)
            if message.flags & ACK or message.flags & DUMP == DUMP:
                waiting.add(self._sequence)
        self._socket.send(sent)
        answers: list[Message] = []
        refused = 0
        while waiting:
            for sequence, answer in _split(self._socket.recv(_RECEIVE_BYTES)):
                if answer.kind == _NLMSG_ERROR:
                    refused = refused or -struct.unpack_from("=i", answer.body)[0]
                    waiting.discard(sequence)
                elif answer.kind == _NLMSG_DONE:
                    waiting.discard(sequence)
                elif sequence in waiting:
                    answers.append(answer)
            if refused:
                raise OSError(refused, os.strerror(refused))
        return answers


def _split(data: bytes) -> Iterator[tuple[int, Message]]:
    offset = 0
    while offset + _HEADER.size <= len(data):
        size, kind, flags, sequence, _ = _HEADER.unpack_from(data, offset)
        yield sequence, Message(kind, flags, data[offset + _HEADER.size : offset + size])
        offset += (size + 3) & ~3
