"""JSON-lines files of the run folder, except the attempt log."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from .errors import FORMAT_VERSION, Damage, DamagedEvidenceError, UnknownVersionError

Record = TypeVar("Record", bound=msgspec.Struct)


class _Versioned(msgspec.Struct):
    v: int = FORMAT_VERSION


class LineWriter:
    """Appends records to one JSON-lines file, one `write(2)` a record.

    A record is in the page cache, hence safe from the death of this process, once `write` returns.
    """

    def __init__(self, path: Path | str):
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def write(self, record: msgspec.Struct) -> None:
        """Append one record.

        Raises:
            OSError: The disk refused it, or took only a part.
        """
        line = msgspec.json.encode(record) + b"\n"
        written = os.write(self._file, line)
        if written != len(line):
            raise OSError(f"short write: {written} of {len(line)} bytes")

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> LineWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def write_lines(path: Path | str, records: Iterable[msgspec.Struct]) -> None:
    """Write a whole file at once, replacing it."""
    Path(path).write_bytes(b"".join(msgspec.json.encode(record) + b"\n" for record in records))


def read_lines(path: Path | str, kind: type[Record]) -> list[Record]:
    """Read a JSON-lines file of one record type; a missing file has no records.

    A last line without its newline was torn by a death and is left out.

    Raises:
        UnknownVersionError: A record has another format version.
        DamagedEvidenceError: Any other bad line; names file and offset.
    """
    return [record for _, record in _records(Path(path), kind)]


def _records(path: Path, kind: type[Record]) -> Iterator[tuple[int, Record]]:
    if not path.exists():
        return
    version = msgspec.json.Decoder(_Versioned)
    decoder = msgspec.json.Decoder(kind)
    offset = 0
    for line in path.read_bytes().splitlines(keepends=True):
        if not line.endswith(b"\n"):
            return
        try:
            found = version.decode(line).v
            if found != FORMAT_VERSION:
                raise UnknownVersionError(path, found)
            yield offset, decoder.decode(line)
        except msgspec.MsgspecError as error:
            raise DamagedEvidenceError(Damage(str(path), offset, str(error))) from error
        offset += len(line)
