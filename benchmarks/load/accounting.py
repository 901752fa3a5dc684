"""What processes have cost so far, as the kernel accounts for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def cpu_s(pid: int) -> float:
    """User and system time of all threads of a process, in steps of a clock tick."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def cpus_s(pids: Sequence[int]) -> list[float]:
    """The same for several processes."""
    return [cpu_s(pid) for pid in pids]


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES / (1 << 20)
