"""Pages of the checkpoint leave this process's memory and come back when they are read."""

from __future__ import annotations

from pathlib import Path

from atleastonce.system.raft.members import Checkpoint
from atleastonce.system.storage.checkpoint import CheckpointStore
from atleastonce.system.storage.mapping import let_go_of_pages


def checkpoint(index: int) -> Checkpoint:
    return Checkpoint(index, 1)


def resident_kib(file: Path) -> int:
    """What /proc says is resident of a mapped file."""
    found = False
    for line in Path("/proc/self/smaps").read_text(encoding="utf-8").splitlines():
        if line.endswith(str(file.resolve())):
            found = True
        elif found and line.startswith("Rss:"):
            return int(line.split()[1])
    raise AssertionError(f"{file} is not mapped")


def test_pages_leave_and_come_back(tmp_path: Path) -> None:
    store = CheckpointStore.open(tmp_path / "data.mdb")
    rows = [(b"k%05d" % number, b"v" * 500) for number in range(4000)]
    store.commit(rows, checkpoint(1))
    assert list(store.rows()) == rows
    file = tmp_path / "data.mdb"
    assert resident_kib(file) > 1000
    let_go_of_pages(file)
    assert resident_kib(file) < 100
    assert store.read(b"k00077") == b"v" * 500
    store.commit([(b"k00077", None)], checkpoint(2))
    assert list(store.rows()) == [row for row in rows if row[0] != b"k00077"]
    store.close()


def test_commits_of_a_large_store_leave_no_pages_behind(tmp_path: Path) -> None:
    store = CheckpointStore.open(tmp_path / "data.mdb", mapped_bytes_max=1 << 20)
    rows = [(b"k%05d" % number, b"v" * 500) for number in range(4000)]
    store.commit(rows, checkpoint(1))
    list(store.rows())
    store.commit([(b"k", b"v")], checkpoint(2))
    assert resident_kib(tmp_path / "data.mdb") < 100
    store.close()


def test_a_file_that_is_not_mapped_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "plain"
    file.write_bytes(b"x")
    let_go_of_pages(file)
    assert file.read_bytes() == b"x"
