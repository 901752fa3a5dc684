"""Reads `history.jsonl` in one pass: dispatches into columns, all other operations as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import DTypeLike, NDArray

from .dispatches import (
    OK,
    RESULT,
    STATUSES,
    UNKNOWN,
    DispatchAnswer,
    DispatchTable,
    DispatchValue,
)
from .errors import FORMAT_VERSION, Damage, UnknownVersionError
from .history_pairing import INVOKE, TYPES, Lines, pair_lines, reason_of
from .interning import Names
from .line_templates import LineTemplate, find_line_template
from .ops import DISPATCH, Op, OpType

_BLOCK_BYTES: Final = 2 << 20
_TEMPLATE_ROWS_MIN: Final = 24
_DIGEST: Final = "S32"
_NS: Final = 1_000_000_000
_RESULT_OF_TYPE: Final = np.array([UNKNOWN, *(RESULT[type_] for type_ in TYPES[1:])], np.int8)


class _Line(msgspec.Struct, gc=False):
    v: int
    index: int
    process: int | str
    type: OpType
    f: str
    time_ns: int
    value: msgspec.Raw = msgspec.Raw(b"null")


_LINE: Final = msgspec.json.Decoder(_Line)
_VALUE: Final = msgspec.json.Decoder(DispatchValue)
_ANSWER: Final = msgspec.json.Decoder(DispatchAnswer)
_OP: Final = msgspec.json.Decoder(Op)

_LINE_TYPES: Final[dict[str, DTypeLike]] = {
    "at": np.int64,
    "index": np.int64,
    "process": np.int32,
    "type": np.int8,
    "f": np.int32,
    "time_ns": np.int64,
    "status": np.int8,
    "offset": np.int64,
}
_ASKED_TYPES: Final[dict[str, DTypeLike]] = {
    "job": np.int32,
    "tries": np.int32,
    "timeout_ns": np.int64,
    "not_before_ns": np.int64,
    "backoff": np.int32,
    "partition": np.int32,
    "digest": _DIGEST,
}
Columns = dict[str, NDArray[np.generic]]


@dataclass(slots=True)
class History:
    """The content of `history.jsonl`, up to its first bad line."""

    dispatches: DispatchTable
    ops: list[Op]
    damage: Damage | None = None
    torn: bool = False


def read_history(path: Path, jobs: Names) -> History:
    """Read a history; jobs get their numbers from `jobs`. A missing file is an empty history.

    Raises:
        UnknownVersionError: A line has another format version.
        OSError: The file cannot be read.
    """
    reader = _HistoryReader(str(path), jobs)
    if path.exists():
        with path.open("rb") as file:
            for block, offset, torn in _blocks(file):
                reader.torn = torn
                reader.read_block(block, offset)
                if reader.damage:
                    break
    return reader.finish()


def _blocks(file: BinaryIO) -> Iterator[tuple[bytes, int, bool]]:
    """Cut a file into blocks of whole lines: (block, its offset, whether a torn line follows)."""
    offset, rest = 0, b""
    while data := file.read(_BLOCK_BYTES):
        block, newline, rest = (rest + data).rpartition(b"\n")
        if newline:
            yield block + newline, offset, False
            offset += len(block) + 1
    if rest:
        yield b"", offset, True


class _HistoryReader:
    def __init__(self, file: str, jobs: Names):
        self._file = file
        self._jobs = jobs
        self._partitions = Names()
        self._processes = Names()
        self._names = Names([DISPATCH])
        self._backoffs: dict[tuple[float, ...], int] = {}
        self._lines: list[Columns] = []
        self._asked: list[Columns] = []
        self._ops: list[tuple[int, Op]] = []
        self._count = 0
        self._bad_rows: dict[int, str] = {}
        self._others: dict[int, Op] = {}
        self.damage: Damage | None = None
        self.torn = False

    def read_block(self, block: bytes, offset: int) -> None:
        """Read a block of whole lines that begins at an offset in the file."""
        data = np.frombuffer(block, np.uint8)
        ends = np.flatnonzero(data == ord("\n")) + 1
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)[: len(ends)]
        count = len(ends)
        lines: Columns = {name: np.full(count, -1, kind) for name, kind in _LINE_TYPES.items()}
        lines["at"] = starts + offset
        asked: Columns = {name: np.zeros(count, kind) for name, kind in _ASKED_TYPES.items()}
        self._bad_rows, self._others = {}, {}
        lengths = ends - starts
        for length in np.unique(lengths).tolist():
            rows = np.flatnonzero(lengths == length)
            self._read_alike(block, data, starts, int(length), rows, lines, asked)
        cut = min(self._bad_rows, default=count)
        if self._bad_rows:
            self.damage = Damage(self._file, offset + int(starts[cut]), self._bad_rows[cut])
        self._ops += [
            (self._count + row, op) for row, op in sorted(self._others.items()) if row < cut
        ]
        lines = {name: column[:cut] for name, column in lines.items()}
        is_asked = (lines["type"] == INVOKE) & (lines["f"] == 0)
        self._lines.append(lines)
        self._asked.append({name: column[:cut][is_asked] for name, column in asked.items()})
        self._count += cut

    def _read_alike(
        self,
        block: bytes,
        data: NDArray[np.uint8],
        starts: NDArray[np.int64],
        length: int,
        left: NDArray[np.int64],
        lines: Columns,
        asked: Columns,
    ) -> None:
        if len(left) >= _TEMPLATE_ROWS_MIN:
            matrix = data[starts[left][:, None] + np.arange(length)]
            while len(left) >= _TEMPLATE_ROWS_MIN:
                start = int(starts[left[0]])
                line = block[start : start + length]
                self._read_one(line, int(left[0]), lines, asked)
                template = None
                if lines["f"][left[0]] == 0 and int(left[0]) not in self._bad_rows:
                    template = find_line_template(line)
                taken = np.zeros(len(left), np.bool_)
                if template is not None:
                    taken = template.matches(matrix)
                    self._copy(template, int(left[0]), left[taken], matrix[taken], lines, asked)
                taken[0] = True
                left, matrix = left[~taken], matrix[~taken]
        for row in left.tolist():
            start = int(starts[row])
            self._read_one(block[start : start + length], row, lines, asked)

    def _copy(
        self,
        template: LineTemplate,
        head: int,
        rows: NDArray[np.int64],
        matrix: NDArray[np.uint8],
        lines: Columns,
        asked: Columns,
    ) -> None:
        """Read rows that match a template: its line's values, but for the fields that differ."""
        for columns, names in ((lines, ("type", "f", "status", "offset")), (asked, _ASKED_TYPES)):
            for name in names:
                columns[name][rows] = columns[name][head]
        for columns, name in (
            (lines, "index"),
            (lines, "time_ns"),
            (lines, "offset"),
            (asked, "not_before_ns"),
        ):
            values = template.number(matrix, name)
            if values is not None:
                columns[name][rows] = values
        numbers = template.number(matrix, "process")
        assert numbers is not None, "a template without a process"
        distinct, inverse = np.unique(numbers, return_inverse=True)
        lines["process"][rows] = np.array(
            [self._processes.number(str(number)) for number in distinct.tolist()], np.int32
        )[inverse]
        texts = template.text(matrix, "job")
        if texts is not None:
            asked["job"][rows] = self._jobs.numbers(texts.tolist())
        texts = template.text(matrix, "digest")
        if texts is not None:
            asked["digest"][rows] = texts
        texts = template.text(matrix, "partition")
        if texts is not None:
            told = self._partitions[int(asked["partition"][head])]
            queue = told[: len(told) - texts.dtype.itemsize]
            names_of, inverse = np.unique(texts, return_inverse=True)
            asked["partition"][rows] = np.array(
                [self._partitions.number(queue + name.decode()) for name in names_of.tolist()],
                np.int32,
            )[inverse]

    def _read_one(self, line: bytes, row: int, lines: Columns, asked: Columns) -> None:
        try:
            op = _LINE.decode(line)
            if op.v != FORMAT_VERSION:
                raise UnknownVersionError(self._file, op.v)
            lines["index"][row] = op.index
            lines["process"][row] = self._processes.number(
                str(op.process) if isinstance(op.process, int) else f"'{op.process}"
            )
            lines["type"][row] = TYPES.index(op.type)
            lines["f"][row] = self._names.number(op.f)
            lines["time_ns"][row] = op.time_ns
            if op.f != DISPATCH:
                self._others[row] = _OP.decode(line)
            elif op.type == "invoke":
                self._ask(_VALUE.decode(op.value), row, asked)
            elif RESULT[op.type] == OK:
                answer = _ANSWER.decode(op.value)
                lines["status"][row] = STATUSES.index(answer.status)
                lines["offset"][row] = -1 if answer.offset is None else answer.offset
        except msgspec.MsgspecError as error:
            self._bad_rows[row] = str(error)

    def _ask(self, value: DispatchValue, row: int, asked: Columns) -> None:
        waits = value.backoff_s if isinstance(value.backoff_s, tuple) else (value.backoff_s or 0.0,)
        timeout_ns = -1 if value.timeout_s is None else round(value.timeout_s * _NS)
        asked["job"][row] = self._jobs.number(value.job)
        asked["tries"][row] = value.tries
        asked["timeout_ns"][row] = timeout_ns
        asked["not_before_ns"][row] = -1 if value.not_before_ns is None else value.not_before_ns
        asked["backoff"][row] = self._backoffs.setdefault(waits, len(self._backoffs))
        asked["partition"][row] = self._partitions.number(f"{value.queue}/{value.partition}")
        asked["digest"][row] = (value.digest or "").encode()

    def finish(self) -> History:
        """Pair what was read, up to the first line that is malformed."""
        columns = _join(self._lines, _LINE_TYPES)
        lines = Lines(**{name: columns[name] for name in Lines.__slots__})  # type: ignore[arg-type]
        completion, bad = pair_lines(lines)
        if bad is not None:
            reason = reason_of(lines, bad, [self._names[n] for n in range(len(self._names))])
            self.damage = Damage(self._file, int(lines.at[bad]), reason)
        end = len(lines) if bad is None else bad
        rows = np.flatnonzero((lines.type[:end] == INVOKE) & (lines.f[:end] == 0))
        done = completion[rows]
        done[done >= end] = -1
        came = done >= 0
        asked = {
            name: column[: len(rows)] for name, column in _join(self._asked, _ASKED_TYPES).items()
        }
        table = DispatchTable(
            invoke_ns=lines.time_ns[rows],
            done_ns=np.where(came, lines.time_ns[done], -1),
            result=np.where(came, _RESULT_OF_TYPE[lines.type[done]], np.int8(UNKNOWN)),
            status=np.where(came, columns["status"][done], np.int8(-1)),
            offset=np.where(came, columns["offset"][done], -1),
            at=lines.at[rows],
            done_at=np.where(came, lines.at[done], -1),
            backoffs=list(self._backoffs),
            partitions=self._partitions,
            file=self._file,
            **asked,  # type: ignore[arg-type]
        )
        ops = [op for position, op in self._ops if position < end]
        return History(table, ops, self.damage, self.torn)


def _join(blocks: list[Columns], types: Mapping[str, DTypeLike]) -> Columns:
    return {
        name: np.concatenate([block[name] for block in blocks]) if blocks else np.zeros(0, kind)
        for name, kind in types.items()
    }
