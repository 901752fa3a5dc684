"""The store of checkpoints: all or nothing, growing, and damage that never passes for data."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
import pytest

from atleastonce.system.raft.members import Checkpoint, Members
from atleastonce.system.storage.checkpoint import (
    EMPTY,
    CheckpointStore,
    Row,
)
from atleastonce.system.storage.errors import DamagedCheckpointError, DiskFailedError

MEMBERS = Members(("n1", "n2"), ("n3",))


@contextmanager
def opened(
    file: Path, must_exist: bool = True, map_bytes_min: int = 1 << 20
) -> Iterator[CheckpointStore]:
    store = CheckpointStore.open(file, must_exist=must_exist, map_bytes_min=map_bytes_min)
    try:
        yield store
    finally:
        store.close()


def payloads(first: int, count: int, size: int = 100) -> list[Row]:
    return [
        (b"m/" + n.to_bytes(8, "big"), bytes([n % 256]) * size) for n in range(first, first + count)
    ]


def test_a_new_store_is_empty(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False) as store:
        assert store.position == EMPTY
        assert list(store.rows()) == []
        with pytest.raises(KeyError):
            store.read(b"a")


def test_what_was_committed_is_there_after_opening_again(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False) as store:
        store.commit([(b"b", b"2"), (b"a", b"1"), (b"c", b"")], Checkpoint(7, 2))
        store.commit(
            [(b"a", None), (b"d", b"4"), (b"d", b"5"), (b"x", None)], Checkpoint(9, 3, MEMBERS)
        )
        assert store.read(b"c") == b""
    with opened(tmp_path / "c") as store:
        assert store.position == Checkpoint(9, 3, MEMBERS)
        assert list(store.rows()) == [(b"b", b"2"), (b"c", b""), (b"d", b"5")]
        assert store.row_count == 3


def test_rows_can_leave_a_range_out(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False) as store:
        store.commit([(b"a", b"1"), *payloads(0, 500), (b"z", b"2")], Checkpoint(1, 1))
        assert [key for key, _ in store.rows(without=b"m/")] == [b"a", b"z"]
        assert len(list(store.rows())) == 502


def test_the_map_grows_while_others_read(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False, map_bytes_min=1 << 20) as store:
        store.commit(payloads(0, 10), Checkpoint(1, 1))
        ended = threading.Event()
        seen: list[int] = []

        def look() -> None:
            while not ended.is_set():
                seen.append(len(store.read(payloads(3, 1)[0][0])))

        reader = threading.Thread(target=look)
        reader.start()
        for turn in range(4):
            store.commit(payloads(turn * 1000, 1000, 1000), Checkpoint(2 + turn, 1))
        ended.set()
        reader.join()
        assert set(seen) <= {100, 1000}
        assert store.row_count == 4000
        assert store.used_bytes > 4 << 20


def test_rows_that_are_read_are_of_one_commit(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False, map_bytes_min=1 << 26) as store:
        store.commit(payloads(0, 100), Checkpoint(1, 1))
        reading = store.rows()
        next(reading)
        store.commit([(key, None) for key, _ in payloads(50, 50)], Checkpoint(2, 1))
        assert len(list(reading)) == 99
        assert len(list(store.rows())) == 50


def test_a_copy_is_one_commit_although_commits_go_on(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False, map_bytes_min=1 << 28) as store:
        store.commit(payloads(0, 20_000), Checkpoint(1, 1))
        copying = threading.Thread(target=store.copy_to, args=(tmp_path / "copy",))
        copying.start()
        for turn in range(2, 10):
            store.commit(payloads(20_000 * turn, 20_000), Checkpoint(turn, 1))
        copying.join()
    with opened(tmp_path / "copy") as copy:
        assert copy.row_count == 20_000 * (1 if copy.position.index == 1 else copy.position.index)
        assert len(list(copy.rows())) == copy.row_count


def test_a_position_never_goes_back(tmp_path: Path) -> None:
    with opened(tmp_path / "c", must_exist=False) as store:
        store.commit([], Checkpoint(5, 1))
        with pytest.raises(AssertionError, match="checkpoint at 4 after one at 5"):
            store.commit([], Checkpoint(4, 1))


_CHILD = """
import os, sys
from pathlib import Path
from atleastonce.system.raft.members import Checkpoint
from atleastonce.system.storage.checkpoint import CheckpointStore
store = CheckpointStore.open(Path(sys.argv[1]))
turn = store.position.index
while True:
    turn += 1
    store.commit([(b"k%d" % n, b"%d" % turn) for n in range(200)], Checkpoint(turn, 1))
    os.write(1, b"%d\\n" % turn)
