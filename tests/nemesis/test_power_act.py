"""What a power failure takes: only what no sync covers, and of that a part."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from atleastonce.nemesis.power_act import Tail, lose, unsynced


def test_only_appended_files_beyond_their_floor_can_lose_something(tmp_path: Path) -> None:
    floors = {}
    for name, size, floor in (("1.wal", 900, 900), ("2.wal", 900, 400), ("3.mdb", 900, 0)):
        (tmp_path / name).write_bytes(bytes(size))
        stat = (tmp_path / name).stat()
        floors[stat.st_dev, stat.st_ino] = floor
    (tmp_path / "4.wal").write_bytes(b"never synced")

    assert unsynced(tmp_path, floors) == {
        tmp_path / "2.wal": (400, 900),
        tmp_path / "4.wal": (0, 12),
    }


@pytest.mark.parametrize("tail", ["cut", "zeros", "garbage"])
def test_synced_bytes_stay_and_some_of_the_others_go(tmp_path: Path, tail: Tail) -> None:
    content = os.urandom(5000).replace(b"\0", b"x")
    stream = random.Random(7)
    for number in range(50):
        file = tmp_path / f"{number}.wal"
        file.write_bytes(content)
        loss = lose(file, 2000, 5000, tail, stream)
        left = file.read_bytes()
        assert 2000 <= loss.kept < 5000
        assert left[: loss.kept] == content[: loss.kept]
        assert len(left) == (loss.kept if tail == "cut" else 5000)
        if tail == "zeros":
            assert left[loss.kept :].strip(b"\0") == b""
