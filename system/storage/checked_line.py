"""Small files that say whether they are whole: the CRC-32 of a JSON line in hex, and the line."""

from __future__ import annotations

from typing import TypeVar
from zlib import crc32

import msgspec

Content = TypeVar("Content", bound=msgspec.Struct)


def encode_checked(content: msgspec.Struct) -> bytes:
    """The file's content."""
    line = msgspec.json.encode(content)
    return b"%08x\n%b\n" % (crc32(line), line)


def decode_checked(data: bytes, kind: type[Content]) -> Content:
    """Read the file's content.

    Raises:
        ValueError: It is not what was written; the message is a reason.
    """
    crc, _, line = data.partition(b"\n")
    if not line.endswith(b"\n") or crc != b"%08x" % crc32(line[:-1]):
        raise ValueError("the file fails its checksum")
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.MsgspecError as error:
        raise ValueError(f"the file cannot be read: {error}") from None
