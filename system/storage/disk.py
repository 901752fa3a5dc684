"""The disk as the log sees it, and the two real ones.

Every path is relative to the disk's root, with `/` between its parts. Nothing is durable until
`fsync` (a file's bytes) or `fsync_dir` (the names in a directory) has returned. All methods raise
`OSError` when the operating system refuses.
"""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from .errors import DirectoryLockedError

# Linux's IOV_MAX: more buffers than this in one call are refused.
_BUFFERS_MAX: Final = 1024
_COPY_BYTES_MAX: Final = 256 * 1024
_SPARE_DESCRIPTORS: Final = 8
_NO_DESCRIPTOR: Final = (errno.EMFILE, errno.ENFILE)


class Reader(Protocol):
    """The part of a disk that reading a log needs."""

    def read(self, path: str) -> bytes:
        """A whole file."""

    def where(self, path: str) -> str:
        """The path as an operator knows it."""


class Disk(Protocol):
    """Files below one root, with the operating system's durability and no more.

    One thread at a time may use a disk.
    """

    def make_directory(self, path: str) -> None:
        """Make one directory below an existing one; fine if it exists."""

    def names(self, directory: str) -> tuple[str, ...]:
        """The names in a directory, sorted."""

    def create(self, path: str) -> None:
        """Make an empty file; `FileExistsError` if there is one."""

    def append(self, path: str, buffers: Sequence[bytes]) -> None:
        """Write at the end. After `OSError` an unknown part may have been written."""

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        """Write at an offset. After `OSError` an unknown part may have been written."""

    def truncate(self, path: str, size: int) -> None:
        """Cut a file to `size` bytes."""

    def fsync(self, path: str) -> None:
        """Make a file's bytes and size durable. A failure must never be tried again."""

    def fsync_dir(self, directory: str) -> None:
        """Make the names in a directory durable."""

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same directory, replacing what had it."""

    def unlink(self, path: str) -> None:
        """Remove a name."""

    def read(self, path: str) -> bytes:
        """A whole file, as the page cache has it."""

    def size(self, path: str) -> int:
        """A file's size in bytes."""

    def lock(self, directory: str) -> None:
        """Hold a directory for this process alone; `DirectoryLockedError` if another has it."""

    def unlock(self, directory: str) -> None:
        """Let go of a directory; fine if it is not held."""

    def where(self, path: str) -> str:
        """The path as an operator knows it."""

    def close(self) -> None:
        """Close every file and let go of every directory. Syncs nothing."""


def _make_durable_directory(path: Path) -> None:
    if path.is_dir():
        return
    _make_durable_directory(path.parent)
    path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(slots=True)
class _OpenFile:
    descriptor: int
    size: int


