"""All attempt records of a run as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from .attempt_reader import FileColumns
from .attempts import EVENTS, OUTCOMES, RECORD_BYTES, AttemptRecord
from .errors import Damage
from .interning import Names

Cell = TypeVar("Cell", bound=np.generic)

PREFETCHED: Final = EVENTS.index("prefetched")
STARTED: Final = EVENTS.index("started")
ENDED: Final = EVENTS.index("ended")
ACKED: Final = EVENTS.index("acked")
GAVE_UP: Final = EVENTS.index("gave_up")
COMPLETED: Final = OUTCOMES.index("completed")
THREW: Final = OUTCOMES.index("threw")
RELEASED: Final = OUTCOMES.index("released")
FAILED: Final = OUTCOMES.index("failed")
TIMED_OUT: Final = OUTCOMES.index("timed_out")


@dataclass(frozen=True, slots=True)
class ProcessIncarnation:
    """One process, from one file of the attempt log.

    Attributes:
        file: The file.
        host: Name of the host.
        boot: Boot id of the host.
        pid: Process id.
        worker: Name of the worker.
        code: Version of its code.
        first_row: Its first row in the table.
        rows: How many rows it has.
        first_ns: Time of its first record.
        last_ns: Time of its last record.
    """

    file: str
    host: str
    boot: str
    pid: int
    worker: str
    code: str
    first_row: int
    rows: int
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The details of a `gave_up` record."""

    cause: str
    attempts: int
    ran: bool
    digest: str | None


@dataclass(slots=True)
class AttemptTable:
    """All attempt records, file by file, each file in the order of writing.

    About 26 bytes a record plus the names of jobs. All columns have one entry a record.

    Attributes:
        event: Index into `EVENTS`.
        t_ns: CLOCK_MONOTONIC.
        job: Number in `jobs`.
        run: Number of the run, distinct over all processes; -1 for none.
        attempt: Attempt number as the engine told it.
        outcome: Index into `OUTCOMES`; -1 for none.
        lease: Number of the lease, distinct over all processes; -1 for none.
        process: Index into `processes`.
        jobs: Names of jobs.
        processes: The processes, one a file.
        gave_up: Details of `gave_up` records by row.
        damage: Records that could not be read, and where reading stopped.
        torn: Files whose last record was torn.
    """

    event: NDArray[np.int8]
    t_ns: NDArray[np.int64]
    job: NDArray[np.int32]
    run: NDArray[np.int32]
    attempt: NDArray[np.int32]
    outcome: NDArray[np.int8]
    lease: NDArray[np.int32]
    process: NDArray[np.int32]
    jobs: Names
    processes: list[ProcessIncarnation] = field(default_factory=list)
    gave_up: dict[int, GaveUp] = field(default_factory=dict)
    damage: list[Damage] = field(default_factory=list)
    torn: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.event)

    def records(self, rows: Sequence[int]) -> list[tuple[str, AttemptRecord]]:
        """Read records again from their files, as (file name, record); costs one read a row.

        Raises:
            OSError: The file is gone.
        """
        found = []
        decoder = msgspec.json.Decoder(AttemptRecord)
        for row in rows:
            process = self.processes[int(self.process[row])]
            with open(process.file, "rb") as file:
                file.seek((row - process.first_row) * RECORD_BYTES)
                record = decoder.decode(file.read(RECORD_BYTES))
            found.append((Path(process.file).name, record))
        return found


def empty_table() -> AttemptTable:
    """Return a table without records."""
    return assemble([], Names())


def assemble(files: Sequence[FileColumns], jobs: Names) -> AttemptTable:
    """Join the columns of files; their jobs must be numbered by `jobs`."""
    used = [file for file in files if len(file.event)]
    rows = [len(file.event) for file in used]
    runs = np.cumsum([0, *(file.runs for file in used)])
    leases = np.cumsum([0, *(file.leases for file in used)])
    table = AttemptTable(
        event=_join([file.event for file in used], np.int8),
        t_ns=_join([file.t_ns for file in used], np.int64),
        job=_join([file.job for file in used], np.int32),
        run=_join(_shifted([file.run for file in used], runs), np.int32),
        attempt=_join([file.attempt for file in used], np.int32),
        outcome=_join([file.outcome for file in used], np.int8),
        lease=_join(_shifted([file.lease for file in used], leases), np.int32),
        process=np.repeat(np.arange(len(used), dtype=np.int32), rows),
        jobs=jobs,
        damage=[file.damage for file in files if file.damage],
        torn=[file.file for file in files if file.torn],
    )
    first_row = 0
    for file in used:
        table.processes.append(_process_of(file, first_row))
        for row, record in file.gave_up:
            table.gave_up[first_row + row] = GaveUp(
                record.cause or "", record.attempts or 0, bool(record.ran), record.digest
            )
        first_row += len(file.event)
    return table


def _join(columns: Sequence[NDArray[Cell]], kind: type[Cell]) -> NDArray[Cell]:
    return np.concatenate(columns) if columns else np.zeros(0, kind)


def _shifted(
    columns: list[NDArray[np.int32]], shifts: NDArray[np.int64]
) -> list[NDArray[np.int32]]:
    return [
        np.where(column < 0, np.int32(-1), column + np.int32(shift))
        for column, shift in zip(columns, shifts[:-1], strict=True)
    ]


def _process_of(file: FileColumns, first_row: int) -> ProcessIncarnation:
    first = file.first
    assert first is not None, f"{file.file} has {len(file.event)} rows and no first record"
    return ProcessIncarnation(
        file=file.file,
        host=first.host,
        boot=first.boot,
        pid=first.pid,
        worker=first.worker,
        code=first.code,
        first_row=first_row,
        rows=len(file.event),
        first_ns=int(file.t_ns[0]),
        last_ns=int(file.t_ns[-1]),
    )
