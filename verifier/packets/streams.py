"""From captured frames to the streams that they carry, and to the messages in these."""

from __future__ import annotations

import re
import socket
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ...histories.pcapng import Seen

_ETHERNET: Final = 14
_IPV4: Final = b"\x08\x00"
_TCP: Final = 6
_HEADER: Final = struct.Struct(">III")
_BUFFER_BYTES_MAX: Final = 128 << 20
_EARLY_MAX: Final = 64
_MASK: Final = 0xFFFFFFFF
_FLAGS: Final = ((2, "syn"), (1, "fin"), (4, "rst"))
_HTTP: Final = re.compile(rb"(?:[A-Z]{3,7} (\S+) HTTP/1\.[01]|HTTP/1\.[01] (\d{3}))[^\r\n]*\r\n")
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Segment:
    """A captured segment of TCP."""

    seen: Seen
    source: Address
    target: Address
    seq: int
    flags: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Item:
    """Something that was seen on a link: a message, or what TCP itself says.

    Attributes:
        seen: The packet in which it was complete.
        connection: The port that was dialled from.
        service: peer or client.
        kind: `frame` with its bytes, `http`, or a flag of TCP.
        data: The bytes.
        text: For `http` its first line.
    """

    seen: Seen
    connection: int
    service: str
    kind: str
    data: bytes = b""
    text: str = ""

    @property
    def mono_ns(self) -> int:
        """When, CLOCK_MONOTONIC."""
        return int(self.seen.words.get("mono", "0"))


def segment_of(seen: Seen) -> Segment | None:
    """Read the headers of a frame; None for anything else than TCP over IPv4."""
    frame = seen.frame
    if len(frame) < _ETHERNET + 40 or frame[12:_ETHERNET] != _IPV4:
        return None
    head = (frame[_ETHERNET] & 0x0F) * 4
    size, protocol = struct.unpack_from(">H", frame, _ETHERNET + 2)[0], frame[_ETHERNET + 9]
    at = _ETHERNET + head
    if protocol != _TCP or len(frame) < at + 20:
        return None
    source, target = (
        socket.inet_ntoa(frame[_ETHERNET + place : _ETHERNET + place + 4]) for place in (12, 16)
    )
    source_port, target_port, seq, _, offset, flags = struct.unpack_from(">HHIIBB", frame, at)
    data = frame[at + (offset >> 4) * 4 : _ETHERNET + size]
    return Segment(seen, (source, source_port), (target, target_port), seq, flags, data)


@dataclass(slots=True)
class _Stream:
    """One direction of a connection on one interface.

    Attributes:
        next_seq: The number of the byte that comes next; None before the first.
        buffer: What has come in order and was not taken.
        early: What has come before its turn, by number.
    """

    next_seq: int | None = None
    buffer: bytearray = field(default_factory=bytearray)
    early: dict[int, bytes] = field(default_factory=dict)

    def add(self, seq: int, data: bytes) -> bool:
        """Take a segment, which may come early, late or again; whether the buffer has grown."""
        if self.next_seq is None:
            self.next_seq = seq
        if len(data) > len(self.early.get(seq, b"")):
            self.early[seq] = data
        grown = self._take_ready(self.next_seq)
        if not grown and len(self.early) > _EARLY_MAX:
            # What is missing never comes: go on behind it.
            self.buffer.clear()
            begun = self.next_seq
            grown = self._take_ready(min(self.early, key=lambda at: (at - begun) & _MASK))
        if len(self.buffer) > _BUFFER_BYTES_MAX:
            self.buffer.clear()
        return grown

    def _take_ready(self, next_seq: int) -> bool:
        before = next_seq
        while True:
            # Half of all numbers are behind any other one.
            ready = [at for at in self.early if (next_seq - at) & _MASK <= _MASK >> 1]
            if not ready:
                break
            for at in sorted(ready, key=lambda at: (at - next_seq) & _MASK):
                fresh = self.early.pop(at)[(next_seq - at) & _MASK :]
                self.buffer += fresh
                next_seq = (next_seq + len(fresh)) & _MASK
        self.next_seq = next_seq
        return next_seq != before


class Streams:
    """Puts segments together.

    Args:
        services: What each port of a node serves.
    """

    def __init__(self, services: dict[int, str]) -> None:
        self._services = services
        self._streams: dict[tuple[str, Address, Address], _Stream] = {}

    def items(self, packets: Iterable[Seen]) -> Iterator[Item]:
        """Yield what the packets say, in their order."""
        for seen in packets:
            segment = segment_of(seen)
            if segment is not None:
                yield from self._items(segment)

    def _items(self, segment: Segment) -> Iterator[Item]:
        is_there = segment.target[1] in self._services
        served, dialled = segment.source[1], segment.target[1]
        if is_there:
            served, dialled = dialled, served
        service = self._services.get(served, "?")
        key = (segment.seen.interface, segment.source, segment.target)
        for bit, flag in _FLAGS:
            if segment.flags & bit:
                yield Item(segment.seen, dialled, service, flag)
        if segment.flags & 2:
            self._streams[key] = _Stream((segment.seq + 1) & _MASK)
        if not segment.data:
            return
        stream = self._streams.setdefault(key, _Stream())
        if not stream.add(segment.seq, segment.data):
            return
        take = _take_frame if service == "peer" else _take_http
        while (found := take(stream.buffer)) is not None:
            kind, data, text = found
            if kind:
                yield Item(segment.seen, dialled, service, kind, data, text)


def _take_frame(buffer: bytearray) -> tuple[str, bytes, str] | None:
    """Take the next peer frame; after a gap, look for one whose length is vouched for."""
    at = 0
    while len(buffer) - at >= _HEADER.size:
        length, check, _ = _HEADER.unpack_from(buffer, at)
        if zlib.crc32(buffer[at : at + 4]) == check:
            del buffer[:at]
            end = _HEADER.size + length
            if len(buffer) < end:
                return None
            data = bytes(buffer[:end])
            del buffer[:end]
            return "frame", data, ""
        at += 1
    del buffer[:at]
    return None


def _take_http(buffer: bytearray) -> tuple[str, bytes, str] | None:
    """Take the next head of a request or an answer, with as much of its body as has come."""
    found = _HTTP.search(buffer)
    if found is None:
        del buffer[: max(0, len(buffer) - 4096)]
        return None
    end = buffer.find(b"\r\n\r\n", found.start())
    if end < 0:
        return None
    head = bytes(buffer[found.start() : end + 2])
    length = _LENGTH.search(head)
    size = int(length.group(1)) if length else 0
    del buffer[: end + 4]
    line = head.split(b"\r\n", 1)[0].decode("latin-1").replace(" HTTP/1.1", "")
    return "http", head, f"{line.removeprefix('HTTP/1.1 ')} ({size} B)"
