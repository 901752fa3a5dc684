"""The store of checkpoints: the broker's rows and the log index that they reflect, in LMDB.

A commit is one transaction: all rows that changed and the position, or nothing. Reads see the last
commit, from any thread, while one thread writes. LMDB promises atomic and durable commits; that
the bytes are the ones that were written is checked here: each stored value begins with a CRC-32
over its key and itself, and the position holds the number of all rows.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn
from zlib import crc32

import lmdb
import msgspec

from ..raft.members import Checkpoint
from .errors import ClosedStoreError, DamagedCheckpointError, DiskFailedError
from .mapping import let_go_of_pages
from .readers import Readers
from .short_store import read_whole

Row = tuple[bytes, bytes | None]
"""Key and value; None deletes the row."""

LOCK_SUFFIX: Final = "-lock"
FORMAT_VERSION: Final = 1

_CRC_BYTES: Final = 4
_POSITION_KEY: Final = b"position"
_MAP_BYTES_MIN: Final = 1 << 32
_PAGES_MIN: Final = 2
_PAGE_BYTES: Final = 4096
_ROWS_AT_ONCE: Final = 64
_DAMAGE: Final = (
    lmdb.CorruptedError,
    lmdb.PageNotFoundError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.IncompatibleError,
    lmdb.BadTxnError,
    lmdb.NotFoundError,
)

_REMEDY: Final = (
    "stop this node, keep a copy of its folder, and replace it by a node of another name, which "
    "gets everything from the others; a node that is alone restores its folder from a backup"
)


class _Position(msgspec.Struct, frozen=True, array_like=True):
    version: int
    checkpoint: Checkpoint
    rows: int


EMPTY: Final = Checkpoint()

MAPPED_BYTES_MAX: Final = 64 << 20
"""The pages of a store up to this size may stay in a process's memory once they were touched."""


