"""Ethernet frames as bytes: who sends to whom, and what a fault makes of one. Pure."""

from __future__ import annotations

import random
import struct
from typing import Final

BROADCAST: Final = 0xFF
_ETHERNET: Final = 14
_TYPE_AT: Final = 12
_IPV4: Final = b"\x08\x00"
_TCP: Final = 6
_PROTOCOL_AT: Final = _ETHERNET + 9
_TOTAL_AT: Final = _ETHERNET + 2
_SOURCE_AT: Final = _ETHERNET + 12
_TARGET_AT: Final = _ETHERNET + 16
_IP_END: Final = _ETHERNET + 20
_SWAP_TRIES: Final = 16
_WORD: Final = 2


def pair_of(frame: bytes, network: bytes) -> tuple[int, int] | None:
    """Say between which two addresses of a /24 network an IPv4 packet goes, by their last bytes.

    Args:
        frame: Whole.
        network: The first three bytes of both addresses.

    Returns:
        From and to; None for everything else, such as ARP.
    """
    if len(frame) < _IP_END or frame[_TYPE_AT:_ETHERNET] != _IPV4:
        return None
    if frame[_SOURCE_AT : _SOURCE_AT + 3] != network or (
        frame[_TARGET_AT : _TARGET_AT + 3] != network
    ):
        return None
    return frame[_SOURCE_AT + 3], frame[_TARGET_AT + 3]


def payload_of(frame: bytes) -> tuple[int, int]:
    """Say where a frame's TCP payload begins and ends; an empty range for every other frame."""
    if len(frame) < _IP_END or frame[_TYPE_AT:_ETHERNET] != _IPV4 or frame[_PROTOCOL_AT] != _TCP:
        return 0, 0
    header = _ETHERNET + (frame[_ETHERNET] & 0x0F) * 4
    end = min(len(frame), _ETHERNET + struct.unpack_from(">H", frame, _TOTAL_AT)[0])
    if header + 20 > end:
        return 0, 0
    begin = header + (frame[header + 12] >> 4) * 4
    return (begin, end) if begin < end else (0, 0)


def corrupted(frame: bytes, stream: random.Random) -> bytes | None:
    """Swap two words of a TCP payload, which leaves the checksum as right as it was.

    TCP adds 16-bit words up, in whatever order; words are counted from the header's begin, whose
    length is even, so both must begin at an even place of the payload.

    Returns:
        The frame that nobody below the application can tell from a good one; None if its payload
        has no two words that differ.
    """
    begin, end = payload_of(frame)
    words = (end - begin) // _WORD
    if words < 2:
        return None
    for _ in range(_SWAP_TRIES):
        first, second = (begin + _WORD * stream.randrange(words) for _ in range(2))
        if frame[first : first + _WORD] != frame[second : second + _WORD]:
            changed = bytearray(frame)
            changed[first : first + _WORD] = frame[second : second + _WORD]
            changed[second : second + _WORD] = frame[first : first + _WORD]
            return bytes(changed)
    return None