"""


def test_a_kill_in_a_commit_leaves_the_last_one_or_this_one(tmp_path: Path) -> None:
    confirmed = 0
    for _ in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(tmp_path / "c")], stdout=subprocess.PIPE
        ) as child:
            assert child.stdout is not None
            for _ in range(random.Random(confirmed).randrange(3, 30)):
                confirmed = int(child.stdout.readline())
            child.send_signal(signal.SIGKILL)
            for line in child.stdout:
                confirmed = int(line)
        with opened(tmp_path / "c") as store:
            assert store.position.index in (confirmed, confirmed + 1)
            stated = str(store.position.index).encode()
            assert {value for _, value in store.rows()} == {stated}


@pytest.fixture
def closed(tmp_path: Path) -> Path:
    """A store that was closed; its file."""
    with opened(tmp_path / "c", must_exist=False) as store:
        store.commit(payloads(0, 2000), Checkpoint(3, 1))
    return tmp_path / "c"


def refusal(file: Path) -> DamagedCheckpointError:
    with pytest.raises(DamagedCheckpointError) as caught, opened(file) as store:
        list(store.rows())
    return caught.value


def test_a_missing_store_is_refused_where_one_must_be(tmp_path: Path) -> None:
    found = refusal(tmp_path / "c")
    assert found.reason == "the store is missing"
    assert found.file == str(tmp_path / "c")
    assert "replace it by a node of another name" in found.remedy


@pytest.mark.parametrize("size", [0, 100, 8192, 50_000])
def test_a_cut_store_is_refused_and_kills_nobody(closed: Path, size: int) -> None:
    os.truncate(closed, size)
    assert "the store" in refusal(closed).reason


def test_a_flipped_bit_is_refused_or_changes_nothing(closed: Path) -> None:
    data = (closed).read_bytes()
    with opened(closed) as store:
        rows = list(store.rows())
    chance = random.Random(1)
    refused = 0
    for _ in range(300):
        rotten = bytearray(data)
        rotten[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (closed).write_bytes(rotten)
        try:
            with opened(closed) as store:
                assert list(store.rows()) == rows
                assert store.position == Checkpoint(3, 1)
        except DamagedCheckpointError:
            refused += 1
    assert refused > 150


def test_a_row_that_someone_changed_is_refused_when_it_is_read(closed: Path) -> None:
    with lmdb.open(str(closed), subdir=False, max_dbs=2) as environment:
        rows = environment.open_db(b"rows")
        with environment.begin(write=True, db=rows) as transaction:
            transaction.put(payloads(7, 1)[0][0], b"\0\0\0\0not what was stored")
    with opened(closed) as store:
        with pytest.raises(DamagedCheckpointError, match="fails its checksum"):
            store.read(payloads(7, 1)[0][0])
        assert store.check_some(None, 7) == payloads(6, 1)[0][0]
        with pytest.raises(DamagedCheckpointError, match="fails its checksum"):
            store.check_some(payloads(6, 1)[0][0], 7)


def test_a_row_that_someone_deleted_is_missed(closed: Path) -> None:
    with lmdb.open(str(closed), subdir=False, max_dbs=2) as environment:
        rows = environment.open_db(b"rows")
        with environment.begin(write=True, db=rows) as transaction:
            transaction.delete(payloads(7, 1)[0][0])
    assert refusal(closed).reason == "the store has 1999 of 2000 rows"


def test_the_scrub_sees_every_row_once(closed: Path) -> None:
    with opened(closed) as store:
        steps, last = 0, store.check_some(None, 300)
        while last is not None:
            steps, last = steps + 1, store.check_some(last, 300)
        assert steps == 6


def test_a_full_disk_refuses_the_commit_and_keeps_the_last_one(closed: Path) -> None:
    size = (closed).stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(closed, map_bytes_min=1 << 24) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 8192, before[1]))
        try:
            with pytest.raises(
                DiskFailedError, match=r"commit of .*(Input/output error|File too large)"
            ):
                store.commit(payloads(5000, 5000), Checkpoint(4, 1))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with opened(closed) as store:
        assert store.position == Checkpoint(3, 1)
        store.commit(payloads(5000, 5000), Checkpoint(4, 1))
        assert len(list(store.rows())) == 7000


def test_a_store_that_ends_early_is_taken_if_nothing_is_missing_and_else_refused(
    tmp_path: Path,
) -> None:
    file = tmp_path / "c"
    with opened(file, must_exist=False) as store:
        store.commit(payloads(0, 2000), Checkpoint(1, 1))
        store.commit([(key, None) for key, _ in payloads(10, 1990)], Checkpoint(2, 1))
        for index in range(3, 12):
            # What the last pages hold moves to freed ones further in front.
            store.commit(payloads(0, 10, 100 + index), Checkpoint(index, 1))
        rows = list(store.rows())
    whole = file.read_bytes()
    taken = refused = 0
    for pages in range(1, len(whole) // 4096 - 2):
        file.write_bytes(whole[: -4096 * pages])
        try:
            with opened(file, must_exist=True) as store:
                assert list(store.rows()) == rows
                taken += 1
        except DamagedCheckpointError:
            refused += 1
    assert taken > 0
    assert refused > 0
    assert list(tmp_path.glob(".short-*")) == []


def test_a_store_that_ends_in_the_middle_of_a_value_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "c"
    with opened(file, must_exist=False) as store:
        store.commit(payloads(1, 3, 1 << 20), Checkpoint(1, 1))
    whole = file.read_bytes()
    for pages in (20, 100):
        file.write_bytes(whole[: -4096 * pages])
        with pytest.raises(DamagedCheckpointError), opened(file, must_exist=True):
            pass
