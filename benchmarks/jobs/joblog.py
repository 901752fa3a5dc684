"""The body's log of one phase, read back: exactly once? how fast? how long from the dispatch?"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..peers.body import RECORD


@dataclass(frozen=True, slots=True)
class JobLog:
    """What the body logged.

    Attributes:
        lost: Numbers without an end.
        repeated: Numbers with more than one start or end.
        unknown: Records with a number that nobody sent.
        ends_ns: When jobs ended, sorted.
        latencies_ms: From just before a dispatch to its job's end, sorted.
        pids: Processes that ran jobs.
    """

    lost: int
    repeated: int
    unknown: int
    ends_ns: np.ndarray[tuple[int], np.dtype[np.int64]]
    latencies_ms: np.ndarray[tuple[int], np.dtype[np.float64]]
    pids: frozenset[int]

    @property
    def is_exact(self) -> bool:
        """Whether each job ran once."""
        return not (self.lost or self.repeated or self.unknown)

    def slope(self) -> float:
        """Jobs a second between 10 % and 90 % of all ends."""
        low, high = int(len(self.ends_ns) * 0.1), int(len(self.ends_ns) * 0.9)
        return float((high - low) / (self.ends_ns[high] - self.ends_ns[low]) * 1e9)

    def latency_ms(self, percent: float) -> float:
        """A percentile of the latencies."""
        return float(np.percentile(self.latencies_ms, percent))


def records(directory: Path) -> int:
    """Count records without reading them; a job that ran once has two."""
    return sum(path.stat().st_size for path in directory.glob("*.log")) // RECORD.size


def wait_for_jobs(
    directory: Path, jobs: int, deadline_s: float, watch: Callable[[int], None] | None = None
) -> None:
    """Wait until so many jobs have ended, as far as the number of records tells.

    Args:
        directory: Of the logs.
        jobs: How many.
        deadline_s: How long, at most.
        watch: Called with the number of jobs, every 50 ms.

    Raises:
        TimeoutError: They have not.
    """
    deadline = time.monotonic() + deadline_s
    while (seen := records(directory) // 2) < jobs:
        if watch is not None:
            watch(seen)
        if time.monotonic() > deadline:
            raise TimeoutError(f"{seen} of {jobs} jobs ended within {deadline_s:g} s")
        time.sleep(0.05)


def read_log(directory: Path, jobs: int) -> JobLog:
    """Read all logs of a phase whose jobs are numbered from 0."""
    paths = sorted(directory.glob("*.log"))
    parts = [np.fromfile(path, dtype="<i8").reshape(-1, 4) for path in paths]
    rows = np.concatenate(parts) if parts else np.empty((0, 4), dtype=np.int64)
    known = (rows[:, 0] >= 0) & (rows[:, 0] < jobs)
    starts = np.bincount(rows[known & (rows[:, 1] == 0), 0], minlength=jobs)
    ends = np.bincount(rows[known & (rows[:, 1] == 1), 0], minlength=jobs)
    ended = rows[known & (rows[:, 1] == 1)]
    return JobLog(
        lost=int(np.count_nonzero(ends == 0)),
        repeated=int(np.count_nonzero((starts > 1) | (ends > 1))),
        unknown=int(np.count_nonzero(~known)),
        ends_ns=np.sort(ended[:, 3]),
        latencies_ms=np.sort((ended[:, 3] - ended[:, 2]) / 1e6),
        pids=frozenset(int(path.stem) for path in paths),
    )
