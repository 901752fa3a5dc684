"""Records survive the way to bytes and back, and nothing else passes for one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage import format as layout

NUMBERS = st.integers(0, 2**62)
ENTRIES = st.builds(Entry, NUMBERS, NUMBERS, st.sampled_from(EntryKind), st.binary(max_size=200))
STATES = st.builds(HardState, NUMBERS, st.none() | st.text(max_size=20))
RECORDS = st.lists(ENTRIES | STATES | NUMBERS, min_size=1, max_size=8)


def encode(records: list[Entry | HardState | int], seed: int) -> bytes:
    encoder = layout.Encoder(seed, seed, 1)
    for record in records:
        if isinstance(record, Entry):
            encoder.entry(record, 0)
        elif isinstance(record, HardState):
            encoder.hard_state(record, 0)
        else:
            encoder.truncate(record, 0)
    size = encoder.buffered
    data = b"".join(encoder.take())
    assert len(data) == size
    return data


def decode(data: bytes, seed: int) -> list[Entry | HardState | int]:
    found: list[Entry | HardState | int] = []
    offset, chain, seq = 0, seed, 1
    while offset < len(data):
        record = layout.decode_record(data, offset, seq, chain)
        if isinstance(record, str):
            break
        if record.kind == layout.ENTRY:
            found.append(layout.decode_entry(record.payload))
        elif record.kind == layout.HARD_STATE:
            found.append(layout.decode_hard_state(record.payload))
        else:
            found.append(layout.decode_truncate(record.payload))
        offset, chain, seq = record.end, record.crc, seq + 1
    return found


@given(RECORDS, st.integers(0, 2**32 - 1))
def test_records_round_trip(records: list[Entry | HardState | int], seed: int) -> None:
    assert decode(encode(records, seed), seed) == records


@given(RECORDS, st.integers(0, 2**32 - 1), st.data())
def test_a_cut_yields_a_prefix(
    records: list[Entry | HardState | int], seed: int, data: st.DataObject
) -> None:
    encoded = encode(records, seed)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    found = decode(encoded[:cut], seed)
    assert found == records[: len(found)]
    assert len(found) < len(records)


@given(RECORDS, st.data())
def test_a_flipped_bit_yields_a_prefix(
    records: list[Entry | HardState | int], data: st.DataObject
) -> None:
    encoded = bytearray(encode(records, 7))
    bit = data.draw(st.integers(0, len(encoded) * 8 - 1))
    encoded[bit >> 3] ^= 1 << (bit & 7)
    found = decode(bytes(encoded), 7)
    assert found == records[: len(found)]


@given(RECORDS, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_a_record_of_another_chain_is_not_taken(
    records: list[Entry | HardState | int], seed: int, other: int
) -> None:
    assert seed == other or decode(encode(records, seed), other) == []


@given(NUMBERS, NUMBERS, st.integers(0, 2**32 - 1))
def test_segment_headers_round_trip(first_seq: int, synced: int, seed: int) -> None:
    header = layout.SegmentHeader(first_seq, synced, seed)
    assert layout.decode_segment_header(header.encode()) == header


def test_a_payload_that_holds_old_records_vouches_for_nothing() -> None:
    encoder = layout.Encoder(7, 7, 1)
    for index in range(1, 6):
        encoder.entry(Entry(1, index, EntryKind.COMMAND, b"x"), index - 1)
    old = b"".join(encoder.take())
    encoder.entry(Entry(1, 6, EntryKind.COMMAND, b"lost"), 0)
    start = encoder.buffered
    encoder.entry(Entry(1, 7, EntryKind.COMMAND, bytes(7) + old), 0)
    data = b"".join(encoder.take())
    assert layout.find_voucher(data, 0, 7, 6) is None
    assert start < len(data)


def test_a_later_mark_vouches_for_a_bad_record() -> None:
    encoder = layout.Encoder(7, 7, 1)
    encoder.entry(Entry(1, 1, EntryKind.COMMAND, b"x" * 100), 0)
    encoder.mark(1)
    data = b"".join(encoder.take())
    assert layout.find_voucher(data, 0, 7, 1) == (2, 1)
    assert layout.find_voucher(data, 0, 8, 1) is None
