"""Dispatches of a run as columns: the bulk of `history.jsonl`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from .interning import Names
from .ops import Op, OpType

DispatchStatus = Literal["queued", "duplicate", "scheduled", "rescheduled"]
STATUSES: Final[tuple[DispatchStatus, ...]] = ("queued", "duplicate", "scheduled", "rescheduled")
UNKNOWN: Final = 0
OK: Final = 1
FAIL: Final = 2
RESULT: Final[dict[OpType, int]] = {"ok": OK, "fail": FAIL, "info": UNKNOWN}


class DispatchValue(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What a producer asks for: the value of a dispatch's invocation.

    Attributes:
        job: Id of the job.
        kind: What the workload calls this sort of job.
        queue: Queue it goes to.
        partition: Partition it goes to.
        tries: Pickups before it is given up; 0 for no limit.
        backoff_s: Waits after failed runs; the last one repeats.
        timeout_s: Longest run.
        delay_s: Wished delay.
        not_before_ns: CLOCK_MONOTONIC before which it may not start, or None.
        digest: `payload_digest` of the payload.
        resend: It was sent before, under the same ids.
    """

    job: str
    kind: str = ""
    queue: str = ""
    partition: str | int | None = None
    tries: int = 0
    backoff_s: tuple[float, ...] | float | None = None
    timeout_s: float | None = None
    delay_s: float | None = None
    not_before_ns: int | None = None
    digest: str | None = None
    resend: bool = False


class DispatchAnswer(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What the engine answered: the value of a dispatch's ok completion."""

    status: DispatchStatus
    offset: int | None = None


@dataclass(slots=True)
class DispatchTable:
    """One row for each dispatch that was invoked, in order of invocation.

    Attributes:
        job: Number in the attempt table's `jobs`.
        invoke_ns: When it was invoked.
        done_ns: When it completed; -1 for never.
        result: `OK`, `FAIL` or `UNKNOWN` (info, or no completion).
        status: Index into `STATUSES`; -1 without an ok.
        offset: Offset in the partition; -1 where the engine told none.
        tries: Pickups before it is given up; 0 for no limit.
        timeout_ns: Longest run; -1 for none.
        not_before_ns: Earliest start; -1 for none.
        backoff: Number in `backoffs`.
        partition: Number in `partitions`.
        digest: Digest of the payload, 32 hex digits; empty for none.
        at: Byte offset of the invocation in the file.
        done_at: Byte offset of the completion; -1 for none.
        backoffs: Lists of waits in seconds.
        partitions: `queue/partition`.
        file: `history.jsonl`.
    """

    job: NDArray[np.int32]
    invoke_ns: NDArray[np.int64]
    done_ns: NDArray[np.int64]
    result: NDArray[np.int8]
    status: NDArray[np.int8]
    offset: NDArray[np.int64]
    tries: NDArray[np.int32]
    timeout_ns: NDArray[np.int64]
    not_before_ns: NDArray[np.int64]
    backoff: NDArray[np.int32]
    partition: NDArray[np.int32]
    digest: NDArray[np.bytes_]
    at: NDArray[np.int64]
    done_at: NDArray[np.int64]
    backoffs: list[tuple[float, ...]]
    partitions: Names
    file: str

    def __len__(self) -> int:
        return len(self.job)

    def ops(self, rows: Sequence[int]) -> list[Op]:
        """Read the operations of rows again: each invocation and, where it came, its completion."""
        found = []
        decoder = msgspec.json.Decoder(Op)
        with open(self.file, "rb") as file:
            for row in rows:
                for at in (int(self.at[row]), int(self.done_at[row])):
                    if at >= 0:
                        file.seek(at)
                        found.append(decoder.decode(file.readline()))
        return found
