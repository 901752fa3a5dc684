"""Pairs invocations of a history with their completions, and finds where it is malformed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .ops import OpType, break_of

TYPES: Final[tuple[OpType, ...]] = ("invoke", "ok", "fail", "info")
INVOKE: Final = 0


@dataclass(slots=True)
class Lines:
    """All lines of a history as columns, in order of the file.

    Attributes:
        at: Byte offset.
        index: The index that the line claims.
        process: Number of the process.
        type: Index into `TYPES`.
        f: Number of what was asked.
        time_ns: CLOCK_MONOTONIC.
    """

    at: NDArray[np.int64]
    index: NDArray[np.int64]
    process: NDArray[np.int32]
    type: NDArray[np.int8]
    f: NDArray[np.int32]
    time_ns: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.at)


def pair_lines(lines: Lines) -> tuple[NDArray[np.int64], int | None]:
    """Find the completion of each line that is an invocation, and the first line out of order.

    Returns:
        (for each line the position of its completion, or -1; the first malformed position or None)
    """
    count = len(lines)
    completion = np.full(count, -1, np.int64)
    if not count:
        return completion, None
    order = np.argsort(lines.process, kind="stable")
    process, type_ = lines.process[order], lines.type[order]
    f, time_ns = lines.f[order], lines.time_ns[order]
    same = np.concatenate([[False], process[1:] == process[:-1]])
    after_invoke = same & np.concatenate([[False], type_[:-1] == INVOKE])
    is_invoke = type_ == INVOKE
    alike = np.concatenate([[False], f[1:] == f[:-1]])
    back = same & np.concatenate([[False], time_ns[1:] < time_ns[:-1]])
    broken = back | (is_invoke & after_invoke) | (~is_invoke & ~(after_invoke & alike))
    bad = np.concatenate([order[broken], np.flatnonzero(lines.index != np.arange(count))])
    pairs = np.flatnonzero(~is_invoke & after_invoke & alike)
    completion[order[pairs - 1]] = order[pairs]
    return completion, int(bad.min()) if len(bad) else None


def reason_of(lines: Lines, position: int, names: list[str]) -> str:
    """Say how the line at a position, the first that is malformed, breaks the rules."""
    mine = np.flatnonzero(lines.process[:position] == lines.process[position])
    open_f, last_ns = None, 0
    if len(mine):
        last_ns = int(lines.time_ns[mine[-1]])
        if lines.type[mine[-1]] == INVOKE:
            open_f = names[int(lines.f[mine[-1]])]
    op = (
        int(lines.index[position]),
        TYPES[int(lines.type[position])],
        names[int(lines.f[position])],
        int(lines.time_ns[position]),
    )
    reason = break_of(op, position, open_f, last_ns)
    assert reason is not None, f"line {position} is malformed without a reason: {op}"
    return reason