class RealDisk:
    """The operating system's own files below `root`, which is made if missing.

    Files stay open between calls, so an append costs one system call. Some descriptors are kept in
    reserve: connections that use up all others must not make the disk fail.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.resolve()
        _make_durable_directory(self._root)
        self._open: dict[str, _OpenFile] = {}
        self._locks: dict[str, int] = {}
        self._spare: list[int] = []
        self._keep_spare()

    def _keep_spare(self) -> None:
        """Fill the reserve up, as far as the system lets it."""
        while len(self._spare) < _SPARE_DESCRIPTORS:
            try:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            except OSError:
                return

    def _descriptor(self, path: str | Path, flags: int, mode: int = 0o600) -> int:
        """Open a file, if need be with a descriptor of the reserve."""
        try:
            return os.open(path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR or not self._spare:
                raise
            os.close(self._spare.pop())
        return os.open(path, flags | os.O_CLOEXEC, mode)

    @property
    def root(self) -> Path:
        """Where the files are."""
        return self._root

    def _path(self, path: str) -> str:
        parts = PurePosixPath(path)
        if parts.is_absolute() or ".." in parts.parts:
            raise ValueError(f"path {path!r} leaves the disk's root; use a path below it")
        return os.path.join(self._root, path)

    def _file(self, path: str) -> _OpenFile:
        file = self._open.get(path)
        if file is None:
            descriptor = self._descriptor(self._path(path), os.O_RDWR | os.O_NOFOLLOW)
            file = self._open[path] = _OpenFile(descriptor, os.fstat(descriptor).st_size)
        return file

    def _forget(self, path: str) -> None:
        file = self._open.pop(path, None)
        if file is not None:
            os.close(file.descriptor)
            self._keep_spare()

    def make_directory(self, path: str) -> None:
        """See `Disk`."""
        os.makedirs(self._path(path), exist_ok=True)

    def names(self, directory: str) -> tuple[str, ...]:
        """See `Disk`."""
        return tuple(sorted(os.listdir(self._path(directory))))

    def create(self, path: str) -> None:
        """See `Disk`."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        descriptor = self._descriptor(self._path(path), flags)
        self._forget(path)
        self._open[path] = _OpenFile(descriptor, 0)

    def append(self, path: str, buffers: Sequence[bytes]) -> None:
        """See `Disk`. Below 256 KiB the buffers are joined, above they are not copied."""
        file = self._file(path)
        total = sum(map(len, buffers))
        if total <= _COPY_BYTES_MAX:
            self._write_all(file, b"".join(buffers), file.size)
            return
        for start in range(0, len(buffers), _BUFFERS_MAX):
            chunk = buffers[start : start + _BUFFERS_MAX]
            wanted = sum(map(len, chunk))
            written = os.pwritev(file.descriptor, chunk, file.size)
            if written == wanted:
                file.size += written
            else:
                self._write_all(file, b"".join(chunk)[written:], file.size + written)

    def _write_all(self, file: _OpenFile, data: bytes, offset: int) -> None:
        written = os.pwrite(file.descriptor, data, offset)
        while written < len(data):
            # A short write is no error; the next one says why it was short.
            written += os.pwrite(file.descriptor, memoryview(data)[written:], offset + written)
        file.size = max(file.size, offset + written)

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk`."""
        self._write_all(self._file(path), data, offset)

    def truncate(self, path: str, size: int) -> None:
        """See `Disk`."""
        file = self._file(path)
        os.ftruncate(file.descriptor, size)
        file.size = size

    def fsync(self, path: str) -> None:
        """See `Disk`. Uses fdatasync, which covers the size too."""
        os.fdatasync(self._file(path).descriptor)

    def fsync_dir(self, directory: str) -> None:
        """See `Disk`."""
        descriptor = self._descriptor(self._path(directory), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
            self._keep_spare()

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        os.rename(self._path(old), self._path(new))
        self._forget(new)
        file = self._open.pop(old, None)
        if file is not None:
            self._open[new] = file

    def unlink(self, path: str) -> None:
        """See `Disk`."""
        os.unlink(self._path(path))
        self._forget(path)

    def read(self, path: str) -> bytes:
        """See `Disk`."""
        file = self._file(path)
        size = os.fstat(file.descriptor).st_size
        pieces: list[bytes] = []
        offset = 0
        while offset < size:
            piece = os.pread(file.descriptor, size - offset, offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def size(self, path: str) -> int:
        """See `Disk`."""
        return self._file(path).size

    def lock(self, directory: str) -> None:
        """See `Disk`. An exclusive flock on the directory itself; a killed process lets go."""
        descriptor = os.open(self._path(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DirectoryLockedError(self._path(directory)) from None
        self._locks[directory] = descriptor

    def unlock(self, directory: str) -> None:
        """See `Disk`."""
        descriptor = self._locks.pop(directory, None)
        if descriptor is not None:
            os.close(descriptor)

    def where(self, path: str) -> str:
        """See `Disk`."""
        return str(self._root / path)

    def close(self) -> None:
        """See `Disk`."""
        for path in list(self._open):
            self._forget(path)
        for directory in list(self._locks):
            self.unlock(directory)
        while self._spare:
            os.close(self._spare.pop())


@dataclass(slots=True)
class _Unsynced:
    """What a file has been told since its last sync, in order: (offset, bytes) or a new size."""

    size: int
    changes: list[tuple[int, bytes] | int] = field(default_factory=list)

    def append(self, buffers: Sequence[bytes]) -> None:
        data = b"".join(buffers)
        self.changes.append((self.size, data))
        self.size += len(data)

    def write(self, offset: int, data: bytes) -> None:
        self.changes.append((offset, data))
        self.size = max(self.size, offset + len(data))

    def cut(self, size: int) -> None:
        self.changes.append(size)
        self.size = size

    def over(self, durable: bytes) -> bytes:
        content = bytearray(durable)
        for change in self.changes:
            if isinstance(change, int):
                content[change:] = bytes(max(0, change - len(content)))
            else:
                offset, data = change
                content.extend(bytes(max(0, offset - len(content))))
                content[offset : offset + len(data)] = data
        return bytes(content)


class LossyDisk(RealDisk):
    """A real disk with its page cache in this process, so that SIGKILL acts as a power cut.

    A file's bytes and cuts stay in this process's memory until `fsync`, so a kill loses each one
    that was not synced. Names (create, rename, unlink) go to the operating system at once.
    """

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._unsynced: dict[str, _Unsynced] = {}

    def _cached(self, path: str) -> _Unsynced:
        cached = self._unsynced.get(path)
        if cached is None:
            cached = self._unsynced[path] = _Unsynced(super().size(path))
        return cached

    def append(self, path: str, buffers: Sequence[bytes]) -> None:
        """See `Disk`."""
        self._cached(path).append(buffers)

    def pwrite(self, path: str, offset: int, data: bytes) -> None:
        """See `Disk`."""
        self._cached(path).write(offset, data)

    def truncate(self, path: str, size: int) -> None:
        """See `Disk`."""
        self._cached(path).cut(size)

    def fsync(self, path: str) -> None:
        """See `Disk`. Only here do the bytes reach the operating system."""
        cached = self._unsynced.pop(path, None)
        for change in cached.changes if cached else ():
            if isinstance(change, int):
                super().truncate(path, change)
            else:
                super().pwrite(path, *change)
        super().fsync(path)

    def rename(self, old: str, new: str) -> None:
        """See `Disk`."""
        super().rename(old, new)
        self._unsynced.pop(new, None)
        cached = self._unsynced.pop(old, None)
        if cached is not None:
            self._unsynced[new] = cached

    def unlink(self, path: str) -> None:
        """See `Disk`."""
        super().unlink(path)
        self._unsynced.pop(path, None)

    def read(self, path: str) -> bytes:
        """See `Disk`."""
        durable = super().read(path)
        cached = self._unsynced.get(path)
        return cached.over(durable) if cached else durable

    def size(self, path: str) -> int:
        """See `Disk`."""
        cached = self._unsynced.get(path)
        return cached.size if cached else super().size(path)

    def close(self) -> None:
        """See `Disk`. What was not synced is lost."""
        self._unsynced.clear()
        super().close()
