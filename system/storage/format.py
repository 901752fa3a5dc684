"""The bytes of a segment: its header, its records, and how each vouches for what came before.

A segment is `HEADER` and then records, all little-endian. A record is

    crc         u32   over the rest of the header but `header_crc`, and the payload, continued
                      from the crc of the record before it (the first: from the segment's seed)
    header_crc  u32   over the 24 bytes below, from the segment's seed; lets a scan that has lost
                      the chain believe a header
    length      u32   of the payload
    tag         u32   record type, and three fixed bytes to search for
    seq         u64   1, 2, 3, … through all segments
    synced      u64   every record up to this one was durable when this one was written
    payload           `length` bytes, then zeros up to a multiple of 8

Payloads: ENTRY term u64, log index u64, kind u8, data; HARD_STATE term u64, voted u8, name;
TRUNCATE first index u64 that is cut; MARK nothing, it only carries `synced`; BASE last index u64,
its term u64 (0: not known), term u64, voted u8, is-reset u8, name. A segment begins with its BASE,
which says what the segments before it add up to, so that these can be deleted.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final
from zlib import crc32

from ..raft.messages import Entry, EntryKind, HardState

SUFFIX: Final = ".wal"
TEMPORARY_SUFFIX: Final = ".tmp"
MAGIC: Final = b"ALO-WAL\n"
VERSION: Final = 2

ENTRY: Final = 1
HARD_STATE: Final = 2
TRUNCATE: Final = 3
MARK: Final = 4
BASE: Final = 5

_TAG_BYTES: Final = b"\xa7WL"
_TAG: Final = int.from_bytes(b"\x00" + _TAG_BYTES, "little")
_TAG_OFFSET: Final = 13

# magic, version, zero, first seq, synced, chain seed, crc of the 36 bytes before
HEADER: Final = struct.Struct("<8sIIQQII")
_CRCS: Final = struct.Struct("<II")
_FIXED: Final = struct.Struct("<IIQQ")
_RECORD: Final = struct.Struct("<IIIIQQ")
_ENTRY: Final = struct.Struct("<IIQQQQB")
_ENTRY_HEAD: Final = struct.Struct("<QQB")
_STATE_HEAD: Final = struct.Struct("<QB")
_INDEX: Final = struct.Struct("<Q")
_BASE_HEAD: Final = struct.Struct("<QQQBB")

RECORD_BYTES: Final = _RECORD.size
_PADDING: Final = tuple(bytes(-length % 8) for length in range(8))


def segment_name(first_seq: int) -> str:
    """The file name of the segment whose first record is `first_seq`."""
    return f"{first_seq:016x}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """How a segment begins.

    Attributes:
        first_seq: Sequence number of its first record.
        synced: Every record up to this one was durable before the segment had its name; that is
            the first one too.
        seed: The crc of the record before the first one; random in the first segment.
    """

    first_seq: int
    synced: int
    seed: int

    def encode(self) -> bytes:
        """The header's 40 bytes."""
        head = HEADER.pack(MAGIC, VERSION, 0, self.first_seq, self.synced, self.seed, 0)[:-4]
        return head + crc32(head).to_bytes(4, "little")


def decode_segment_header(data: bytes) -> SegmentHeader:
    """Read a segment's first bytes.

    Raises:
        ValueError: They are no intact header of this version; the message is a reason.
    """
    if len(data) < HEADER.size:
        raise ValueError(f"the segment header has {len(data)} of {HEADER.size} bytes")
    magic, version, _, first_seq, synced, seed, crc = HEADER.unpack_from(data)
    if crc != crc32(data[: HEADER.size - 4]):
        raise ValueError("the segment header fails its checksum")
    if magic != MAGIC:
        raise ValueError("the file is no segment of a log")
    if version != VERSION:
        raise ValueError(f"the segment has format version {version}; this program reads {VERSION}")
    return SegmentHeader(first_seq, synced, seed)


@dataclass(frozen=True, slots=True)
class Base:
    """What a segment begins with.

    Attributes:
        hard_state: The term and vote so far.
        last_index: Index of the log's last entry so far.
        last_term: Its term, where a snapshot replaced the log; otherwise 0.
        is_reset: Whether all entries before were dropped, because a snapshot holds them.
    """

    hard_state: HardState
    last_index: int
    last_term: int = 0
    is_reset: bool = False


