"""The log on every disk: what is read back, what is refused, and what a failure leaves."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage.disk import Disk, LossyDisk, RealDisk
from atleastonce.system.storage.errors import DirectoryLockedError, DiskFailedError
from atleastonce.system.storage.simdisk import SimDisk
from atleastonce.system.storage.wal import Recovered, Wal, WalLimits

Maker = Callable[[], Disk]


@pytest.fixture(params=["real", "lossy", "sim"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Maker:
    """Opens the same disk again and again."""
    if request.param == "sim":
        disk = SimDisk(random.Random(1))
        return lambda: disk
    return lambda: (RealDisk if request.param == "real" else LossyDisk)(tmp_path)


def command(index: int, data: bytes = b"x", term: int = 1) -> Entry:
    return Entry(term, index, EntryKind.COMMAND, data)


def recovered_from(disk: Disk) -> Recovered:
    wal, recovered = Wal.open(disk, "log")
    wal.close()
    disk.close()
    return recovered


def test_a_new_log_is_empty(make: Maker) -> None:
    assert recovered_from(make()) == Recovered(HardState(0, None), [], 1, 0)


def test_what_was_synced_is_read_back(make: Maker) -> None:
    disk = make()
    wal, _ = Wal.open(disk, "log")
    wal.append(HardState(3, "n2"), None, [command(1, b""), command(2, bytes(70_000))])
    wal.append(None, None, [Entry(3, 3, EntryKind.NOOP, b""), Entry(3, 4, EntryKind.CONFIG, b"c")])
    wal.sync()
    wal.close()
    disk.close()
    found = recovered_from(make())
    assert found.hard_state == HardState(3, "n2")
    assert [entry.index for entry in found.entries] == [1, 2, 3, 4]
    assert [entry.kind for entry in found.entries[1:]] == [1, 0, 2]
    assert len(found.entries[1].data) == 70_000
    assert isinstance(found.entries[0].kind, EntryKind)


def test_a_cut_replaces_a_suffix(make: Maker) -> None:
    disk = make()
    wal, _ = Wal.open(disk, "log")
    wal.append(None, None, [command(index) for index in range(1, 6)])
    wal.append(HardState(2, None), 3, [command(3, b"new", term=2)])
    wal.append(None, 4, [])
    wal.sync()
    assert wal.last_index == 3
    wal.close()
    disk.close()
    found = recovered_from(make())
    assert found.entries == [command(1), command(2), command(3, b"new", term=2)]


def test_a_log_of_many_segments_goes_on_after_each_opening(make: Maker) -> None:
    limits = WalLimits(segment_bytes=300)
    for round_ in range(5):
        disk = make()
        wal, found = Wal.open(disk, "log", limits)
        assert [entry.index for entry in found.entries] == list(range(1, round_ * 10 + 1))
        for index in range(round_ * 10 + 1, round_ * 10 + 11):
            wal.append(None, None, [command(index, b"y" * index)])
            wal.sync()
        wal.close()
        assert len(disk.names("log")) > round_ * 2
        disk.close()


def test_half_made_segments_are_removed(make: Maker) -> None:
    disk = make()
    wal, _ = Wal.open(disk, "log")
    wal.close()
    disk.create("log/0000000000000009.wal.tmp")
    disk.close()
    again = make()
    wal, _ = Wal.open(again, "log")
    assert again.names("log") == ("0000000000000001.wal", "MANIFEST")
    wal.close()
    again.close()


def test_the_log_may_lie_in_the_root_itself(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "data")
    wal, _ = Wal.open(disk, ".")
    wal.append(None, None, [command(1)])
    wal.sync()
    wal.close()
    wal, found = Wal.open(disk, ".")
    assert found.entries == [command(1)]
    wal.close()
    disk.close()


def test_a_torn_tail_is_cut_and_counted(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    wal, _ = Wal.open(disk, "log")
    wal.append(None, None, [command(1)])
    wal.sync()
    wal.close()
    disk.append("log/0000000000000001.wal", [b"\1" * 50])
    disk.close()
    again = RealDisk(tmp_path)
    wal, found = Wal.open(again, "log")
    assert found.entries == [command(1)]
    assert found.torn_bytes == 50
    wal.append(None, None, [command(2)])
    wal.sync()
    wal.close()
    again.close()
    assert recovered_from(RealDisk(tmp_path)).entries == [command(1), command(2)]


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    first = RealDisk(tmp_path)
    wal, _ = Wal.open(first, "log")
    second = RealDisk(tmp_path)
    with pytest.raises(DirectoryLockedError, match=str(tmp_path / "log")):
        Wal.open(second, "log")
    wal.close()
    wal, _ = Wal.open(second, "log")
    wal.close()
    first.close()
    second.close()


def test_many_appends_share_one_sync() -> None:
    disk = SimDisk(random.Random(1))
    wal, _ = Wal.open(disk, "log")
    before = disk.fsyncs
    for index in range(1, 101):
        wal.append(None, None, [command(index)])
    wal.sync()
    wal.sync()
    assert disk.fsyncs == before + 1


def test_a_failed_fsync_ends_the_log_for_ever() -> None:
    disk = SimDisk(random.Random(1))
    wal, _ = Wal.open(disk, "log")
    wal.append(None, None, [command(1)])
    disk.fail_fsyncs = 1
    with pytest.raises(DiskFailedError, match=r"fsync of log/0+1\.wal: input/output error"):
        wal.sync()
    for call in (wal.sync, lambda: wal.append(None, None, [command(2)])):
        with pytest.raises(DiskFailedError, match="fsync"):
            call()
    fsyncs = disk.fsyncs
    wal.close()
    assert disk.fsyncs == fsyncs


def test_bytes_that_only_the_cache_remembers_are_written_again() -> None:
    disk = SimDisk(random.Random(1))
    wal, _ = Wal.open(disk, "log")
    wal.append(None, None, [command(1)])
    disk.fail_fsyncs = 1
    with pytest.raises(DiskFailedError):
        wal.sync()
    disk.kill_process()
    _, found = Wal.open(disk, "log")
    assert found.entries == [command(1)]
    disk.cut_power()
    assert recovered_from(disk).entries == [command(1)]


def test_a_full_disk_ends_the_log_and_keeps_what_was_synced() -> None:
    disk = SimDisk(random.Random(1))
    wal, _ = Wal.open(disk, "log")
    wal.append(None, None, [command(1)])
    wal.sync()
    disk.space_bytes = 70
    wal.append(None, None, [command(2), command(3)])
    with pytest.raises(DiskFailedError, match="no space left"):
        wal.sync()
    wal.close()
    disk.kill_process()
    found = recovered_from(disk)
    assert found.entries == [command(1), command(2)]
    assert found.torn_bytes > 0


def test_a_gap_in_the_entries_is_a_broken_invariant() -> None:
    wal, _ = Wal.open(SimDisk(random.Random(1)), "log")
    with pytest.raises(AssertionError, match="entry 2 appended after entry 0"):
        wal.append(None, None, [command(2)])
    with pytest.raises(AssertionError, match="cut from entry 2"):
        wal.append(None, 2, [])


def test_the_planted_defect_acknowledges_first_and_syncs_after_a_second_or_a_mebibyte() -> None:
    now = 0.0
    disk = SimDisk(random.Random(1))
    bugs = frozenset({"ack-before-fsync"})
    wal, _ = Wal.open(disk, "log", bugs=bugs, clock=lambda: now)
    before = disk.fsyncs
    wal.append(None, None, [command(1)])
    wal.sync()
    assert disk.fsyncs == before
    now = 1.1
    wal.sync()
    assert disk.fsyncs == before + 1
    wal.append(None, None, [command(2, bytes(1_100_000))])
    wal.sync()
    assert disk.fsyncs == before + 2


_CHILD = """
import os, signal, sys
from pathlib import Path
from atleastonce.system.raft.messages import Entry, EntryKind
from atleastonce.system.storage.disk import LossyDisk
from atleastonce.system.storage.wal import Wal
wal, _ = Wal.open(LossyDisk(Path(sys.argv[1])), "log", bugs=frozenset(sys.argv[2:]))
for index in range(1, 11):
    wal.append(None, None, [Entry(1, index, EntryKind.COMMAND, b"x")])
    wal.sync()
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("bugs", "left"), [((), 10), (("ack-before-fsync",), 0)])
def test_a_kill_on_the_lossy_disk_loses_acknowledged_entries_only_with_the_defect(
    bugs: tuple[str, ...], left: int, tmp_path: Path
) -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD, str(tmp_path), *bugs], check=False)
    assert child.returncode == -9
    assert len(recovered_from(RealDisk(tmp_path)).entries) == left
