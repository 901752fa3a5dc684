"""Telling one flipped bit from a torn write, for a record that no mark vouches for.

A write that a power cut tears leaves whole sectors as they were: absent, or zeros. One flipped bit
in a sector that holds other bytes of the same write is no such thing: that sector was written. A
CRC finds where a single bit differs, because it is linear: the wrong checksum and the right one
differ by a value that depends on the place alone.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

from .format import RECORD_BYTES, decode_record

RECORD_BYTES_MAX: Final = 8 << 20
"""Longer records are not searched: it takes about half a second for each MiB."""

_SECTOR_BYTES: Final = 512
_POLYNOMIAL: Final = 0xEDB88320
_LENGTH_OFFSET: Final = 8
_CRC_BYTES: Final = 4
_COVERED_FROM: Final = 8


def flipped_bit(data: bytes, offset: int, seq: int, chain: int) -> int | None:
    """Which single bit makes the record `seq` at `offset` intact, if one does.

    Args:
        data: The segment.
        offset: Where the bad record begins.
        seq: Its sequence number.
        chain: The crc of the record before it.

    Returns:
        The bit's number in the segment, or None: no single bit, or one that a torn write can
        explain as well.
    """
    if len(data) - offset < RECORD_BYTES:
        return None
    found = _in_length(data, offset, seq, chain)
    if found is None:
        found = _in_rest(data, offset, seq, chain)
    if found is None or not _was_written(data, offset, found):
        return None
    return found


def _in_length(data: bytes, offset: int, seq: int, chain: int) -> int | None:
    for bit in range(32):
        number = (offset + _LENGTH_OFFSET) * 8 + bit
        if _is_intact_with(data, offset, seq, chain, number):
            return number
    return None


def _in_rest(data: bytes, offset: int, seq: int, chain: int) -> int | None:
    stored, _, length = struct.unpack_from("<III", data, offset)
    size = RECORD_BYTES + length
    if offset + size > len(data) or size > RECORD_BYTES_MAX:
        return None
    difference = stored ^ crc32(memoryview(data)[offset + _COVERED_FROM : offset + size], chain)
    if difference.bit_count() == 1:
        number = offset * 8 + difference.bit_length() - 1
        return number if _is_intact_with(data, offset, seq, chain, number) else None
    # What flipping the last bit does to a CRC, then the one before it, and so on.
    effect, number = _POLYNOMIAL, (offset + size) * 8 - 1
    first = (offset + _COVERED_FROM) * 8
    while number >= first:
        if effect == difference:
            return number if _is_intact_with(data, offset, seq, chain, number) else None
        effect = effect >> 1 ^ (_POLYNOMIAL if effect & 1 else 0)
        number -= 1
    return None


def _is_intact_with(data: bytes, offset: int, seq: int, chain: int, bit: int) -> bool:
    piece = bytearray(data[offset:])
    at = bit - offset * 8
    piece[at >> 3] ^= 1 << (at & 7)
    return not isinstance(decode_record(bytes(piece), 0, seq, chain), str)


def _was_written(data: bytes, offset: int, bit: int) -> bool:
    """Whether the bit's sector holds anything else of this record or behind it."""
    byte = bit >> 3
    start = max(offset, byte // _SECTOR_BYTES * _SECTOR_BYTES)
    end = (byte // _SECTOR_BYTES + 1) * _SECTOR_BYTES
    return any(data[start:byte]) or any(data[byte + 1 : end])
