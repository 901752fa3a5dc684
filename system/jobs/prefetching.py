"""How many jobs a pop asks for when the worker chooses by itself. Pure: durations are arguments."""

from __future__ import annotations

from typing import Final

WORK_S: Final = 0.25
"""A pop asks for about so much work, seconds."""
AUTO_MAX: Final = 16
_WEIGHT: Final = 0.2
"""Share of the newest duration in the mean."""


def jobs_for(mean_s: float | None) -> int:
    """Jobs of this mean duration that make `WORK_S` of work, 1 to 16; None has seen no job."""
    if mean_s is None or mean_s >= WORK_S:
        return 1
    if mean_s * AUTO_MAX <= WORK_S:
        return AUTO_MAX
    return int(WORK_S / mean_s)


class AutoPrefetch:
    """Follows how long jobs take, the newer ones more.

    Attributes:
        mean_s: Weighted mean of the durations, seconds; None while none was seen.
    """

    def __init__(self) -> None:
        """Start without a job."""
        self.mean_s: float | None = None

    def note(self, seconds: float) -> None:
        """Take a job into account that took so long."""
        if self.mean_s is None:
            self.mean_s = seconds
        else:
            self.mean_s += (seconds - self.mean_s) * _WEIGHT

    @property
    def jobs(self) -> int:
        """How many jobs to ask for now."""
        return jobs_for(self.mean_s)
