"""Columns on their way from a reading process to the one that asked, as files in a folder."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from .attempt_reader import FileColumns
from .attempts import AttemptRecord
from .dispatches import DispatchTable
from .errors import Damage
from .history_reader import History
from .interning import Names
from .ops import Op

_ATTEMPT_COLUMNS: Final = ("event", "t_ns", "job", "run", "attempt", "outcome", "lease")
_DISPATCH_COLUMNS: Final = tuple(
    name
    for name in (field.name for field in fields(DispatchTable))
    if name not in ("backoffs", "partitions", "file")
)


class _FileNote(msgspec.Struct):
    file: str
    rows: int
    runs: int
    leases: int
    first: AttemptRecord | None
    gave_up: list[tuple[int, AttemptRecord]]
    damage: Damage | None
    torn: bool


class _HistoryNote(msgspec.Struct):
    backoffs: list[tuple[float, ...]]
    partitions: list[bytes]
    file: str
    ops: list[Op]
    damage: Damage | None
    torn: bool


class _Note(msgspec.Struct):
    jobs: list[bytes]
    files: list[_FileNote]
    history: _HistoryNote | None


def pack(folder: Path, jobs: Names, files: list[FileColumns], history: History | None) -> None:
    """Write what one process has read; the file `note` comes last and says that all is there."""
    for name in _ATTEMPT_COLUMNS:
        parts = [getattr(columns, name) for columns in files]
        np.save(folder / f"attempts-{name}.npy", np.concatenate(parts) if parts else np.zeros(0))
    note = _Note(jobs=list(jobs.keys), files=[_note_of(columns) for columns in files], history=None)
    if history is not None:
        table = history.dispatches
        for name in _DISPATCH_COLUMNS:
            np.save(folder / f"dispatches-{name}.npy", getattr(table, name))
        note.history = _HistoryNote(
            backoffs=table.backoffs,
            partitions=list(table.partitions.keys),
            file=table.file,
            ops=history.ops,
            damage=history.damage,
            torn=history.torn,
        )
    (folder / "note.part").write_bytes(msgspec.msgpack.encode(note))
    (folder / "note.part").rename(folder / "note")


def _note_of(columns: FileColumns) -> _FileNote:
    return _FileNote(
        file=columns.file,
        rows=len(columns.event),
        runs=columns.runs,
        leases=columns.leases,
        first=columns.first,
        gave_up=columns.gave_up,
        damage=columns.damage,
        torn=columns.torn,
    )


def unpack(folder: Path, jobs: Names) -> tuple[list[FileColumns], History | None]:
    """Read what a process has written, renumbering its jobs by `jobs`.

    Raises:
        FileNotFoundError: The process did not finish.
    """
    note = msgspec.msgpack.decode((folder / "note").read_bytes(), type=_Note)
    renumber = np.array(jobs.numbers(note.jobs), np.int32)
    columns: dict[str, NDArray[np.generic]] = {
        name: np.load(folder / f"attempts-{name}.npy", mmap_mode="r") for name in _ATTEMPT_COLUMNS
    }
    files = []
    low = 0
    for entry in note.files:
        part = {name: column[low : low + entry.rows] for name, column in columns.items()}
        low += entry.rows
        part["job"] = renumber[part["job"]]
        files.append(
            FileColumns(
                file=entry.file,
                runs=entry.runs,
                leases=entry.leases,
                first=entry.first,
                gave_up=entry.gave_up,
                damage=entry.damage,
                torn=entry.torn,
                **part,  # type: ignore[arg-type]  # each column has the type it was saved with
            )
        )
    return files, _history(folder, note.history, renumber)


def _history(
    folder: Path, note: _HistoryNote | None, renumber: NDArray[np.int32]
) -> History | None:
    if note is None:
        return None
    columns = {name: np.load(folder / f"dispatches-{name}.npy") for name in _DISPATCH_COLUMNS}
    columns["job"] = renumber[columns["job"]]
    partitions = Names()
    partitions.numbers(note.partitions)
    table = DispatchTable(backoffs=note.backoffs, partitions=partitions, file=note.file, **columns)
    return History(table, note.ops, note.damage, note.torn)
