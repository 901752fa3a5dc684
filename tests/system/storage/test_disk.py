"""What the real disk, the lossy disk and the simulated disk keep and lose."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.system.storage.disk import Disk, LossyDisk, RealDisk
from atleastonce.system.storage.errors import DirectoryLockedError
from atleastonce.system.storage.simdisk import SimDisk

KINDS = ("real", "lossy", "sim")


def make_disk(kind: str, root: Path) -> Disk:
    if kind == "sim":
        return SimDisk(random.Random(1))
    return RealDisk(root) if kind == "real" else LossyDisk(root)


@pytest.mark.parametrize("kind", KINDS)
def test_every_disk_serves_what_was_written(kind: str, tmp_path: Path) -> None:
    disk = make_disk(kind, tmp_path / "root")
    disk.make_directory("d")
    disk.make_directory("d")
    disk.create("d/a")
    disk.append("d/a", [b"hello ", b"", b"world"])
    disk.pwrite("d/a", 0, b"J")
    disk.pwrite("d/a", 13, b"!")
    assert disk.read("d/a") == b"Jello world\0\0!"
    disk.truncate("d/a", 5)
    disk.append("d/a", [b"y"])
    assert disk.size("d/a") == 6
    disk.rename("d/a", "d/b")
    assert disk.read("d/b") == b"Jelloy"
    disk.fsync("d/b")
    disk.fsync_dir("d")
    assert disk.names("d") == ("b",)
    disk.unlink("d/b")
    assert disk.names("d") == ()
    with pytest.raises(FileNotFoundError):
        disk.read("d/b")
    disk.close()


@pytest.mark.parametrize("kind", KINDS)
def test_create_refuses_a_name_that_is_taken(kind: str, tmp_path: Path) -> None:
    disk = make_disk(kind, tmp_path)
    disk.create("a")
    with pytest.raises(FileExistsError):
        disk.create("a")
    disk.close()


@pytest.mark.parametrize("kind", KINDS)
def test_the_three_disks_agree_on_any_sequence_of_operations(kind: str, tmp_path: Path) -> None:
    chance = random.Random(5)
    disk = make_disk(kind, tmp_path)
    disk.create("a")
    expected = bytearray()
    for _ in range(200):
        action, data = chance.randrange(5), chance.randbytes(chance.randrange(9))
        if action == 0 and data:
            offset = chance.randrange(40)
            expected.extend(bytes(max(0, offset - len(expected))))
            expected[offset : offset + len(data)] = data
            disk.pwrite("a", offset, data)
        elif action == 1:
            size = chance.randrange(40)
            expected[size:] = bytes(max(0, size - len(expected)))
            disk.truncate("a", size)
        elif action == 2:
            disk.fsync("a")
        else:
            expected += data
            disk.append("a", [data])
        assert disk.read("a") == expected
        assert disk.size("a") == len(expected)
    disk.close()


@pytest.mark.parametrize("path", ["/etc/passwd", "../up", "a/../../up"])
def test_a_path_that_leaves_the_root_is_refused(path: str, tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    with pytest.raises(ValueError, match="leaves the disk's root"):
        disk.create(path)
    with pytest.raises(ValueError, match="leaves the disk's root"):
        disk.read(path)


def test_a_link_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes(b"x")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="symbolic"):
        RealDisk(tmp_path / "root").append("a", [b"y"])


def test_many_and_large_buffers_are_written_in_order(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    disk.create("a")
    buffers = [bytes([k % 251]) * 300 for k in range(3_000)]
    disk.append("a", buffers)
    assert (tmp_path / "a").read_bytes() == b"".join(buffers)
    disk.close()


def test_a_second_lock_of_a_directory_names_it(tmp_path: Path) -> None:
    first, second = RealDisk(tmp_path), RealDisk(tmp_path)
    first.make_directory("data")
    first.lock("data")
    with pytest.raises(DirectoryLockedError, match=f"{tmp_path}/data is in use by another process"):
        second.lock("data")
    first.unlock("data")
    second.lock("data")
    second.close()
    first.lock("data")
    first.close()


_CHILD = """
import os, signal, sys
from pathlib import Path
from atleastonce.system.storage.disk import LossyDisk, RealDisk
disk = {"real": RealDisk, "lossy": LossyDisk}[sys.argv[1]](Path(sys.argv[2]))
disk.create("a")
disk.append("a", [b"synced,"])
disk.fsync("a")
disk.append("a", [b"not synced"])
disk.pwrite("a", 0, b"S")
assert disk.read("a") == b"Synced,not synced"
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("kind", "left"), [("real", b"Synced,not synced"), ("lossy", b"synced,")])
def test_a_killed_process_loses_unsynced_bytes_on_the_lossy_disk_only(
    kind: str, left: bytes, tmp_path: Path
) -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD, kind, str(tmp_path)], check=False)
    assert child.returncode == -9
    assert (tmp_path / "a").read_bytes() == left


def test_a_power_cut_treats_each_sector_on_its_own() -> None:
    seen: set[bytes] = set()
    for seed in range(200):
        disk = SimDisk(random.Random(seed))
        disk.create("a")
        disk.fsync_dir(".")
        disk.append("a", [b"A" * 512 + b"B" * 512])
        disk.cut_power()
        seen.add(disk.read("a"))
    empty, zeros = b"", bytes(512)
    a, b = b"A" * 512, b"B" * 512
    assert seen == {empty, a, zeros, a + b, a + zeros, zeros + b, zeros + zeros}


def test_a_power_cut_keeps_a_prefix_of_the_changes_to_a_directory() -> None:
    seen: set[tuple[str, ...]] = set()
    for seed in range(100):
        disk = SimDisk(random.Random(seed))
        for name in "abc":
            disk.create(name)
        disk.rename("a", "z")
        disk.cut_power()
        seen.add(disk.names("."))
    assert seen == {(), ("a",), ("a", "b"), ("a", "b", "c"), ("b", "c", "z")}


def test_a_failed_fsync_drops_the_bytes_and_hides_it() -> None:
    disk = SimDisk(random.Random(1))
    disk.create("a")
    disk.fsync_dir(".")
    disk.append("a", [b"gone"])
    disk.fail_fsyncs = 1
    with pytest.raises(OSError, match="input/output error"):
        disk.fsync("a")
    assert disk.read("a") == b"gone"
    disk.fsync("a")
    disk.cut_power()
    assert disk.read("a") == b""


def test_a_full_disk_takes_the_first_bytes_of_a_write() -> None:
    disk = SimDisk(random.Random(1))
    disk.create("a")
    disk.space_bytes = 3
    with pytest.raises(OSError, match="no space"):
        disk.append("a", [b"abcdef"])
    assert disk.read("a") == b"abc"


def test_a_flipped_bit_shows_in_cache_and_after_a_power_cut() -> None:
    disk = SimDisk(random.Random(1))
    disk.create("a")
    disk.append("a", [b"ab"])
    disk.fsync("a")
    disk.fsync_dir(".")
    disk.flip_bit("a", 8)
    assert disk.read("a") == b"ac"
    disk.cut_power()
    assert disk.read("a") == b"ac"
