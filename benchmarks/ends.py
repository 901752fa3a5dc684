"""Ends of jobs, read back from the files that the shared body writes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True, slots=True)
class Drain:
    """How a backlog was drained.

    Attributes:
        jobs: Ends seen.
        rate: Jobs a second, the slope between 10 % and 90 % of all ends.
        whole_s: From the first end to the last.
    """

    jobs: int
    rate: float
    whole_s: float


def count_ends(directory: Path) -> int:
    """Count ends without reading them."""
    return sum(path.stat().st_size for path in directory.glob("*.ends")) // 8


def wait_for_ends(directory: Path, jobs: int, deadline_s: float) -> bool:
    """Wait until `jobs` ends are there; False when the deadline passes first."""
    deadline = time.monotonic() + deadline_s
    while count_ends(directory) < jobs:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def read_drain(directory: Path) -> Drain:
    """Read all ends of a folder and compute the rate of the middle 80 %."""
    parts = [np.fromfile(path, dtype="<i8") for path in sorted(directory.glob("*.ends"))]
    ends = np.sort(np.concatenate(parts)) / 1e9
    low, high = int(len(ends) * 0.1), int(len(ends) * 0.9)
    return Drain(len(ends), (high - low) / (ends[high] - ends[low]), float(ends[-1] - ends[0]))