class CheckpointStore:
    """An open store; make one with `CheckpointStore.open`.

    Attributes:
        position: What the last commit reflects.
    """

    def __init__(
        self, file: Path, environment: lmdb.Environment, mapped_bytes_max: int = MAPPED_BYTES_MAX
    ) -> None:
        self.position = EMPTY
        self._mapped_bytes_max = mapped_bytes_max
        self._file = file
        self._environment = environment
        self._rows_stated = 0
        # Growing the map needs an instant without readers.
        self._readers = Readers()

    @classmethod
    def open(
        cls,
        file: Path,
        *,
        must_exist: bool = False,
        map_bytes_min: int = _MAP_BYTES_MIN,
        mapped_bytes_max: int = MAPPED_BYTES_MAX,
        is_read_only: bool = False,
    ) -> CheckpointStore:
        """Open the store in `file`, which is made if missing; LMDB's lock file stands beside it.

        Args:
            file: The store.
            must_exist: Whether a missing store is damage rather than an empty store.
            map_bytes_min: Address space to begin with; it doubles as the store grows.
            mapped_bytes_max: A store that is larger keeps no pages mapped behind a commit.
            is_read_only: Change no byte, and make no lock file; nobody else may write meanwhile.

        Raises:
            DamagedCheckpointError: There is none, or it is cut or unreadable.
            DiskFailedError: The disk refused.
        """
        try:
            size = file.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < _PAGES_MIN * _PAGE_BYTES and (must_exist or size):
            raise _damaged(file, "the store is cut" if size else "the store is missing")
        map_bytes = max(map_bytes_min, 2 * size)
        try:
            environment = lmdb.open(
                str(file),
                map_size=map_bytes,
                subdir=False,
                max_dbs=2,
                mode=0o600,
                max_spare_txns=2,
                readonly=is_read_only,
                lock=not is_read_only,
            )
        except lmdb.Error as error:
            _refuse(file, "open", error)
        store = cls(file, environment, mapped_bytes_max)
        try:
            store._load(size)
        except BaseException:
            environment.close()
            raise
        return store

    def _load(self, size: int) -> None:
        data = self._file
        environment = self._environment
        needed = (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
        try:
            if size and size < needed:
                read_whole(data, needed, self._value)
        except (lmdb.Error, OSError) as error:
            reason = f"the store has {size} of {needed} bytes: {error}"
            raise _damaged(data, reason) from error
        try:
            self._meta = environment.open_db(b"meta", create=not size)
            self._rows = environment.open_db(b"rows", create=not size)
            with environment.begin(db=self._meta) as transaction:
                content = transaction.get(_POSITION_KEY)
                entries = transaction.stat(self._rows)["entries"]
        except lmdb.Error as error:
            _refuse(data, "read", error)
        if content is None:
            if entries:
                raise _damaged(data, f"the store has {entries} rows and no position")
            return
        try:
            value = self._value(_POSITION_KEY, content)
            position = msgspec.msgpack.decode(value, type=_Position)
        except msgspec.MsgspecError as error:
            raise _damaged(data, f"the position cannot be read: {error}") from None
        if position.version != FORMAT_VERSION:
            remedy = "start the version of the program that wrote it"
            reason = f"format version {position.version}; this program reads {FORMAT_VERSION}"
            raise DamagedCheckpointError(str(data), reason, remedy)
        if position.rows != entries:
            raise _damaged(data, f"the store has {entries} of {position.rows} rows")
        self.position = position.checkpoint
        self._rows_stated = entries

    @property
    def file(self) -> Path:
        """Where the store is."""
        return self._file

    @property
    def row_count(self) -> int:
        """Rows as of the last commit."""
        return self._rows_stated

    @property
    def used_bytes(self) -> int:
        """Size of the file; what deleted rows leave is used again, and never given back."""
        return self._file.stat().st_size

    def commit(self, changes: Sequence[Row], position: Checkpoint) -> None:
        """Store all changes and the position, durably, or nothing.

        Blocks for the disk: call it on a thread, always the same one at a time. About 2 µs a row,
        half of it without the interpreter's lock.

        Args:
            changes: A later one of the same key wins.
            position: What the rows reflect from now on; never behind the last one.

        Raises:
            DiskFailedError: The disk refused; nothing of this commit is stored.
            DamagedCheckpointError: The store is broken.
        """
        assert position.index >= self.position.index, (
            f"checkpoint at {position.index} after one at {self.position.index}"
        )
        while True:
            try:
                self._rows_stated = self._write(changes, position)
            except lmdb.MapFullError:
                self._grow()
            except lmdb.Error as error:
                _refuse(self._file, "commit", error)
            else:
                self.position = position
                if self.used_bytes > self._mapped_bytes_max:
                    let_go_of_pages(self._file)
                return

    def _write(self, changes: Sequence[Row], position: Checkpoint) -> int:
        with self._environment.begin(write=True) as transaction:
            with transaction.cursor(self._rows) as cursor:
                batch: list[tuple[bytes, bytes]] = []
                for key, value in changes:
                    if value is not None:
                        batch.append((key, _checked(key, value)))
                        if len(batch) < _ROWS_AT_ONCE:
                            continue
                    if batch:
                        cursor.putmulti(batch)
                        batch.clear()
                    if value is None:
                        transaction.delete(key, db=self._rows)
                if batch:
                    cursor.putmulti(batch)
            entries = transaction.stat(self._rows)["entries"]
            record = _Position(FORMAT_VERSION, position, entries)
            value = msgspec.msgpack.encode(record)
            transaction.put(_POSITION_KEY, _checked(_POSITION_KEY, value), db=self._meta)
        return entries

    def _grow(self) -> None:
        with self._readers.alone():
            self._environment.set_mapsize(2 * self._environment.info()["map_size"])

    @contextmanager
    def _reading(self, *, is_long: bool = False) -> Iterator[lmdb.Transaction[bytes]]:
        with self._reader(is_long=is_long):
            try:
                with self._environment.begin(db=self._rows) as transaction:
                    yield transaction
            except lmdb.Error as error:
                _refuse(self._file, "read", error)

    def read(self, key: bytes) -> bytes:
        """The value of one row, as of the last commit. About 3 µs when the page is cached.

        Raises:
            KeyError: There is no such row.
            DamagedCheckpointError: The row or the store is damaged.
        """
        with self._reading() as transaction:
            content = transaction.get(key)
        if content is None:
            raise KeyError(key)
        return self._value(key, content)

    def rows(self, without: bytes | None = None) -> Iterator[tuple[bytes, bytes]]:
        """All rows of the last commit, in order of their keys, byte by byte; checks their number.

        Holds that state of the store while it is iterated: what is deleted meanwhile gives no
        room back.

        Args:
            without: Skip the rows whose keys begin so, at no cost; their number is not checked.

        Raises:
            DamagedCheckpointError: A row or the store is damaged.
        """
        count = 0
        with self._reading(is_long=True) as transaction, transaction.cursor() as cursor:
            stated = transaction.stat(self._rows)["entries"]
            found = cursor.first()
            while found:
                key, content = cursor.item()
                if without is not None and key.startswith(without):
                    found = cursor.set_range(_behind(without))
                    continue
                count += 1
                yield key, self._value(key, content)
                found = cursor.next()
        if without is None and count != stated:
            reason = f"{count} of {stated} rows can be reached"
            raise _damaged(self._file, reason)

    def check_some(self, after: bytes | None, rows_max: int) -> bytes | None:
        """Check the next rows behind a key, from the first one when it is None.

        Returns:
            The last key looked at, or None at the end.

        Raises:
            DamagedCheckpointError: A row or the store is damaged.
        """
        last: bytes | None = None
        left = rows_max
        with self._reading() as transaction, transaction.cursor() as cursor:
            found = cursor.first() if after is None else cursor.set_range(after + b"\0")
            while found and left:
                last, content = cursor.item()
                self._value(last, content)
                left -= 1
                found = cursor.next()
        return None if left else last

    def copy_to(self, file: Path) -> None:
        """Write a compact copy of one commit into a new file, and make it durable.

        Commits go on meanwhile; the copy itself says which one it is. Blocks: call it on a thread.

        Raises:
            DiskFailedError: The disk refused.
        """
        with self._reader(is_long=True):
            try:
                descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                try:
                    self._environment.copyfd(descriptor, compact=True)
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
            except lmdb.Error as error:
                _refuse(file, "copy", error)
            except OSError as error:
                reason = error.strerror or str(error)
                raise DiskFailedError("copy", str(file), reason) from error

    def close(self) -> None:
        """Let go of the store, once nobody reads it; a read from then on is refused."""
        self._readers.close()
        self._environment.close()

    @contextmanager
    def _reader(self, *, is_long: bool) -> Iterator[None]:
        with self._readers.reading(is_long=is_long) as is_open:
            if not is_open:
                raise ClosedStoreError(f"{self._file} is closed")
            yield

    def _value(self, key: bytes, content: bytes) -> bytes:
        value = content[_CRC_BYTES:]
        crc = int.from_bytes(content[:_CRC_BYTES], "little")
        if len(content) < _CRC_BYTES or crc != crc32(value, crc32(key)):
            reason = f"the row with key {key.hex()} fails its checksum"
            raise _damaged(self._file, reason)
        return value


def _checked(key: bytes, value: bytes) -> bytes:
    return crc32(value, crc32(key)).to_bytes(_CRC_BYTES, "little") + value


def _behind(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix, which does not end in 0xff."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _damaged(file: Path, reason: str) -> DamagedCheckpointError:
    return DamagedCheckpointError(str(file), reason, _REMEDY)


def _refuse(file: Path, operation: str, error: lmdb.Error) -> NoReturn:
    """Turn what LMDB says into damage or a disk that refuses."""
    if isinstance(error, _DAMAGE) or error.code == errno.EINVAL:
        raise _damaged(file, str(error)) from error
    raise DiskFailedError(operation, str(file), str(error)) from error
