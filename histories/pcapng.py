"""Captured packets in files: pcapng (draft-ietf-opsawg-pcapng), written and read.

Each packet says on which interface it was seen, when to the nanosecond, and in a comment what
became of it: `verdict=drop fault=cut-1 mono=123`. A long capture is a ring of files, of which the
oldest go.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

SUFFIX: Final = ".pcapng"
_SECTION: Final = 0x0A0D0D0A
_INTERFACE: Final = 1
_PACKET: Final = 6
_ORDER_MAGIC: Final = 0x1A2B3C4D
_ETHERNET: Final = 1
_NANOSECONDS: Final = b"\x09"
_COMMENT, _NAME, _APPLICATION, _RESOLUTION = 1, 2, 4, 9
_BLOCK: Final = struct.Struct("<II")
_EPB: Final = struct.Struct("<IIIII")
_OPTION: Final = struct.Struct("<HH")
_END: Final = b"\0\0\0\0"
_BLOCK_BYTES_MAX: Final = 1 << 24


@dataclass(frozen=True, slots=True)
class Seen:
    """One captured packet.

    Attributes:
        interface: Where it was seen, such as `n1>n2 sent`.
        wall_ns: When, UTC.
        frame: From the Ethernet header on.
        comment: What became of it, as `key=value` words.
    """

    interface: str
    wall_ns: int
    frame: bytes
    comment: str

    @property
    def words(self) -> dict[str, str]:
        """The comment's values by key."""
        pairs = (word.partition("=") for word in self.comment.split())
        return {key: value for key, _, value in pairs}


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def _option(code: int, value: bytes) -> bytes:
    return _OPTION.pack(code, len(value)) + _padded(value)


def _block(kind: int, body: bytes) -> bytes:
    size = len(body) + 12
    return _BLOCK.pack(kind, size) + body + size.to_bytes(4, "little")


def head(interfaces: Sequence[str], comment: str) -> bytes:
    """Return what a file begins with: its section, and its interfaces by number from 0."""
    options = _option(_COMMENT, comment.encode()) + _option(_APPLICATION, b"atleastonce") + _END
    section = struct.pack("<IHHq", _ORDER_MAGIC, 1, 0, -1) + options
    blocks = [_block(_SECTION, section)]
    for name in interfaces:
        options = _option(_NAME, name.encode()) + _option(_RESOLUTION, _NANOSECONDS) + _END
        blocks.append(_block(_INTERFACE, struct.pack("<HHI", _ETHERNET, 0, 0) + options))
    return b"".join(blocks)


def packet(interface: int, wall_ns: int, frame: bytes, comment: str) -> bytes:
    """Return the block of one packet."""
    size = len(frame)
    body = _EPB.pack(interface, wall_ns >> 32, wall_ns & 0xFFFFFFFF, size, size) + _padded(frame)
    return _block(_PACKET, body + _option(_COMMENT, comment.encode()) + _END)


class PcapngRing:
    """Writes packets to `000001.pcapng` and so on, and keeps the newest files.

    Args:
        folder: Made if it is missing.
        interfaces: Their names, by number from 0.
        comment: What every file says of itself.
        segment_bytes: A file that has reached this is the last one's predecessor.
        segments: So many files are kept.

    Raises:
        OSError: The disk refuses.
    """

    def __init__(
        self,
        folder: Path,
        interfaces: Sequence[str],
        comment: str,
        segment_bytes: int,
        segments: int,
    ) -> None:
        self._folder = folder
        self._head = head(interfaces, comment)
        self._segment_bytes = segment_bytes
        self._segments = segments
        self._number = 0
        self._size = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._file = self._next()

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:06}{SUFFIX}"

    def _next(self) -> BinaryIO:
        self._number += 1
        self._path(self._number - self._segments).unlink(missing_ok=True)
        file = self._path(self._number).open("wb")
        file.write(self._head)
        self._size = len(self._head)
        return file

    def write(self, interface: int, wall_ns: int, frame: bytes, comment: str) -> None:
        """Append one packet; it is on its way to the file, and there after `flush`."""
        if self._size >= self._segment_bytes:
            self._file.close()
            self._file = self._next()
        block = packet(interface, wall_ns, frame, comment)
        self._size += len(block)
        self._file.write(block)

    def flush(self) -> None:
        """Have everything in the file, which another process may read then."""
        self._file.flush()

    def close(self) -> None:
        """Write the rest."""
        self._file.close()


class PcapngError(ValueError):
    """A file is no pcapng file that this reads; the message names it and the offset."""


def segments_of(folder: Path) -> list[Path]:
    """The files of a capture, oldest first; none if there is none."""
    return sorted(folder.glob(f"*{SUFFIX}"))


def read_folder(folder: Path) -> Iterator[Seen]:
    """Read a whole capture in order of its files; errors as `read_pcapng`."""
    for path in segments_of(folder):
        yield from read_pcapng(path)


def read_pcapng(path: Path) -> Iterator[Seen]:
    """Read the packets of a file, as this module writes it; an incomplete last block is left out.

    Raises:
        PcapngError: It is something else, or damaged.
        OSError: It cannot be read.
    """
    interfaces: list[str] = []
    with path.open("rb") as file:
        while True:
            at = file.tell()
            start = file.read(_BLOCK.size)
            if len(start) < _BLOCK.size:
                return
            kind, size = _BLOCK.unpack(start)
            if size < 12 or size % 4 or size > _BLOCK_BYTES_MAX or (kind != _SECTION and not at):
                raise PcapngError(f"{path}: no pcapng block at byte {at}")
            rest = file.read(size - _BLOCK.size)
            if len(rest) < size - _BLOCK.size:
                return
            if int.from_bytes(rest[-4:], "little") != size:
                raise PcapngError(f"{path}: damaged block at byte {at}")
            body = rest[:-4]
            if kind == _SECTION:
                if int.from_bytes(body[:4], "little") != _ORDER_MAGIC:
                    raise PcapngError(f"{path}: not little-endian at byte {at}")
                interfaces = []
            elif kind == _INTERFACE:
                interfaces.append(_options(body[8:]).get(_NAME, b"?").decode())
            elif kind == _PACKET:
                yield _seen(body, interfaces)


def _seen(body: bytes, interfaces: Sequence[str]) -> Seen:
    interface, high, low, size, _ = _EPB.unpack_from(body)
    frame = body[_EPB.size : _EPB.size + size]
    options = _options(body[_EPB.size + size + (-size % 4) :])
    name = interfaces[interface] if interface < len(interfaces) else "?"
    return Seen(name, high << 32 | low, frame, options.get(_COMMENT, b"").decode())


def _options(data: bytes) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    at = 0
    while at + _OPTION.size <= len(data):
        code, size = _OPTION.unpack_from(data, at)
        if not code:
            break
        at += _OPTION.size
        found[code] = data[at : at + size]
        at += size + (-size % 4)
    return found
