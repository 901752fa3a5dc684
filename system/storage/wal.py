"""The durable log of one node: term, vote and entries, in checksummed segments.

`append` buffers, `sync` makes durable: the caller appends for everyone who waits and syncs once.
A log is used by one thread at a time. Recovery is in `recovery.py`, the bytes in `format.py`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from ..bugs import NO_BUGS, Bugs
from ..raft.messages import Entry, HardState
from . import format as layout
from .disk import Disk
from .errors import DamagedLogError, DirectoryLockedError, DiskFailedError
from .recovery import Recovered, Replay, Tail

__all__ = [
    "DamagedLogError",
    "DirectoryLockedError",
    "DiskFailedError",
    "Recovered",
    "Wal",
    "WalLimits",
]

_MIB: Final = 1 << 20
_LAZY_SYNC_S: Final = 1.0
_LAZY_SYNC_BYTES: Final = _MIB


@dataclass(frozen=True, slots=True)
class WalLimits:
    """Sizes of a log.

    Attributes:
        segment_bytes: A segment that has reached this is closed and a new one begun.
        buffer_bytes: Appended bytes are written, not synced, when this many have gathered.
    """

    segment_bytes: int = 64 * _MIB
    buffer_bytes: int = _MIB


class Wal:
    """A log, open for appending. Make one with `Wal.open`."""

    replay_type: ClassVar[type[Replay]] = Replay

    def __init__(
        self,
        disk: Disk,
        directory: str,
        limits: WalLimits,
        bugs: Bugs,
        clock: Callable[[], float],
    ) -> None:
        self._disk = disk
        self._directory = directory
        self._limits = limits
        self._bugs = bugs
        self._clock = clock
        self._failure: DiskFailedError | None = None
        self._path = ""
        self._encoder = layout.Encoder(0, 0, 1)
        self._size = 0
        self._synced = 0
        self._unsynced_bytes = 0
        self._last_index = 0
        self._last_sync_s = clock()

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        limits: WalLimits = WalLimits(),
        bugs: Bugs = NO_BUGS,
        clock: Callable[[], float] = time.monotonic,
        salt: int | None = None,
    ) -> tuple[Wal, Recovered]:
        """Lock `directory`, make it if missing, read the log and make all of it durable.

        Args:
            disk: Where the files are; the caller closes it after the log.
            directory: Below the disk's root; may be `.`.
            limits: Sizes.
            bugs: Planted defects; this part knows `ack-before-fsync` and
                `damage-taken-for-torn-tail`.
            clock: Seconds, monotonic; only that defect reads it.
            salt: 32 bits that make a new log's checksums its own; random by default.

        Raises:
            DirectoryLockedError: Another process has the directory.
            DamagedLogError: The log holds something that no crash explains.
            DiskFailedError: The disk refused.
        """
        wal = cls(disk, directory, limits, bugs, clock)
        with _DiskErrors(wal, "open", directory):
            disk.make_directory(directory)
            disk.lock(directory)
        try:
            if salt is None:
                salt = int.from_bytes(os.urandom(4), "little")
            return wal, wal._recover(salt)
        except BaseException:
            disk.unlock(directory)
            raise

    @property
    def last_index(self) -> int:
        """Index of the last appended entry; 0 in an empty log."""
        return self._last_index

    @property
    def synced_seq(self) -> int:
        """Sequence number of the last record that is known to be durable."""
        return self._synced

    def append(
        self, hard_state: HardState | None, truncate_from: int | None, entries: Sequence[Entry]
    ) -> None:
        """Add records, in this order, to what the next `sync` makes durable.

        A crash before that keeps a prefix of them.

        Args:
            hard_state: The new term and vote, if they changed.
            truncate_from: The first index to cut, if any is cut.
            entries: Continuing the log without a gap.

        Raises:
            DiskFailedError: The disk has failed, now or before.
        """
        self._check()
        encoder, synced = self._encoder, self._synced
        if hard_state is not None:
            encoder.hard_state(hard_state, synced)
        if truncate_from is not None:
            assert 1 <= truncate_from <= self._last_index + 1, (
                f"cut from entry {truncate_from} of a log that ends at {self._last_index}"
            )
            encoder.truncate(truncate_from, synced)
            self._last_index = truncate_from - 1
        for entry in entries:
            assert entry.index == self._last_index + 1, (
                f"entry {entry.index} appended after entry {self._last_index}"
            )
            if self._size + encoder.buffered >= self._limits.segment_bytes:
                self._rotate()
                encoder, synced = self._encoder, self._synced
            encoder.entry(entry, synced)
            self._last_index = entry.index
        if encoder.buffered >= self._limits.buffer_bytes:
            self._flush()

    def sync(self) -> None:
        """Make everything appended durable, by one fdatasync; nothing to do costs nothing.

        Raises:
            DiskFailedError: The sync failed. It is never tried again: this and every later
                call raises.
        """
        self._check()
        self._flush()
        if not self._unsynced_bytes:
            return
        if "ack-before-fsync" in self._bugs and not self._lazy_sync_due():
            return
        self._sync()
        self._mark()

    def close(self) -> None:
        """Make everything durable and say so in the log, then unlock the directory.

        After a failure it only unlocks.
        """
        try:
            if self._failure is None:
                self._flush()
                if self._unsynced_bytes:
                    self._sync()
                    self._mark()
                with _DiskErrors(self, "fsync", self._path):
                    self._disk.fsync(self._path)
        finally:
            self._failure = self._failure or DiskFailedError("use", self._directory, "it is closed")
            self._disk.unlock(self._directory)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _lazy_sync_due(self) -> bool:
        waited_s = self._clock() - self._last_sync_s
        return waited_s > _LAZY_SYNC_S or self._unsynced_bytes > _LAZY_SYNC_BYTES

    def _flush(self) -> None:
        self._unsynced_bytes += self._write()

    def _write(self) -> int:
        size = self._encoder.buffered
        if size:
            with _DiskErrors(self, "write", self._path):
                self._disk.append(self._path, self._encoder.take())
            self._size += size
        return size

    def _sync(self) -> None:
        with _DiskErrors(self, "fsync", self._path):
            self._disk.fsync(self._path)
        self._synced = self._encoder.next_seq - 1
        self._unsynced_bytes = 0
        self._last_sync_s = self._clock()

    def _mark(self) -> None:
        """Say in the log that it was synced, so that later damage is not taken for a torn write.

        Not synced itself: a process crash keeps it, and the next sync takes it along.
        """
        self._encoder.mark(self._synced)
        self._write()

    def _rotate(self) -> None:
        self._flush()
        self._sync()
        self._begin_segment(self._encoder.chain)

    def _begin_segment(self, seed: int) -> None:
        """Make a segment that is whole before it has its name, and whose name is durable."""
        disk, first_seq = self._disk, self._encoder.next_seq
        path = f"{self._directory}/{layout.segment_name(first_seq)}"
        temporary = path + layout.TEMPORARY_SUFFIX
        header = layout.SegmentHeader(first_seq, first_seq - 1, seed).encode()
        with _DiskErrors(self, "make", path):
            disk.create(temporary)
            disk.append(temporary, [header])
            disk.fsync(temporary)
            disk.rename(temporary, path)
            disk.fsync_dir(self._directory)
        self._path = path
        self._size = len(header)
        self._encoder = layout.Encoder(seed, seed, first_seq)

    def _recover(self, salt: int) -> Recovered:
        with _DiskErrors(self, "read", self._directory):
            self._disk.fsync_dir(_parent(self._directory))
            segments = []
            for name in self._disk.names(self._directory):
                if name.endswith(layout.TEMPORARY_SUFFIX):
                    self._disk.unlink(f"{self._directory}/{name}")
                elif name.endswith(layout.SUFFIX):
                    segments.append(name)
            self._disk.fsync_dir(self._directory)
            if segments:
                replay = self.replay_type(self._disk, self._directory)
                replay.takes_damage_for_torn = "damage-taken-for-torn-tail" in self._bugs
                recovered, tail = replay.run(segments)
        if not segments:
            self._begin_segment(salt & 0xFFFFFFFF)
            return Recovered(HardState(0, None), [], 1, 0)
        self._last_index = len(recovered.entries)
        self._path = tail.path
        self._encoder = layout.Encoder(tail.seed, tail.chain, tail.next_seq)
        self._make_durable(tail)
        return recovered

    def _make_durable(self, tail: Tail) -> None:
        """Cut what is torn and make durable what was read, before anything builds on it.

        What no mark vouches for is written again: after a failed fsync the page cache still
        serves bytes that never reached the disk, and a sync alone would not send them.
        """
        with _DiskErrors(self, "repair", tail.path):
            if tail.size > tail.end:
                self._disk.truncate(tail.path, tail.end)
            if tail.unproved:
                self._disk.pwrite(tail.path, tail.end - len(tail.unproved), tail.unproved)
        self._size = tail.end
        self._synced = tail.synced
        if tail.unproved or tail.size > tail.end:
            self._sync()
        if tail.unproved_payload:
            self._mark()
            with _DiskErrors(self, "fsync", tail.path):
                self._disk.fsync(tail.path)


def _parent(directory: str) -> str:
    return directory.rpartition("/")[0] or "."


class _DiskErrors:
    """Turns an `OSError` into the failure that the log keeps for ever."""

    __slots__ = ("_operation", "_path", "_wal")

    def __init__(self, wal: Wal, operation: str, path: str) -> None:
        self._wal = wal
        self._operation = operation
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            path = self._wal._disk.where(self._path)
            failure = DiskFailedError(self._operation, path, error.strerror or str(error))
            self._wal._failure = failure
            raise failure from error
