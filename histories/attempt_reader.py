"""Reads files of the attempt log into columns, checking every record."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from .attempts import EVENTS, OUTCOMES, RECORD_BYTES, AttemptRecord
from .errors import FORMAT_VERSION, Damage, UnknownVersionError
from .interning import Names
from .templates import EVENT_AT, Template, find_template

BLOCK_RECORDS: Final = 4096
TEMPLATE_ROWS_MIN: Final = 24
_CRC_AT: Final = len(b'{"crc":"')
_REST_AT: Final = len(b'{"crc":"00000000",')
_EVENT_NUMBER: Final = {name: number for number, name in enumerate(EVENTS)}
_OUTCOME_NUMBER: Final = {name: number for number, name in enumerate(OUTCOMES)}


class _Version(msgspec.Struct):
    v: int


_VERSION: Final = msgspec.json.Decoder(_Version)
_RECORD: Final = msgspec.json.Decoder(AttemptRecord)


@dataclass(slots=True)
class FileColumns:
    """The columns of one file; `run` and `lease` count from 0 within the file.

    `gave_up` holds (row within the file, record); `damage` ends the file where it stands.
    """

    file: str
    event: NDArray[np.int8]
    t_ns: NDArray[np.int64]
    job: NDArray[np.int32]
    run: NDArray[np.int32]
    attempt: NDArray[np.int32]
    outcome: NDArray[np.int8]
    lease: NDArray[np.int32]
    runs: int = 0
    leases: int = 0
    first: AttemptRecord | None = None
    gave_up: list[tuple[int, AttemptRecord]] = field(default_factory=list)
    damage: Damage | None = None
    torn: bool = False


def read_file(path: Path, jobs: Names) -> FileColumns:
    """Read one file, up to its first bad record; jobs get their numbers from `jobs`.

    Raises:
        UnknownVersionError: A record has another format version.
        OSError: The file cannot be read.
    """
    size = path.stat().st_size
    rows = size // RECORD_BYTES
    columns = _empty(str(path), rows)
    columns.torn = size % RECORD_BYTES != 0
    reader = _FileReader(columns, jobs)
    with path.open("rb") as file:
        for first in range(0, rows, BLOCK_RECORDS):
            block = file.read(min(BLOCK_RECORDS, rows - first) * RECORD_BYTES)
            reader.read_block(block, first)
            if reader.bad:
                break
    reader.finish()
    return columns


def _empty(file: str, rows: int) -> FileColumns:
    return FileColumns(
        file,
        event=np.zeros(rows, np.int8),
        t_ns=np.zeros(rows, np.int64),
        job=np.zeros(rows, np.int32),
        run=np.full(rows, -1, np.int32),
        attempt=np.zeros(rows, np.int32),
        outcome=np.full(rows, -1, np.int8),
        lease=np.full(rows, -1, np.int32),
    )


class _FileReader:
    def __init__(self, columns: FileColumns, jobs: Names):
        self._columns = columns
        self._jobs = jobs
        self._runs = Names()
        self._leases = Names()
        self.bad: dict[int, str] = {}

    def finish(self) -> None:
        """Cut the columns before the first bad row, and check that time never goes back."""
        columns = self._columns
        columns.runs, columns.leases = len(self._runs), len(self._leases)
        back = np.flatnonzero(np.diff(columns.t_ns) < 0)
        if len(back) and not self.bad:
            self.bad[int(back[0]) + 1] = "time goes back within a process"
        if not self.bad:
            return
        row = min(self.bad)
        columns.damage = Damage(columns.file, row * RECORD_BYTES, self.bad[row])
        for name in ("event", "t_ns", "job", "run", "attempt", "outcome", "lease"):
            setattr(columns, name, getattr(columns, name)[:row])
        columns.gave_up = [entry for entry in columns.gave_up if entry[0] < row]

    def read_block(self, block: bytes, first: int) -> None:
        """Read one block of whole records into rows from `first` on; bad rows go into `bad`."""
        matrix = np.frombuffer(block, np.uint8).reshape(-1, RECORD_BYTES)
        if len(matrix) < TEMPLATE_ROWS_MIN:
            for at in range(len(matrix)):
                self._read_one(block, first, at)
            return
        done = 0
        if self._columns.first is None:
            self._read_one(block, first, 0)
            done = 1
        initial = matrix[done:, EVENT_AT]
        for letter in np.unique(initial).tolist():
            self._read_event(block, matrix, first, np.flatnonzero(initial == letter) + done)

    def _read_event(
        self, block: bytes, matrix: NDArray[np.uint8], first: int, left: NDArray[np.int64]
    ) -> None:
        while len(left) >= TEMPLATE_ROWS_MIN:
            head = int(left[0])
            template = self._template_of(block[head * RECORD_BYTES : (head + 1) * RECORD_BYTES])
            if template is None:
                self._read_one(block, first, head)
                left = left[1:]
                continue
            rows = matrix[left]
            taken = template.matches(rows)
            if taken.all():
                self._read_alike(block, first, left, rows, template)
                return
            self._read_alike(block, first, left[taken], rows[taken], template)
            left = left[~taken]
        for at in left.tolist():
            self._read_one(block, first, at)

    def _template_of(self, line: bytes) -> Template | None:
        first = self._columns.first
        record, _ = decode_record(line, self._columns.file)
        if first is None or record is None or _foreign(record, first):
            return None
        return find_template(line)

    def _read_alike(
        self,
        block: bytes,
        first: int,
        at: NDArray[np.int64],
        rows: NDArray[np.uint8],
        template: Template,
    ) -> None:
        columns = self._columns
        covered = template.rest
        length = covered.stop - covered.start
        starts = (at * RECORD_BYTES + covered.start).tolist()
        crc32 = zlib.crc32
        sums = np.array([crc32(block[start : start + length]) for start in starts], np.uint32)
        for bad in at[sums != template.checksums(rows)].tolist():
            self.bad[first + bad] = "checksum does not match"
        target = at + first
        columns.event[target] = template.event
        columns.outcome[target] = template.outcome
        columns.t_ns[target] = template.number(rows, "t_ns")
        columns.attempt[target] = template.number(rows, "attempt")
        columns.job[target] = self._jobs.numbers(template.text(rows, "job") or [])
        runs, leases = template.text(rows, "run"), template.text(rows, "lease")
        if runs is not None:
            columns.run[target] = self._runs.numbers(runs)
        if leases is not None:
            columns.lease[target] = self._leases.numbers(leases)

    def _read_one(self, block: bytes, first: int, at: int) -> None:
        columns, row = self._columns, first + at
        record, reason = decode_record(
            block[at * RECORD_BYTES : (at + 1) * RECORD_BYTES], columns.file
        )
        if record is not None and columns.first is not None:
            reason = _foreign(record, columns.first)
        if record is None or reason is not None:
            self.bad[row] = reason or "unreadable"
            return
        columns.first = columns.first or record
        columns.event[row] = _EVENT_NUMBER[record.e]
        columns.outcome[row] = -1 if record.outcome is None else _OUTCOME_NUMBER[record.outcome]
        columns.t_ns[row] = record.t_ns
        columns.attempt[row] = record.attempt
        columns.job[row] = self._jobs.number(record.job)
        if record.run is not None:
            columns.run[row] = self._runs.number(record.run)
        if record.lease is not None:
            columns.lease[row] = self._leases.number(record.lease)
        if record.e == "gave_up":
            columns.gave_up.append((row, record))


def decode_record(line: bytes, file: str) -> tuple[AttemptRecord | None, str | None]:
    """Decode one record of 512 bytes and check it; return the record, or None and the reason.

    Raises:
        UnknownVersionError: It is sound, and of another format version.
    """
    rest = line[_REST_AT:].rstrip(b" \n")
    if (
        line[-1:] != b"\n"
        or line[:_CRC_AT] != b'{"crc":"'
        or b"%08x" % zlib.crc32(rest) != (line[_CRC_AT : _CRC_AT + 8])
    ):
        return None, "checksum does not match"
    try:
        version = _VERSION.decode(line).v
        if version != FORMAT_VERSION:
            raise UnknownVersionError(file, version)
        return _RECORD.decode(line), None
    except msgspec.MsgspecError as error:
        return None, str(error)


def _foreign(record: AttemptRecord, first: AttemptRecord) -> str | None:
    for name in ("host", "boot", "pid", "worker", "code"):
        if getattr(record, name) != getattr(first, name):
            return f"{name} differs from the first record of the file"
    return None
