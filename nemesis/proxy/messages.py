"""Which messages nodes send each other, told apart as they stream by.

A frame is its content after twelve bytes: the content's length, the CRC-32 of these four bytes,
and that of the content. On a connection for Raft, after the dialer's greeting, a content is a
MessagePack array whose first element is a tag of two letters.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

HEADER: Final = struct.Struct(">III")
_TAG: Final = struct.Struct(">BB2s")
_HEAD_BYTES: Final = HEADER.size + _TAG.size
_ARRAYS: Final = range(0x90, 0xA0)
_TEXT_OF_TWO: Final = 0xA2

APPENDS: Final = "appends"
ANSWERS: Final = "append-answers"
VOTE_REQUESTS: Final = "vote-requests"
VOTES: Final = "votes"
TRANSFERS: Final = "transfers"

KINDS: Final[dict[bytes, str]] = {
    b"ae": APPENDS,
    b"ar": ANSWERS,
    b"rv": VOTE_REQUESTS,
    b"vr": VOTES,
    b"tn": TRANSFERS,
}
"""The kinds that a rule's `only` can name, by the tag of the message."""


def kind_of(content: bytes | memoryview) -> str:
    """Return the kind of a message; empty for anything else than a message of Raft."""
    if len(content) < _TAG.size:
        return ""
    array, text, tag = _TAG.unpack_from(content)
    if array not in _ARRAYS or text != _TEXT_OF_TWO:
        return ""
    return KINDS.get(tag, "")


@dataclass(slots=True)
class Sifted:
    """What became of some bytes.

    Attributes:
        kept: Those that go on.
        messages: How many messages were left out.
        bytes: How many bytes these had, as far as they have come.
    """

    kept: bytes
    messages: int = 0
    bytes: int = 0


class MessageSieve:
    """Leaves out the messages of some kinds; never splits one.

    It holds back at most 15 bytes, the head of a message that has not come whole. What is no frame
    of nodes passes for ever after.
    """

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._is_dropping = False
        self._is_foreign = False

    def feed(self, data: bytes, unwanted: Collection[str]) -> Sifted:
        """Take the next bytes, and leave out what has begun since as one of the unwanted kinds."""
        if self._is_foreign:
            return Sifted(data)
        told, kept = Sifted(b""), bytearray()
        rest = self._head + data
        self._head, at = b"", 0
        while at < len(rest):
            if not self._left:
                head = rest[at : at + _HEAD_BYTES]
                begun = self._begin(head, unwanted)
                if begun is None:
                    self._head = head
                    break
                if not begun:
                    self._is_foreign = True
                    kept += rest[at:]
                    break
                told.messages += self._is_dropping
            piece = rest[at : at + self._left]
            if self._is_dropping:
                told.bytes += len(piece)
            else:
                kept += piece
            self._left -= len(piece)
            at += len(piece)
        told.kept = bytes(kept)
        return told

    def _begin(self, head: bytes, unwanted: Collection[str]) -> bool | None:
        """Learn what a frame is; None if more bytes are needed for that, False if it is none."""
        if len(head) < HEADER.size:
            return None
        length, check, _ = HEADER.unpack_from(head)
        if zlib.crc32(head[:4]) != check:
            return False
        if len(head) < HEADER.size + min(length, _TAG.size):
            return None
        self._left = HEADER.size + length
        self._is_dropping = bool(unwanted) and kind_of(head[HEADER.size :]) in unwanted
        return True

    def flush(self) -> bytes:
        """Take what was held back, once no more will come."""
        held, self._head = self._head, b""
        return held