class Encoder:
    """Turns records into buffers, chaining each to the one before.

    Attributes:
        next_seq: What the next record will carry.
        chain: The crc of the last record.
        buffers: Encoded and not yet taken; payload bytes are the caller's own, uncopied.
        buffered: Their size in bytes.
    """

    __slots__ = ("_seed", "buffered", "buffers", "chain", "next_seq")

    def __init__(self, seed: int, chain: int, next_seq: int) -> None:
        self._seed = seed
        self.chain = chain
        self.next_seq = next_seq
        self.buffers: list[bytes] = []
        self.buffered = 0

    def take(self) -> list[bytes]:
        """Hand over the buffers and start with none."""
        buffers, self.buffers, self.buffered = self.buffers, [], 0
        return buffers

    def entry(self, entry: Entry, synced: int) -> None:
        """Encode one entry. About 1.5 µs, and one pass over its data."""
        data = entry.data
        length = 17 + len(data)
        head = _ENTRY.pack(
            length, ENTRY | _TAG, self.next_seq, synced, entry.term, entry.index, entry.kind
        )
        crc = crc32(data, crc32(head, self.chain))
        padding = _PADDING[length & 7]
        self.buffers += (_CRCS.pack(crc, crc32(head[:24], self._seed)), head, data, padding)
        self.buffered += 32 + length + len(padding)
        self.chain = crc
        self.next_seq += 1

    def hard_state(self, state: HardState, synced: int) -> None:
        """Encode the term and vote."""
        voted = state.voted_for
        name = b"" if voted is None else voted.encode()
        self._record(HARD_STATE, _STATE_HEAD.pack(state.term, voted is not None) + name, synced)

    def truncate(self, from_index: int, synced: int) -> None:
        """Encode that entries from `from_index` on are cut."""
        self._record(TRUNCATE, _INDEX.pack(from_index), synced)

    def mark(self, synced: int) -> None:
        """Encode nothing but that records up to `synced` are durable."""
        self._record(MARK, b"", synced)

    def base(self, base: Base, synced: int) -> None:
        """Encode what came before."""
        state = base.hard_state
        voted = state.voted_for
        head = _BASE_HEAD.pack(
            base.last_index, base.last_term, state.term, voted is not None, base.is_reset
        )
        self._record(BASE, head + (b"" if voted is None else voted.encode()), synced)

    def _record(self, kind: int, payload: bytes, synced: int) -> None:
        fixed = _FIXED.pack(len(payload), kind | _TAG, self.next_seq, synced)
        crc = crc32(payload, crc32(fixed, self.chain))
        padding = _PADDING[len(payload) & 7]
        header_crc = crc32(fixed, self._seed)
        self.buffers.append(_CRCS.pack(crc, header_crc) + fixed + payload + padding)
        self.buffered += RECORD_BYTES + len(payload) + len(padding)
        self.chain = crc
        self.next_seq += 1


@dataclass(frozen=True, slots=True)
class Record:
    """One intact record as found in a segment.

    Attributes:
        kind: ENTRY, HARD_STATE, TRUNCATE, MARK or BASE.
        synced: The mark it carries.
        payload: Its bytes; a view of the segment.
        crc: Its own, from which the next one continues.
        end: Offset of the next record.
    """

    kind: int
    synced: int
    payload: memoryview
    crc: int
    end: int


def decode_record(data: bytes, offset: int, seq: int, chain: int) -> Record | str:
    """Read the record `seq` at `offset`, or say why there is none.

    Cost: about 1.5 µs, and one pass over the payload.
    """
    if len(data) - offset < RECORD_BYTES:
        return "the file ends inside a record header"
    crc, _, length, tag, found, synced = _RECORD.unpack_from(data, offset)
    start = offset + RECORD_BYTES
    if length > len(data) - start:
        return f"record {seq} is longer than the file"
    view = memoryview(data)
    payload = view[start : start + length]
    if crc != crc32(payload, crc32(view[offset + 8 : start], chain)):
        return f"record {seq} fails its checksum"
    if found != seq or tag & ~0xFF != _TAG:
        return f"record {found} stands where record {seq} should"
    end = start + length + (-length % 8)
    if end > len(data):
        return f"record {seq} ends behind the end of the file"
    return Record(tag & 0xFF, synced, payload, crc, end)


def decode_entry(payload: memoryview) -> Entry:
    """The entry in an ENTRY record. `ValueError` if it is none."""
    if len(payload) < _ENTRY_HEAD.size:
        raise ValueError(f"an entry has {len(payload)} bytes")
    term, index, kind = _ENTRY_HEAD.unpack_from(payload)
    return Entry(term, index, EntryKind(kind), bytes(payload[_ENTRY_HEAD.size :]))


def decode_hard_state(payload: memoryview) -> HardState:
    """The term and vote in a HARD_STATE record. `ValueError` if it is none."""
    if len(payload) < _STATE_HEAD.size:
        raise ValueError(f"a hard state has {len(payload)} bytes")
    term, voted = _STATE_HEAD.unpack_from(payload)
    name = str(payload[_STATE_HEAD.size :], "utf-8")
    return HardState(term, name if voted else None)


def decode_truncate(payload: memoryview) -> int:
    """The first cut index in a TRUNCATE record. `ValueError` if it is none."""
    if len(payload) != _INDEX.size:
        raise ValueError(f"a truncation has {len(payload)} bytes")
    index: int = _INDEX.unpack(payload)[0]
    return index


def decode_base(payload: memoryview) -> Base:
    """What a BASE record says. `ValueError` if it is none."""
    if len(payload) < _BASE_HEAD.size:
        raise ValueError(f"a base has {len(payload)} bytes")
    last_index, last_term, term, voted, is_reset = _BASE_HEAD.unpack_from(payload)
    name = str(payload[_BASE_HEAD.size :], "utf-8")
    state = HardState(term, name if voted else None)
    return Base(state, last_index, last_term, bool(is_reset))


def find_voucher(data: bytes, offset: int, seed: int, seq: int) -> tuple[int, int] | None:
    """Search behind a bad record for a header that says it was durable.

    Args:
        data: The segment.
        offset: Where the bad record begins.
        seed: The segment's.
        seq: The bad record's sequence number.

    Returns:
        The believable later header's own (seq, synced), or None.
    """
    at = data.find(_TAG_BYTES, offset + 8 + _TAG_OFFSET)
    while at >= 0:
        start = at - _TAG_OFFSET
        if start % 8 == 0 and len(data) - start >= RECORD_BYTES:
            _, header_crc, _, _, found, synced = _RECORD.unpack_from(data, start)
            fits = seq < found <= seq + (start - offset) // RECORD_BYTES and seq <= synced < found
            if fits and header_crc == crc32(data[start + 8 : start + RECORD_BYTES], seed):
                return found, synced
        at = data.find(_TAG_BYTES, at + 1)
    return None
