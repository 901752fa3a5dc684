"""Operations: what clients asked of the system, and what they were told."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .errors import Damage
from .lines import LineWriter, read_lines

OpType = Literal["invoke", "ok", "fail", "info"]
if TYPE_CHECKING:
    Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
else:
    Json = Any  # msgspec reads a recursive type only as "anything", which is what it means.

DISPATCH = "dispatch"
DRAIN = "drain"
READ_DEAD_LETTERS = "read-dead-letters"
READ_FAILED_JOBS = "read-failed-jobs"
RESTART = "restart"
STOP = "stop"


class Op(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """One line of `history.jsonl`.

    Attributes:
        v: Format version.
        index: Position in the history, from 0, gapless.
        process: The logical client; it has at most one operation open.
        type: `invoke`, or how it ended: `ok`, `fail` (certainly not applied), `info` (unknown).
        f: What was asked.
        value: Arguments at the invocation, results at the completion.
        time_ns: CLOCK_MONOTONIC of the host.
        node: The node that was asked, or that answered.
        error: Why it did not end ok.
    """

    index: int
    process: int | str
    type: OpType
    f: str
    value: Json = None
    time_ns: int
    node: str | None = None
    error: str | None = None
    v: int = 1


class OpWriter:
    """Writes `history.jsonl`, numbering operations as they come."""

    def __init__(self, path: Path | str):
        self._lines = LineWriter(path)
        self._next = 0

    def write(
        self,
        process: int | str,
        type_: OpType,
        f: str,
        value: Json,
        time_ns: int,
        node: str | None = None,
        error: str | None = None,
    ) -> Op:
        """Append one operation record and return it; raises OSError as the disk does."""
        op = Op(
            index=self._next,
            process=process,
            type=type_,
            f=f,
            value=value,
            time_ns=time_ns,
            node=node,
            error=error,
        )
        self._lines.write(op)
        self._next += 1
        return op

    def close(self) -> None:
        """Close the file."""
        self._lines.close()


def read_ops(path: Path | str) -> list[Op]:
    """Read `history.jsonl`; errors as `read_lines`."""
    return read_lines(path, Op)


def pair_ops(ops: Sequence[Op]) -> list[tuple[Op, Op | None]]:
    """Pair each invocation with its completion, in order of invocation; None where none came."""
    pairs: list[tuple[Op, Op | None]] = []
    open_at: dict[int | str, int] = {}
    for op in ops:
        if op.type == "invoke":
            open_at[op.process] = len(pairs)
            pairs.append((op, None))
        elif op.process in open_at:
            at = open_at.pop(op.process)
            pairs[at] = (pairs[at][0], op)
    return pairs


def find_malformed(ops: Sequence[Op], file: str = "history.jsonl") -> Damage | None:
    """Return the first break of the rules of a history, or None.

    Each invocation completes at most once, by the same process with the same `f`; a process with an
    open operation invokes no other; indexes are gapless; time never goes back within a process.
    The `offset` of the damage is the index of the record.
    """
    open_ops: dict[int | str, Op] = {}
    last_ns: dict[int | str, int] = {}
    for position, op in enumerate(ops):
        open_op = open_ops.get(op.process)
        reason = break_of(
            (op.index, op.type, op.f, op.time_ns),
            position,
            open_op.f if open_op else None,
            last_ns.get(op.process, 0),
        )
        if reason:
            return Damage(file, position, reason)
        last_ns[op.process] = op.time_ns
        if op.type == "invoke":
            open_ops[op.process] = op
        else:
            del open_ops[op.process]
    return None


def break_of(
    op: tuple[int, OpType, str, int], position: int, open_f: str | None, last_ns: int
) -> str | None:
    """Tell how one operation breaks the rules of a history, or None.

    Args:
        op: Its index, type, f and time.
        position: Where it stands in the file.
        open_f: What its process has open.
        last_ns: Time of its process's previous record.
    """
    index, type_, f, time_ns = op
    if index != position:
        return f"record {position} has index {index}"
    if time_ns < last_ns:
        return f"time of its process goes back from {last_ns} to {time_ns}"
    if type_ == "invoke":
        return f"its process invokes {f} while {open_f} is open" if open_f is not None else None
    if open_f is None:
        return f"its process completes {f}, which it did not invoke"
    if open_f != f:
        return f"its process completes {f} while {open_f} is open"
    return None
