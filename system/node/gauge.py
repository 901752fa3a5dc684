"""How full a node's disk is, with a gap between getting full and getting free again."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .limits import NodeLimits


@dataclass(frozen=True, slots=True)
class Space:
    """One measurement.

    Attributes:
        used_bytes: In use, of the file system or of the data folder's budget.
        free_bytes: Left for this node.
    """

    used_bytes: int
    free_bytes: int

    @property
    def used_percent(self) -> float:
        """Share in use."""
        total = self.used_bytes + self.free_bytes
        return 100.0 * self.used_bytes / total if total else 100.0


class MeasureSpace(Protocol):
    """Reads the space; raises OSError when the operating system will not say."""

    def __call__(self) -> Space:
        """Measure now."""
        ...


def folder_space(folder: Path, budget_bytes: int | None) -> MeasureSpace:
    """Measure a data folder's file system, or the folder against its budget."""

    def of_file_system() -> Space:
        found = os.statvfs(folder)
        free = found.f_bavail * found.f_frsize
        return Space((found.f_blocks - found.f_bfree) * found.f_frsize, free)

    def of_budget() -> Space:
        assert budget_bytes is not None
        used = _folder_bytes(folder)
        left = max(0, budget_bytes - used)
        return Space(used, min(left, of_file_system().free_bytes))

    return of_file_system if budget_bytes is None else of_budget


def _folder_bytes(folder: Path) -> int:
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_size
            except FileNotFoundError:
                # Renamed or removed by the log meanwhile.
                continue
    return total


class DiskGauge:
    """Says whether the disk is full: from the high mark on, until below the low one.

    Attributes:
        is_full: As of the last measurement.
        space: The last measurement; None before the first, and while it cannot be made.
    """

    def __init__(self, measure: MeasureSpace | None, limits: NodeLimits) -> None:
        self.is_full = False
        self.space: Space | None = None
        self._measure = measure
        self._limits = limits

    def look(self) -> bool:
        """Measure; True when `is_full` has changed. What cannot be measured changes nothing."""
        if self._measure is None:
            return False
        try:
            space = self.space = self._measure()
        except OSError:
            self.space = None
            return False
        before, limits = self.is_full, self._limits
        percent = space.used_percent
        if limits.data_bytes_max is None and space.free_bytes >= limits.disk_enough_bytes:
            self.is_full = False
        elif percent >= limits.disk_high_percent and limits.disk_high_percent < 100:
            self.is_full = True
        elif percent < limits.disk_low_percent:
            self.is_full = False
        return self.is_full is not before
