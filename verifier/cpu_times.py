"""What the kernel tells of threads that ran, and of threads that stood in line for a core."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NS: Final = 1_000_000_000
_IDLE: Final = (3, 4)
_STOLEN: Final = 7
_STATES: Final = 8


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """One thread since it began.

    Attributes:
        ran_ns: On a core.
        waited_ns: Ready to run, and on none. A thread that sleeps or is stopped does not wait.
    """

    ran_ns: int
    waited_ns: int


@dataclass(frozen=True, slots=True)
class MachineTimes:
    """All cores that this process may use, since the machine began.

    Attributes:
        busy_ns: Spent on anything that runs here.
        stolen_ns: Spent by the host of a virtual machine on others.
    """

    busy_ns: int
    stolen_ns: int


class CpuTimes:
    """Reads the counters of /proc.

    Args:
        root: Where /proc is.
    """

    def __init__(self, root: Path = Path("/proc")) -> None:
        self._root = root
        usable = sorted(os.sched_getaffinity(0))
        self._names = frozenset(f"cpu{core}" for core in usable)
        self._tick_ns = _NS // os.sysconf("SC_CLK_TCK")
        self.cores = len(usable)

    def threads(self, pid: int) -> Mapping[int, ThreadTimes]:
        """Return the times of a process's threads by their ids; empty if it is gone.

        Empty as well where the kernel keeps no such figures.
        """
        folder = self._root / str(pid) / "task"
        found: dict[int, ThreadTimes] = {}
        try:
            for thread in os.listdir(folder):
                ran, waited, _ = (folder / thread / "schedstat").read_text(encoding="ascii").split()
                found[int(thread)] = ThreadTimes(int(ran), int(waited))
        except (OSError, ValueError):
            return found  # It ended while we looked; what was read stands.
        return found

    def machine(self) -> MachineTimes:
        """Return the times of all usable cores together.

        Raises:
            OSError: There is no /proc/stat.
        """
        busy = stolen = 0
        for line in (self._root / "stat").read_text(encoding="ascii").splitlines():
            name, *cells = line.split()
            if name in self._names:
                ticks = [int(cell) for cell in cells[:_STATES]]
                stolen += ticks[_STOLEN]
                busy += sum(ticks) - ticks[_STOLEN] - sum(ticks[at] for at in _IDLE)
        return MachineTimes(busy * self._tick_ns, stolen * self._tick_ns)
