"""The durable log of one node: term, vote and entries, in checksummed segments.

`append` buffers, `sync` makes durable: the caller appends for everyone who waits and syncs once.
A log is used by one thread at a time. Recovery is in `recovery.py`, the bytes in `format.py`, which
segments there are in `manifest.py`. `purge` deletes what a checkpoint has made superfluous.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from ..bugs import NO_BUGS, Bugs
from ..raft.log import LogStart
from ..raft.messages import Entry, HardState
from . import format as layout
from .disk import Disk
from .errors import DamagedLogError, DirectoryLockedError, DiskFailedError
from .failing import DiskErrors
from .manifest import FORMAT_VERSION, NAME, ActiveSegment, Manifest, SealedSegment
from .recovery import Recovered, Replay, Tail, read_manifest
from .segments import SegmentFiles

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

    segment_bytes: int = 32 * _MIB
    buffer_bytes: int = _MIB


class Wal:
    """A log, open for appending. Make one with `Wal.open`."""

    replay_type: ClassVar[type[Replay]] = Replay
    files_type: ClassVar[type[SegmentFiles]] = SegmentFiles

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
        self._files = self.files_type(disk, directory)
        self._limits = limits
        self._bugs = bugs
        self._clock = clock
        self._failure: DiskFailedError | None = None
        self._path = ""
        self._encoder = layout.Encoder(0, 0, 1)
        self._size = 0
        self._synced = 0
        self._unsynced_bytes = 0
        self._hard_state = HardState(0, None)
        self._last_index = 0
        self._highest_index = 0
        self._sealed: tuple[SealedSegment, ...] = ()
        self._active = ActiveSegment("", 1, 0, 0)
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
        checkpoint_index: int = 0,
        tail_bytes: int = 1 << 62,
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
            checkpoint_index: Entries up to this one are in a checkpoint.
            tail_bytes: So many of their bytes are read into memory all the same.

        Raises:
            DirectoryLockedError: Another process has the directory.
            DamagedLogError: The log holds something that no crash explains.
            DiskFailedError: The disk refused.
        """
        wal = cls(disk, directory, limits, bugs, clock)
        with wal._refusals("open", directory):
            disk.make_directory(directory)
            disk.lock(directory)
        try:
            if salt is None:
                salt = int.from_bytes(os.urandom(4), "little")
            return wal, wal._recover(salt, checkpoint_index, tail_bytes)
        except BaseException:
            disk.unlock(directory)
            raise

    @property
    def last_index(self) -> int:
        """Index of the last appended entry; 0 in an empty log."""
        return self._last_index

    @property
    def first_index(self) -> int:
        """Index of the first entry that the segments hold, or would hold."""
        return self.manifest.first.base_index + 1

    @property
    def manifest(self) -> Manifest:
        """The segments as they are."""
        return Manifest(FORMAT_VERSION, self._sealed, self._active)

    @property
    def synced_seq(self) -> int:
        """Sequence number of the last record that is known to be durable."""
        return self._synced

    def append(
        self,
        hard_state: HardState | None,
        truncate_from: int | None,
        entries: Sequence[Entry],
        reset: LogStart | None = None,
    ) -> None:
        """Add records, in this order, to what the next `sync` makes durable.

        A crash before that keeps a prefix of them.

        Args:
            hard_state: The new term and vote, if they changed.
            truncate_from: The first index to cut, if any is cut.
            entries: Continuing the log without a gap.
            reset: Index and term of the entry after which the log begins anew, because a
                checkpoint holds everything up to it; drops all entries before anything is
                appended. Durable at once, with all that was appended before.

        Raises:
            DiskFailedError: The disk has failed, now or before.
        """
        self._check()
        if hard_state is not None:
            self._hard_state = hard_state
        if reset is not None:
            assert truncate_from is None, f"reset to {reset} and cut from {truncate_from}"
            self._reset(reset.index, reset.term)
        encoder, synced = self._encoder, self._synced
        if hard_state is not None and reset is None:
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
            self._highest_index = max(self._highest_index, entry.index)
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

    def purge(self, index: int) -> int:
        """Delete the oldest sealed segments, as far as they hold no entry above `index`.

        The caller knows that a durable checkpoint holds everything up to there. A crash on the way
        deletes some of them or none.

        Returns:
            How many segments were deleted.

        Raises:
            DiskFailedError: The disk refused.
        """
        self._check()
        kept = self.manifest.without_up_to(index).sealed
        return self._drop(self._sealed[: len(self._sealed) - len(kept)])

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
                with self._refusals("fsync", self._path):
                    self._disk.fsync(self._path)
        finally:
            self._failure = self._failure or DiskFailedError("use", self._directory, "it is closed")
            self._disk.unlock(self._directory)

    def _refusals(self, operation: str, path: str) -> DiskErrors:
        return DiskErrors(self._disk, self._keep, operation, path)

    def _keep(self, failure: DiskFailedError) -> None:
        self._failure = failure

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
            with self._refusals("write", self._path):
                self._disk.append(self._path, self._encoder.take())
            self._size += size
        return size

    def _sync(self) -> None:
        with self._refusals("fsync", self._path):
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
        self._seal()
        self._begin_segment(layout.Base(self._hard_state, self._last_index))

    def _reset(self, index: int, term: int) -> None:
        self._seal()
        self._last_index = self._highest_index = index
        self._begin_segment(layout.Base(self._hard_state, index, term, is_reset=True))
        self._drop(self._sealed)

    def _seal(self) -> None:
        self._flush()
        self._sync()
        active, encoder = self._active, self._encoder
        sealed = active.seal(encoder.next_seq - 1, self._highest_index, self._size, encoder.chain)
        self._sealed = (*self._sealed, sealed)

    def _begin_segment(self, base: layout.Base) -> None:
        """Make a segment that is whole before it has its name, then list it."""
        first_seq, seed = self._encoder.next_seq, self._encoder.chain
        name = layout.segment_name(first_seq)
        header = layout.SegmentHeader(first_seq, first_seq, seed).encode()
        encoder = layout.Encoder(seed, seed, first_seq)
        encoder.base(base, first_seq - 1)
        self._size = len(header) + encoder.buffered
        self._path = self._files.path(name)
        with self._refusals("make", self._path):
            self._files.make(name, [header, *encoder.take()])
        self._encoder = encoder
        self._synced = first_seq
        self._active = ActiveSegment(name, first_seq, base.last_index, seed)
        self._write_manifest()

    def _write_manifest(self) -> None:
        with self._refusals("make", self._files.path(NAME)):
            self._files.write_manifest(self.manifest)

    def _drop(self, segments: tuple[SealedSegment, ...]) -> int:
        """Delete the oldest segments: out of the manifest first, then their files."""
        if segments:
            self._sealed = self._sealed[len(segments) :]
            self._write_manifest()
            self._delete(segment.name for segment in segments)
        return len(segments)

    def _delete(self, names: Iterable[str]) -> None:
        with self._refusals("delete from", self._directory):
            self._files.delete(names)

    def _recover(self, salt: int, checkpoint_index: int, tail_bytes: int) -> Recovered:
        disk, directory = self._disk, self._directory
        with self._refusals("read", directory):
            disk.fsync_dir(_parent(directory))
            names = disk.names(directory)
            segments = [name for name in names if name.endswith(layout.SUFFIX)]
            manifest = read_manifest(disk, directory, segments)
            old = [name for name in segments if manifest and name < manifest.first.name]
            segments = segments[len(old) :]
            if segments or manifest:
                replay = self.replay_type(disk, directory, checkpoint_index, tail_bytes)
                replay.takes_damage_for_torn = "damage-taken-for-torn-tail" in self._bugs
                recovered, tail = replay.run(segments, manifest)
            temporary = [name for name in names if name.endswith(layout.TEMPORARY_SUFFIX)]
            self._files.delete([*temporary, *old])
        if not segments:
            self._encoder = layout.Encoder(0, salt & 0xFFFFFFFF, 1)
            self._begin_segment(layout.Base(self._hard_state, 0))
            return Recovered(HardState(0, None), [], 1, 0, disk.where(self._path))
        self._take_over(recovered, tail)
        if manifest != self.manifest:
            self._write_manifest()
            first = self.manifest.first.name
            self._delete(name for name in segments if name < first)
        self._make_durable(tail)
        return recovered

    def _take_over(self, recovered: Recovered, tail: Tail) -> None:
        self._hard_state = recovered.hard_state
        self._last_index = recovered.last_index
        self._highest_index = tail.highest_index
        self._path = tail.path
        self._sealed = tail.sealed
        self._active = tail.active
        self._encoder = layout.Encoder(tail.active.seed, tail.chain, tail.next_seq)

    def _make_durable(self, tail: Tail) -> None:
        """Cut what is torn and make durable what was read, before anything builds on it.

        What no mark vouches for is written again: after a failed fsync the page cache still
        serves bytes that never reached the disk, and a sync alone would not send them.
        """
        with self._refusals("repair", tail.path):
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
            with self._refusals("fsync", tail.path):
                self._disk.fsync(tail.path)


def _parent(directory: str) -> str:
    return directory.rpartition("/")[0] or "."
