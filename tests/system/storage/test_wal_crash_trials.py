"""Thousands of logs that lose power at any operation, and planted mistakes that must be caught.

A trial runs a log on `SimDisk` through several crashes. After each one the recovered state must be
the state after a prefix of what was appended, and no shorter than what a sync has confirmed.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from atleastonce.system.raft.log import LogStart
from atleastonce.system.raft.messages import Entry, HardState
from atleastonce.system.storage.errors import DiskFailedError
from atleastonce.system.storage.format import Record
from atleastonce.system.storage.manifest import Manifest, SealedSegment
from atleastonce.system.storage.recovery import Replay, Tail
from atleastonce.system.storage.segments import SegmentFiles
from atleastonce.system.storage.wal import Wal

from .crash_trials import Trial, ViolationError
from .fragile_disk import FragileDisk

TRIALS = 6_000
MUTANT_TRIALS = 1_500


def test_a_log_keeps_every_synced_record_through_any_crash() -> None:
    for seed in range(TRIALS):
        try:
            Trial(seed, Wal, FragileDisk).run()
        except ViolationError as violation:
            raise AssertionError(f"seed {seed}: {violation}") from violation


# --- mistakes that the trials must see ---


class DiskWithoutFsync(FragileDisk):
    def fsync(self, path: str) -> None:
        self._count()


class DiskWithoutDirectorySync(FragileDisk):
    def fsync_dir(self, directory: str) -> None:
        self._count()
        if directory == ".":
            super().fsync_dir(directory)


class FilesRenamedBeforeFsync(SegmentFiles):
    def make(self, name: str, content: Sequence[bytes]) -> None:
        disk, path = self._disk, self.path(name)
        disk.create(path + ".tmp")
        disk.append(path + ".tmp", content)
        disk.rename(path + ".tmp", path)
        disk.fsync_dir(self._directory)
        disk.fsync(path)


class RenameBeforeFsync(Wal):
    files_type = FilesRenamedBeforeFsync


class RotateWithoutSync(Wal):
    is_sealing = False

    def _seal(self) -> None:
        self.is_sealing = True
        super()._seal()
        self.is_sealing = False

    def _sync(self) -> None:
        if not self.is_sealing:
            super()._sync()


class RetryFsync(Wal):
    def _sync(self) -> None:
        try:
            super()._sync()
        except DiskFailedError:
            self._failure = None
            super()._sync()


class NoTailTruncate(Wal):
    def _make_durable(self, tail: Tail) -> None:
        tail.size = tail.end
        super()._make_durable(tail)

    def _write(self) -> int:
        data = b"".join(self._encoder.take())
        if data:
            with self._refusals("write", self._path):
                self._disk.pwrite(self._path, self._size, data)
            self._size += len(data)
        return len(data)


class AppendBehindTornTail(Wal):
    def _make_durable(self, tail: Tail) -> None:
        tail.size = tail.end
        super()._make_durable(tail)


class TrustTheCache(Wal):
    def _make_durable(self, tail: Tail) -> None:
        tail.unproved = b""
        super()._make_durable(tail)
        self._sync()


class ReplayWithoutChecksum(Replay):
    def decode(self, data: bytes, offset: int) -> Record | str:
        crc = int.from_bytes(data[offset : offset + 4], "little")
        length = int.from_bytes(data[offset + 8 : offset + 12], "little")
        end = offset + 32 + length + (-length % 8)
        if end > len(data) or int.from_bytes(data[offset + 16 : offset + 24], "little") != self.seq:
            return "does not fit"
        synced = int.from_bytes(data[offset + 24 : offset + 32], "little")
        payload = memoryview(data)[offset + 32 : offset + 32 + length]
        return Record(data[offset + 12], synced, payload, crc, end)


class NoChecksum(Wal):
    replay_type = ReplayWithoutChecksum


class RaiseOnTornTail(Replay):
    def voucher(self, data: bytes, offset: int, seed: int) -> tuple[int, int] | None:
        return self.seq + 1, self.seq


class TornTailTakenForRot(Wal):
    replay_type = RaiseOnTornTail


class MarkBeforeSync(Wal):
    def _sync(self) -> None:
        self._synced = self._encoder.next_seq - 1
        self._mark()
        super()._sync()


class HardStateLast(Wal):
    """Reorders a batch: the entries of a new term before the term."""

    def append(
        self,
        hard_state: HardState | None,
        truncate_from: int | None,
        entries: Sequence[Entry],
        reset: LogStart | None = None,
    ) -> None:
        super().append(None, truncate_from, entries, reset)
        super().append(hard_state, None, [])


class DeleteBeforeManifest(Wal):
    def _drop(self, segments: tuple[SealedSegment, ...]) -> int:
        self._delete(segment.name for segment in segments)
        kept, self._sealed = self._sealed, self._sealed[len(segments) :]
        if kept != self._sealed:
            self._write_manifest()
        return len(segments)


class FilesListedBeforeMade(SegmentFiles):
    manifest: Manifest | None = None

    def write_manifest(self, manifest: Manifest) -> None:
        self.manifest = manifest
        super().write_manifest(manifest)

    def make(self, name: str, content: Sequence[bytes]) -> None:
        if self.manifest is not None and name.endswith(".wal"):
            active = msgspec.structs.replace(self.manifest.active, name=name)
            super().write_manifest(msgspec.structs.replace(self.manifest, active=active))
        super().make(name, content)


class ListBeforeMake(Wal):
    files_type = FilesListedBeforeMade


class PurgeTooMuch(Wal):
    def purge(self, index: int) -> int:
        return super().purge(index + 3)


@pytest.mark.parametrize(
    ("wal_type", "disk_type"),
    [
        (Wal, DiskWithoutFsync),
        (Wal, DiskWithoutDirectorySync),
        (RenameBeforeFsync, FragileDisk),
        (RotateWithoutSync, FragileDisk),
        (RetryFsync, FragileDisk),
        (NoTailTruncate, FragileDisk),
        (AppendBehindTornTail, FragileDisk),
        (TrustTheCache, FragileDisk),
        (NoChecksum, FragileDisk),
        (TornTailTakenForRot, FragileDisk),
        (MarkBeforeSync, FragileDisk),
        (HardStateLast, FragileDisk),
        (DeleteBeforeManifest, FragileDisk),
        (ListBeforeMake, FragileDisk),
        (PurgeTooMuch, FragileDisk),
    ],
    ids=lambda kind: kind.__name__,
)
def test_a_planted_mistake_is_caught(wal_type: type[Wal], disk_type: type[FragileDisk]) -> None:
    def is_caught(seed: int) -> bool:
        try:
            Trial(seed, wal_type, disk_type).run()
        except ViolationError:
            return True
        return False

    assert any(is_caught(seed) for seed in range(MUTANT_TRIALS))
