"""A disk in memory that loses, byte by byte, what a real one may lose.

Each file has durable bytes, cached bytes (what reads see) and the writes between them, in order. A
power cut cuts every unsynced write at 512-byte sectors; each sector on its own survives, vanishes,
or, where the file grew, reads as zeros. Of the unsynced changes to a directory a prefix survives.
A failed fsync drops the unsynced writes, goes on serving them from the cache, and lets the next
fsync succeed, as Linux does.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from .errors import DirectoryLockedError

SECTOR_BYTES: Final = 512


class Chance(Protocol):
    """The part of `random.Random` that decides what a power cut leaves."""

    def randrange(self, stop: int, /) -> int:
        """A uniform integer in [0, stop)."""


@dataclass(frozen=True, slots=True)
class _Write:
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Cut:
    size: int


@dataclass(slots=True)
class _File:
    durable: bytearray = field(default_factory=bytearray)
    cache: bytearray = field(default_factory=bytearray)
    pending: list[_Write | _Cut] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _NameChange:
    """`new` begins to mean `file` (None: nothing); `old` stops to mean anything."""

    old: str | None
    new: str
    file: _File | None


_Directory = dict[str, _File]


class SimDisk:
    """A `Disk` in memory. Directories other than the root are durable only by their parent.

    Args:
        chance: Decides power cuts; the same chance gives the same cut.

    Attributes:
        fail_fsyncs: So many of the next fsyncs fail with EIO.
        space_bytes: What may still be written before ENOSPC; None for no limit.
        fsyncs: Syncs of files so far.
    """

    def __init__(self, chance: Chance) -> None:
        self._chance = chance
        self._live: dict[str, _Directory] = {".": {}}
        self._durable: dict[str, _Directory] = {".": {}}
        self._changes: dict[str, list[_NameChange]] = {".": []}
        self._unsynced_directories: list[str] = []
        self._locks: set[str] = set()
        self.fail_fsyncs = 0
        self.space_bytes: int | None = None
        self.fsyncs = 0

    # --- the Disk protocol ---

    def make_directory(self, path: str) -> None:
        """See `Disk`."""
        if path in self._live:
            return
        if _parent(path) not in self._live:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        self._live[path] = {}
        self._changes[path] = []
        self._unsynced_directories.append(path)

    def names(self, directory: str) -> tuple[str, ...]:
        """See `Disk`."""
        return tuple(sorted(self._directory(directory)))

    def create(self, path: str) -> None:
        """See `Disk`."""
        directory, name = _split(path)
        if name in self._directory(directory):
            raise FileExistsError(errno.EEXIST, "file exists", path)
        self._change(directory, _NameChange(None, name, _File()))

    def append(self, path: str, buffers: Sequence[bytes]) -> None:
        """See `Disk`."""
        self.pwrite(path, len(self._file(path).cache), b"".join(buffers))

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk`."""
        file = self._file(path)
        wanted = len(data)
        if self.space_bytes is not None:
            data = data[: self.space_bytes]
            self.space_bytes -= len(data)
        if data:
            write = _Write(offset, bytes(data))
            _apply(file.cache, write)
            file.pending.append(write)
        if len(data) < wanted:
            raise OSError(errno.ENOSPC, "no space left on device", path)

    def truncate(self, path: str, size: int) -> None:
        """See `Disk`."""
        file = self._file(path)
        cut = _Cut(size)
        _apply(file.cache, cut)
        file.pending.append(cut)

    def fsync(self, path: str) -> None:
        """See `Disk`."""
        file = self._file(path)
        self.fsyncs += 1
        if self.fail_fsyncs:
            self.fail_fsyncs -= 1
            file.pending = [change for change in file.pending if isinstance(change, _Cut)]
            raise OSError(errno.EIO, "input/output error", path)
        for change in file.pending:
            _apply(file.durable, change)
        file.pending.clear()

    def fsync_dir(self, directory: str) -> None:
        """See `Disk`."""
        self._durable[directory] = dict(self._directory(directory))
        self._changes[directory].clear()
        for path in [path for path in self._unsynced_directories if _parent(path) == directory]:
            self._unsynced_directories.remove(path)
            self._durable.setdefault(path, {})

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        directory, old_name = _split(old)
        new_directory, new_name = _split(new)
        assert directory == new_directory, f"rename of {old} to {new} leaves its directory"
        self._change(directory, _NameChange(old_name, new_name, self._file(old)))

    def unlink(self, path: str) -> None:
        """See `Disk`."""
        self._file(path)
        directory, name = _split(path)
        self._change(directory, _NameChange(None, name, None))

    def read(self, path: str) -> bytes:
        """See `Disk`."""
        return bytes(self._file(path).cache)

    def size(self, path: str) -> int:
        """See `Disk`."""
        return len(self._file(path).cache)

    def lock(self, directory: str) -> None:
        """See `Disk`."""
        if directory in self._locks:
            raise DirectoryLockedError(directory)
        self._locks.add(directory)

    def unlock(self, directory: str) -> None:
        """See `Disk`."""
        self._locks.discard(directory)

    def where(self, path: str) -> str:
        """See `Disk`."""
        return path

    def close(self) -> None:
        """See `Disk`."""
        self._locks.clear()

    # --- what happens to it ---

    def kill_process(self) -> None:
        """The process dies and the machine goes on: locks are gone, the page cache stays."""
        self._locks.clear()
        self.space_bytes = None

    def cut_power(self) -> None:
        """The machine dies: what was not synced survives in part, and reads see only that."""
        self.kill_process()
        for path in self._unsynced_directories:
            # Its name was never synced, so it may be gone with all that is in it.
            if path not in self._durable and self._chance.randrange(2):
                self._durable[path] = {}
        self._unsynced_directories.clear()
        for path, names in self._durable.items():
            changes = self._changes.get(path, [])
            for change in changes[: self._chance.randrange(len(changes) + 1)]:
                _rename(names, change)
        self._live = {path: dict(names) for path, names in self._durable.items()}
        self._changes = {path: [] for path in self._live}
        for names in self._live.values():
            for file in names.values():
                self._lose(file)

    def flip_bit(self, path: str, bit: int) -> None:
        """Rot: one bit of a file's durable and cached bytes changes."""
        file = self._file(path)
        for content in (file.durable, file.cache):
            if bit >> 3 < len(content):
                content[bit >> 3] ^= 1 << (bit & 7)

    def _lose(self, file: _File) -> None:
        for change in file.pending:
            if isinstance(change, _Cut):
                if self._chance.randrange(2):
                    _apply(file.durable, change)
            else:
                self._write_in_part(file.durable, change)
        file.pending.clear()
        file.cache = bytearray(file.durable)

    def _write_in_part(self, durable: bytearray, write: _Write) -> None:
        durable_size = len(durable)
        start, end = write.offset, write.offset + len(write.data)
        while start < end:
            stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
            fate = self._chance.randrange(3)
            if fate == 0:
                _apply(
                    durable, _Write(start, write.data[start - write.offset : stop - write.offset])
                )
            elif fate == 1 and stop > durable_size:
                grown = max(start, durable_size)
                _apply(durable, _Write(grown, bytes(stop - grown)))
            start = stop

    def _directory(self, path: str) -> _Directory:
        directory = self._live.get(path)
        if directory is None:
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return directory

    def _file(self, path: str) -> _File:
        directory, name = _split(path)
        file = self._directory(directory).get(name)
        if file is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return file

    def _change(self, directory: str, change: _NameChange) -> None:
        _rename(self._directory(directory), change)
        self._changes[directory].append(change)


def _split(path: str) -> tuple[str, str]:
    directory, _, name = path.rpartition("/")
    return directory or ".", name


def _parent(path: str) -> str:
    return _split(path)[0]


def _rename(names: _Directory, change: _NameChange) -> None:
    if change.old is not None:
        names.pop(change.old, None)
    if change.file is None:
        names.pop(change.new, None)
    else:
        names[change.new] = change.file


def _apply(content: bytearray, change: _Write | _Cut) -> None:
    if isinstance(change, _Cut):
        del content[change.size :]
        content.extend(bytes(change.size - len(content)))
        return
    if change.offset > len(content):
        content.extend(bytes(change.offset - len(content)))
    content[change.offset : change.offset + len(change.data)] = change.data
