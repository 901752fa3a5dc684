"""A disk that refuses at any act: nothing synced is lost, and the log opens once it works again."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path

import pytest

from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage.disk import RealDisk
from atleastonce.system.storage.wal import DiskFailedError, Wal, WalLimits

from .failing_disk import FailingDisk

LIMITS = WalLimits(segment_bytes=2000, buffer_bytes=700)
ACTS_MAX = 120


def entry(index: int) -> Entry:
    return Entry(1, index, EntryKind.COMMAND, bytes([index % 251]) * 200)


def write_until_refused(disk: FailingDisk) -> tuple[list[int], DiskFailedError | None]:
    """Append and sync until the disk refuses; the entries whose sync returned."""
    synced: list[int] = []
    try:
        log, _ = Wal.open(disk, "log", LIMITS)
        for index in range(1, 31):
            state = HardState(index, "n1") if index % 7 == 0 else None
            log.append(state, None, [entry(index)])
            if index % 2 == 0:
                log.sync()
                synced = list(range(1, index + 1))
    except DiskFailedError as error:
        return synced, error
    finally:
        disk.close()
    return synced, None


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EFBIG])
def test_what_was_synced_is_there_when_the_disk_works_again(tmp_path: Path, error: int) -> None:
    refused = 0
    for fails_at in range(1, ACTS_MAX):
        root = tmp_path / str(fails_at)
        disk = FailingDisk(root, fails_at, error)
        synced, failure = write_until_refused(disk)
        if failure is None:
            assert not disk.has_failed
            break
        refused += 1
        assert failure.cause
        assert failure.operation
        again = RealDisk(root)
        log, recovered = Wal.open(again, "log", LIMITS)
        found = [entry.index for entry in recovered.entries]
        assert found[: len(synced)] == synced, f"act {fails_at}"
        assert recovered.entries == [entry(index) for index in found]
        log.append(None, None, [entry(len(found) + 1)])
        log.sync()
        log.close()
        again.close()
    assert refused > 50


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_boot_on_a_disk_that_is_still_full_refuses_and_loses_nothing(
    tmp_path: Path, error: int
) -> None:
    synced, failure = write_until_refused(FailingDisk(tmp_path, 40, error))
    assert failure is not None
    for fails_at in range(1, 30):
        disk = FailingDisk(tmp_path, fails_at, error)
        with contextlib.suppress(DiskFailedError):
            log, _ = Wal.open(disk, "log", LIMITS)
            log.close()
        disk.close()
    again = RealDisk(tmp_path)
    _, recovered = Wal.open(again, "log", LIMITS)
    assert [entry.index for entry in recovered.entries][: len(synced)] == synced
    again.close()
