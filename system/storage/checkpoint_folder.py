"""Which store of checkpoints a node lives by, and a received one on its way to take its place.

`CURRENT` names the store in force. Beside it there may be `incoming`, a store that is being
received, and `incoming.offer`, which says what it will be once it is whole. A received store is
activated by giving it a name of its own and then replacing `CURRENT`, each step durable before the
next: a crash leaves the old store in force or the new one. While the log does not follow the new
store yet, `CURRENT` says so; a log that ends before any other store is damaged.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from .checked_line import decode_checked, encode_checked
from .checkpoint import LOCK_SUFFIX
from .disk import Disk
from .errors import DamagedCheckpointError

CHECKPOINT_DIRECTORY: Final = "checkpoint"
POINTER: Final = "CURRENT"
INCOMING: Final = "incoming"
OUTGOING: Final = "outgoing"
SUFFIX: Final = ".mdb"
FORMAT_VERSION: Final = 1

_OFFER: Final = f"{INCOMING}.offer"
_TEMPORARY: Final = ".tmp"
_REMEDY: Final = (
    "restore the file from a copy of this node's disk, or replace the node by one of another name"
)


class Pointer(msgspec.Struct, frozen=True):
    """What `CURRENT` holds.

    Attributes:
        v: The format's version.
        generation: Number of the store in force; its file has the number's name.
        is_ahead: Whether the store was received, so that the log may still have to follow it.
    """

    v: int
    generation: int
    is_ahead: bool = False

    @property
    def file(self) -> str:
        """The store's file."""
        return f"{self.generation:08d}{SUFFIX}"


class Offer(msgspec.Struct, frozen=True):
    """A store that a peer sends.

    Attributes:
        index: What it reflects: the last entry,
        term: and its term.
        size: Its size in bytes.
        sha256: Of all its bytes, in hex; offers of the same store are equal.
        chunk_bytes: Sent at once; the last chunk may be shorter.
    """

    index: int
    term: int
    size: int
    sha256: str
    chunk_bytes: int


def read_pointer(folder: Path) -> Pointer | None:
    """What a folder's `CURRENT` holds, without a lock; None when there is none.

    Raises:
        DamagedCheckpointError: It cannot be read.
    """
    path = folder / POINTER
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    return _decode_pointer(data, str(path))


def _decode_pointer(data: bytes, where: str) -> Pointer:
    try:
        pointer = decode_checked(data, Pointer)
    except ValueError as error:
        raise DamagedCheckpointError(where, str(error), _REMEDY) from None
    if pointer.v != FORMAT_VERSION:
        reason = f"format version {pointer.v}; this program reads {FORMAT_VERSION}"
        remedy = "start the version of the program that wrote it"
        raise DamagedCheckpointError(where, reason, remedy)
    return pointer


