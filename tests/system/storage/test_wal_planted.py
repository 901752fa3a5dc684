"""A planted defect: damage in the middle of a log is taken for a torn tail."""

from __future__ import annotations

from pathlib import Path

import pytest

from atleastonce.system.raft.messages import Entry, EntryKind
from atleastonce.system.storage.disk import RealDisk
from atleastonce.system.storage.errors import DamagedLogError
from atleastonce.system.storage.wal import Wal

ENTRIES = [Entry(1, index, EntryKind.COMMAND, b"x" * 100) for index in range(1, 51)]


def test_with_the_defect_a_damaged_log_opens_shorter_and_without_it_not_at_all(
    tmp_path: Path,
) -> None:
    wal, _ = Wal.open(RealDisk(tmp_path), "log")
    for entry in ENTRIES:
        wal.append(None, None, [entry])
        wal.sync()
    wal.close()
    (segment,) = (tmp_path / "log").glob("*.wal")
    content = bytearray(segment.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 8] = bytes(byte ^ 0x55 for byte in content[middle : middle + 8])
    segment.write_bytes(content)

    with pytest.raises(DamagedLogError):
        Wal.open(RealDisk(tmp_path), "log")
    bugs = frozenset({"damage-taken-for-torn-tail"})
    wal, recovered = Wal.open(RealDisk(tmp_path), "log", bugs=bugs)
    wal.close()

    assert 0 < len(recovered.entries) < len(ENTRIES)
    assert recovered.entries == ENTRIES[: len(recovered.entries)]
