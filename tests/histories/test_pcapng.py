"""Captures as files: what is written is read back, by this module and by scapy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.histories.pcapng import (
    PcapngError,
    PcapngRing,
    head,
    packet,
    read_folder,
    read_pcapng,
    segments_of,
)

INTERFACES = ("n1>n2 sent", "n1>n2 delivered")
COMMENT = "verdict=drop fault=cut-1 mono=42"
T_NS = 1_796_094_348_959_676_162


@given(
    st.lists(
        st.tuples(st.integers(0, 1), st.integers(0, 1 << 62), st.binary(max_size=99), st.text())
    )
)
def test_packets_are_read_back_as_they_were_written(
    written: list[tuple[int, int, bytes, str]],
) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.pcapng")
        path.write_bytes(head(INTERFACES, "test") + b"".join(packet(*each) for each in written))
        seen = list(read_pcapng(path))
    assert [(s.interface, s.wall_ns, s.frame, s.comment) for s in seen] == [
        (INTERFACES[number], wall_ns, frame, comment) for number, wall_ns, frame, comment in written
    ]


def test_words_of_a_comment_are_told_by_key(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    path.write_bytes(head(INTERFACES, "test") + packet(0, T_NS, b"frame", COMMENT))
    assert next(read_pcapng(path)).words == {"verdict": "drop", "fault": "cut-1", "mono": "42"}


def test_scapy_reads_time_to_the_nanosecond_comment_and_interface(tmp_path: Path) -> None:
    from scapy.utils import RawPcapNgReader

    path = tmp_path / "x.pcapng"
    path.write_bytes(head(INTERFACES, "test") + packet(1, T_NS, b"f" * 14, COMMENT))
    with RawPcapNgReader(str(path)) as reader:
        frame, said = next(iter(reader))
    # What it says of a packet differs between its formats.
    meta: Any = said
    assert frame == b"f" * 14
    assert (meta.tshigh << 32) + meta.tslow == T_NS
    assert meta.tsresol == 1_000_000_000
    assert COMMENT in str(getattr(meta, "comments", None) or meta.comment)
    assert "n1>n2 delivered" in str(meta.ifname)


def test_a_ring_keeps_the_newest_files_and_each_can_be_read_alone(tmp_path: Path) -> None:
    ring = PcapngRing(tmp_path / "c", INTERFACES, "test", segment_bytes=2000, segments=3)
    for number in range(200):
        ring.write(0, T_NS + number, b"x" * 100, f"mono={number}")
    ring.flush()
    files = segments_of(tmp_path / "c")
    assert len(files) == 3
    assert sum(path.stat().st_size for path in files) < 4 * 2300
    numbers = [int(seen.words["mono"]) for seen in read_folder(tmp_path / "c")]
    assert numbers == list(range(numbers[0], 200))
    assert next(seen.interface for seen in read_pcapng(files[1])) == INTERFACES[0]
    ring.close()


def test_a_torn_end_is_left_out_and_damage_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.pcapng"
    one = packet(0, T_NS, b"frame", COMMENT)
    path.write_bytes(head(INTERFACES, "test") + one + one[:-3])
    assert len(list(read_pcapng(path))) == 1
    path.write_bytes(head(INTERFACES, "test") + one[:-4] + b"\1\0\0\0" + one)
    with pytest.raises(PcapngError, match="damaged block at byte"):
        list(read_pcapng(path))
    path.write_bytes(b"no capture at all, surely")
    with pytest.raises(PcapngError, match="no pcapng block at byte 0"):
        list(read_pcapng(path))
