"""How long the disk takes, measured beside every figure that depends on it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SYNCS = 200
RECORD_BYTES = 512


@dataclass(frozen=True, slots=True)
class Disk:
    """Percentiles of 200 appends of 512 bytes with fdatasync, and the load average then."""

    fdatasync_ms_p50: float
    fdatasync_ms_p99: float
    load_1m: float


def measure_disk(folder: Path) -> Disk:
    """Append and sync 200 times in a file of this folder."""
    path = folder / "syncs"
    taken_ms = []
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for _ in range(SYNCS):
            os.write(file, b"x" * RECORD_BYTES)
            began = time.perf_counter()
            os.fdatasync(file)
            taken_ms.append(1000 * (time.perf_counter() - began))
    finally:
        os.close(file)
        path.unlink()
    p50, p99 = np.percentile(taken_ms, [50, 99])
    return Disk(float(p50), float(p99), os.getloadavg()[0])
