"""Thousands of logs that lose power at any operation, and planted mistakes that must be caught.

A trial runs a log on `SimDisk` through several crashes. After each one the recovered state must be
the state after a prefix of what was appended, and no shorter than what a sync has confirmed.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage.errors import DamagedLogError, DiskFailedError
from atleastonce.system.storage.format import Encoder, Record, SegmentHeader, segment_name
from atleastonce.system.storage.recovery import Recovered, Replay, Tail
from atleastonce.system.storage.simdisk import SimDisk
from atleastonce.system.storage.wal import Wal, WalLimits, _DiskErrors

TRIALS = 6_000
MUTANT_TRIALS = 1_500

Change = HardState | int | Entry
State = tuple[HardState, list[Entry]]


class PowerLostError(Exception):
    """The planned operation was reached."""


class ViolationError(Exception):
    """The log broke its promise."""


class FragileDisk(SimDisk):
    """Loses power before the operation after `operations_left` more."""

    operations_left = 1 << 30

    def _count(self) -> None:
        self.operations_left -= 1
        if self.operations_left < 0:
            raise PowerLostError

    def create(self, path: str) -> None:
        self._count()
        super().create(path)

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        self._count()
        super().pwrite(path, offset, data)

    def truncate(self, path: str, size: int) -> None:
        self._count()
        super().truncate(path, size)

    def fsync(self, path: str) -> None:
        self._count()
        super().fsync(path)

    def fsync_dir(self, directory: str) -> None:
        self._count()
        super().fsync_dir(directory)

    def rename(self, old: str, new: str) -> None:
        self._count()
        super().rename(old, new)


@dataclass
class Model:
    """What the log must hold: a base state, what was appended since, and how much is confirmed."""

    base: State = field(default_factory=lambda: (HardState(0, None), []))
    changes: list[Change] = field(default_factory=list)
    confirmed: int = 0
    lost: list[Change] = field(default_factory=list)

    def recover(self, found: Recovered) -> None:
        hard_state, entries = self.base[0], list(self.base[1])
        position = 0
        while True:
            same = hard_state == found.hard_state and entries == found.entries
            if same and position >= self.confirmed:
                break
            if position == len(self.changes):
                raise ViolationError(
                    f"recovered {len(found.entries)} entries and {found.hard_state}: no state "
                    f"after {self.confirmed} to {len(self.changes)} of the changes"
                )
            change = self.changes[position]
            if isinstance(change, HardState):
                hard_state = change
            elif isinstance(change, Entry):
                entries.append(change)
            else:
                del entries[change - 1 :]
            position += 1
        self.lost = self.changes[position:]
        self.base = (hard_state, entries)
        self.changes = []
        self.confirmed = 0


class Trial:
    """One log, one disk, a few crashes, all from one seed."""

    def __init__(self, seed: int, wal_type: type[Wal], disk_type: type[FragileDisk]) -> None:
        self.random = random.Random(seed)
        self.disk = disk_type(random.Random(seed + 1))
        self.wal_type = wal_type
        self.limits = WalLimits(
            segment_bytes=self.random.choice((150, 700, 2_500)),
            buffer_bytes=self.random.choice((1, 300, 5_000)),
        )
        self.salt = self.random.randrange(1 << 32)
        self.model = Model()
        self.term = 0

    def run(self) -> None:
        for _ in range(3):
            self.disk.operations_left = self.random.choice((1 << 30, self.random.randrange(60)))
            self.disk.fail_fsyncs = int(self.random.randrange(20) == 0)
            with contextlib.suppress(PowerLostError, DiskFailedError):
                self._live()
            self.disk.operations_left = 1 << 30
            self.disk.fail_fsyncs = 0
            if self.random.randrange(4):
                self.disk.cut_power()
            else:
                self.disk.kill_process()
        self._open()

    def _open(self) -> Wal:
        try:
            wal, recovered = self.wal_type.open(
                self.disk, "log", self.limits, clock=lambda: 0.0, salt=self.salt
            )
        except DamagedLogError as refusal:
            raise ViolationError(f"refused after a crash: {refusal}") from None
        self.model.recover(recovered)
        return wal

    def _live(self) -> None:
        wal = self._open()
        length = len(self.model.base[1])
        if self.model.lost and self.random.randrange(2):
            for change in self.model.lost:
                length = self._append(wal, [change], length)
                if self.random.randrange(3) == 0:
                    self._sync(wal)
        for _ in range(self.random.randrange(12)):
            length = self._append(wal, self._changes(length), length)
            if self.random.randrange(25) == 0:
                self.disk.fail_fsyncs = 1
            if self.random.randrange(40) == 0:
                self.disk.space_bytes = self.random.randrange(2_000)
            if self.random.randrange(2):
                self._sync(wal)
        if self.random.randrange(5) == 0:
            wal.close()
            self.model.confirmed = len(self.model.changes)

    def _changes(self, length: int) -> list[Change]:
        changes: list[Change] = []
        if self.random.randrange(4) == 0:
            self.term += 1
            changes.append(HardState(self.term, self.random.choice((None, "n1", "n2"))))
        if length and self.random.randrange(6) == 0:
            length -= self.random.randrange(min(length, 3))
            changes.append(length)
            length -= 1
        for _ in range(self.random.randrange(4)):
            length += 1
            data = self.random.randbytes(self.random.choice((0, 3, 40, 300, 900)))
            changes.append(Entry(self.term, length, EntryKind.COMMAND, data))
        return changes

    def _append(self, wal: Wal, changes: Sequence[Change], length: int) -> int:
        # Appended in part still counts: the log may keep any prefix of it.
        self.model.changes.extend(changes)
        hard_state = next((change for change in changes if isinstance(change, HardState)), None)
        cut = next((change for change in changes if isinstance(change, int)), None)
        entries = [change for change in changes if isinstance(change, Entry)]
        wal.append(hard_state, cut, entries)
        return (length if cut is None else cut - 1) + len(entries)

    def _sync(self, wal: Wal) -> None:
        try:
            wal.sync()
        except DiskFailedError:
            with pytest.raises(DiskFailedError):
                wal.sync()
            with pytest.raises(DiskFailedError):
                wal.append(None, None, [])
            raise
        self.model.confirmed = len(self.model.changes)


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


class RenameBeforeFsync(Wal):
    def _begin_segment(self, seed: int) -> None:
        first_seq = self._encoder.next_seq
        disk = self._disk
        self._path = f"{self._directory}/{segment_name(first_seq)}"
        header = SegmentHeader(first_seq, first_seq - 1, seed).encode()
        with _DiskErrors(self, "make", self._path):
            disk.create(self._path + ".tmp")
            disk.append(self._path + ".tmp", [header])
            disk.rename(self._path + ".tmp", self._path)
            disk.fsync_dir(self._directory)
            disk.fsync(self._path)
        self._size = len(header)
        self._encoder = Encoder(seed, seed, first_seq)


class RotateWithoutSync(Wal):
    def _rotate(self) -> None:
        self._flush()
        self._begin_segment(self._encoder.chain)


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
            with _DiskErrors(self, "write", self._path):
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
        self, hard_state: HardState | None, truncate_from: int | None, entries: Sequence[Entry]
    ) -> None:
        super().append(None, truncate_from, entries)
        super().append(hard_state, None, [])


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