class CheckpointFolder:
    """The folder of a node's checkpoints. All methods may raise `OSError`.

    One thread at a time may use it.

    Attributes:
        pointer: What is in force; None in a new folder.
    """

    def __init__(self, disk: Disk, directory: str = CHECKPOINT_DIRECTORY) -> None:
        self._disk = disk
        self._directory = directory
        self.pointer: Pointer | None = None

    def open(self) -> None:
        """Lock the folder, make it if missing, and read what is in force.

        Raises:
            DirectoryLockedError: Another process has it.
            DamagedCheckpointError: `CURRENT` cannot be read.
        """
        disk, directory = self._disk, self._directory
        disk.make_directory(directory)
        disk.fsync_dir(".")
        disk.lock(directory)
        path = self._path(POINTER)
        with suppress(FileNotFoundError):
            self.pointer = _decode_pointer(disk.read(path), disk.where(path))

    def close(self) -> None:
        """Let go of the folder."""
        self._disk.unlock(self._directory)

    @property
    def has_store(self) -> bool:
        """Whether the store in force is there."""
        return self.pointer is not None and self.pointer.file in self._names()

    def begin(self) -> Pointer:
        """Put a new, empty store in force; the caller makes its file."""
        generation = self.pointer.generation + 1 if self.pointer else 1
        self._point(Pointer(FORMAT_VERSION, generation))
        assert self.pointer is not None
        return self.pointer

    def sweep(self) -> None:
        """Delete what crashes have left: stores not in force, a copy that was being sent."""
        kept = {POINTER, INCOMING, _OFFER}
        if self.pointer is not None:
            kept |= {self.pointer.file, self.pointer.file + LOCK_SUFFIX}
        for name in self._names():
            if name not in kept:
                self._disk.unlink(self._path(name))
        self._disk.fsync_dir(self._directory)

    def drop_old(self) -> None:
        """Delete the stores that were in force before."""
        assert self.pointer is not None, "no store is in force"
        for name in self._names():
            if SUFFIX in name and not name.startswith((self.pointer.file, OUTGOING)):
                self._disk.unlink(self._path(name))
        self._disk.fsync_dir(self._directory)

    def file(self, name: str) -> Path:
        """Where a file of the folder is, for those who open it by themselves."""
        return Path(self._disk.where(self._path(name)))

    @property
    def current_file(self) -> Path:
        """The store in force."""
        assert self.pointer is not None, "no store is in force"
        return self.file(self.pointer.file)

    # A store that is being received.

    def resume(self, offer: Offer) -> int:
        """Be ready to receive a store; returns how many of its bytes are there, in whole chunks.

        Anything else that had been received is dropped.
        """
        disk = self._disk
        names = self._names()
        if INCOMING in names and _OFFER in names:
            try:
                is_same = decode_checked(disk.read(self._path(_OFFER)), Offer) == offer
            except ValueError:
                is_same = False
            if is_same:
                # Each chunk was synced before the next: only the last one may be torn.
                size = min(disk.size(self._path(INCOMING)), offer.size)
                size = max(0, size - 1) // offer.chunk_bytes * offer.chunk_bytes
                disk.truncate(self._path(INCOMING), size)
                return size
        self.drop_incoming()
        disk.create(self._path(INCOMING))
        self._replace(_OFFER, encode_checked(offer))
        return 0

    def receive(self, chunk: bytes) -> None:
        """Add a chunk and make it durable."""
        path = self._path(INCOMING)
        self._disk.append(path, [chunk])
        self._disk.fsync(path)

    def drop_incoming(self) -> None:
        """Forget what was received."""
        for name in self._names():
            if name.startswith(INCOMING):
                self._disk.unlink(self._path(name))
        self._disk.fsync_dir(self._directory)

    def activate(self) -> Pointer:
        """Put the received store in force: it is whole, and what was offered. Durable on return.

        The old store's file stays until `drop_old`.
        """
        disk, old = self._disk, self.pointer
        generation = old.generation + 1 if old else 1
        pointer = Pointer(FORMAT_VERSION, generation, is_ahead=True)
        disk.fsync(self._path(INCOMING))
        disk.rename(self._path(INCOMING), self._path(pointer.file))
        disk.fsync_dir(self._directory)
        self._point(pointer)
        return pointer

    def settle(self) -> None:
        """The log has followed the store in force."""
        if self.pointer is not None and self.pointer.is_ahead:
            self._point(msgspec.structs.replace(self.pointer, is_ahead=False))

    def _point(self, pointer: Pointer) -> None:
        self._replace(POINTER, encode_checked(pointer))
        self.pointer = pointer

    def _replace(self, name: str, content: bytes) -> None:
        disk, path = self._disk, self._path(name)
        temporary = path + _TEMPORARY
        if name + _TEMPORARY in self._names():
            disk.unlink(temporary)
        disk.create(temporary)
        disk.append(temporary, [content])
        disk.fsync(temporary)
        disk.rename(temporary, path)
        disk.fsync_dir(self._directory)

    def _names(self) -> tuple[str, ...]:
        return self._disk.names(self._directory)

    def _path(self, name: str) -> str:
        return f"{self._directory}/{name}"
