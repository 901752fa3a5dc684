"""Which frames a rule is for: all, those that carry something, or those with messages of a kind.

Pure.
"""

from __future__ import annotations

import zlib
from typing import Final

from ..proxy.messages import HEADER, KINDS, kind_of
from .frames import payload_of

ALL: Final = ""
PAYLOAD: Final = "payload"
"""Frames that carry bytes of a TCP stream, and so not mere acknowledgements."""

CHOICES: Final = (ALL, PAYLOAD, *KINDS.values())


def is_meant(frame: bytes, only: str) -> bool:
    """Whether a rule with this `only` is for a frame.

    Messages are found from the begin of the payload on, as long as whole ones follow each other;
    what begins in the middle of one has none.
    """
    if only == ALL:
        return True
    begin, end = payload_of(frame)
    return begin < end and (only == PAYLOAD or _holds(frame, begin, end, only))


def _holds(frame: bytes, begin: int, end: int, kind: str) -> bool:
    at = begin
    while at + HEADER.size <= end:
        length, check, _ = HEADER.unpack_from(frame, at)
        if zlib.crc32(frame[at : at + 4]) != check:
            return False
        content = at + HEADER.size
        if kind_of(frame[content : min(content + length, end)]) == kind:
            return True
        at = content + length
    return False
