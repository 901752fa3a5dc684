"""The folder of checkpoints: whenever the power goes, the old store is in force or the new one."""

from __future__ import annotations

import contextlib
import random

import pytest

from atleastonce.system.storage.checkpoint_folder import CheckpointFolder, Offer, Pointer
from atleastonce.system.storage.errors import DamagedCheckpointError, DirectoryLockedError
from atleastonce.system.storage.segments import SegmentFiles
from atleastonce.system.storage.simdisk import SimDisk

from .fragile_disk import FragileDisk, PowerLostError

CHUNK_BYTES = 700
CONTENT = random.Random(3).randbytes(3000)
OFFER = Offer(9, 2, len(CONTENT), "ab" * 32, CHUNK_BYTES)


def first_store(disk: SimDisk, folder: CheckpointFolder) -> None:
    pointer = folder.begin()
    SegmentFiles(disk, "checkpoint").make(pointer.file, [b"the first store"])


def in_force(disk: SimDisk) -> tuple[Pointer | None, bytes]:
    folder = CheckpointFolder(disk)
    folder.open()
    content = b""
    if folder.has_store:
        assert folder.pointer is not None
        content = disk.read(f"checkpoint/{folder.pointer.file}")
    folder.close()
    return folder.pointer, content


def receive_and_activate(disk: SimDisk) -> None:
    """What a follower does: open, receive what is missing, activate, let the log follow, sweep."""
    folder = CheckpointFolder(disk)
    folder.open()
    folder.sweep()
    assert folder.pointer is not None
    if folder.pointer.generation == 1:
        have = folder.resume(OFFER)
        assert disk.read("checkpoint/incoming") == CONTENT[:have]
        for at in range(have, len(CONTENT), CHUNK_BYTES):
            folder.receive(CONTENT[at : at + CHUNK_BYTES])
        folder.activate()
    folder.settle()
    folder.drop_incoming()
    folder.sweep()
    folder.close()


def test_the_power_may_go_at_any_step_of_receiving_and_activating() -> None:
    seen: set[int] = set()
    for crash in range(60):
        for seed in range(12):
            disk = FragileDisk(random.Random(seed))
            folder = CheckpointFolder(disk)
            folder.open()
            first_store(disk, folder)
            folder.close()
            disk.operations_left = crash
            with contextlib.suppress(PowerLostError):
                receive_and_activate(disk)
            disk.operations_left = 1 << 30
            disk.cut_power()
            pointer, content = in_force(disk)
            assert pointer is not None
            assert content == (b"the first store" if pointer.generation == 1 else CONTENT)
            seen.add(pointer.generation)
            receive_and_activate(disk)
            assert in_force(disk) == (Pointer(1, 2), CONTENT)
            assert disk.names("checkpoint") == ("00000002.mdb", "CURRENT")
    assert seen == {1, 2}


def test_the_power_may_go_at_any_step_of_beginning() -> None:
    for crash in range(20):
        for seed in range(12):
            disk = FragileDisk(random.Random(seed))
            disk.operations_left = crash
            with contextlib.suppress(PowerLostError):
                folder = CheckpointFolder(disk)
                folder.open()
                first_store(disk, folder)
            disk.operations_left = 1 << 30
            disk.cut_power()
            pointer, content = in_force(disk)
            assert pointer in (None, Pointer(1, 1))
            assert content in (b"", b"the first store")


def test_what_was_received_of_another_store_is_dropped() -> None:
    disk = SimDisk(random.Random(1))
    folder = CheckpointFolder(disk)
    folder.open()
    first_store(disk, folder)
    folder.resume(OFFER)
    folder.receive(CONTENT[:CHUNK_BYTES])
    folder.receive(CONTENT[CHUNK_BYTES : 2 * CHUNK_BYTES])
    assert folder.resume(OFFER) == CHUNK_BYTES
    assert folder.resume(Offer(10, 2, 3000, "cd" * 32, CHUNK_BYTES)) == 0
    assert disk.size("checkpoint/incoming") == 0


@pytest.mark.parametrize("byte", range(0, 60, 7))
def test_a_rotten_pointer_is_refused_by_name(byte: int) -> None:
    disk = SimDisk(random.Random(1))
    folder = CheckpointFolder(disk)
    folder.open()
    first_store(disk, folder)
    folder.close()
    disk.flip_bit("checkpoint/CURRENT", min(byte, disk.size("checkpoint/CURRENT") - 1) * 8 + 1)
    with pytest.raises(DamagedCheckpointError) as caught:
        CheckpointFolder(disk).open()
    assert caught.value.file == "checkpoint/CURRENT"


def test_a_second_process_is_refused() -> None:
    disk = SimDisk(random.Random(1))
    CheckpointFolder(disk).open()
    with pytest.raises(DirectoryLockedError):
        CheckpointFolder(disk).open()
