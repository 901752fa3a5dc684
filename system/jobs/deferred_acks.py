"""Finished jobs of one batch whose acks are to go out together. Pure: times are arguments."""

from __future__ import annotations

from typing import Final

from ..client import AckResult, Pending
from .batch import Batch

DEFER_SHARE: Final = 0.25
"""Share of its lease after which an ack is on the wire, whatever runs."""
_ALARM_S_MIN: Final = 0.001


class DeferredAcks:
    """What waits, and the request once it is on the wire.

    Attributes:
        jobs: Index in the batch and run of each, in order; they were sent if `pending` is set.
        batch: The batch of all of them; None when there are none.
        due_ns: CLOCK_MONOTONIC until which the first may wait.
        pending: The request, while its answer was not read.
    """

    def __init__(self, jobs_max: int) -> None:
        """Wait for so many jobs at most."""
        self.jobs_max = jobs_max
        self.jobs: list[tuple[int, str]] = []
        self.batch: Batch | None = None
        self.due_ns = 0
        self.pending: Pending[tuple[AckResult, ...]] | None = None

    def add(self, batch: Batch, index: int, run: str, now_ns: int) -> None:
        """A job has ended; it is of the same batch as those that wait."""
        assert self.pending is None, "an ack is added to a request that is on the wire"
        if not self.jobs:
            self.batch = batch
            self.due_ns = now_ns + round(batch.lease_s * DEFER_SHARE * 1e9)
        assert self.batch is batch, f"acks of {batch.lease} wait for those of another batch"
        self.jobs.append((index, run))

    def clear(self) -> None:
        """Nothing waits any more."""
        self.jobs, self.batch, self.pending = [], None, None

    def is_complete(self, now_ns: int) -> bool:
        """Whether what waits should go out before another job starts."""
        return len(self.jobs) >= self.jobs_max or self.is_due(now_ns)

    def is_due(self, now_ns: int) -> bool:
        """Whether something has waited as long as it may."""
        return bool(self.jobs) and self.pending is None and now_ns >= self.due_ns

    def alarm_s(self, timeout_s: float, now_ns: int) -> float:
        """When to interrupt a job that starts now, seconds: at its timeout, or to send in time.

        Args:
            timeout_s: The job's timeout; 0 is none.
            now_ns: CLOCK_MONOTONIC.

        Returns:
            Seconds from now; 0 is never.
        """
        if not self.jobs or self.pending is not None:
            return timeout_s
        wait_s = max(_ALARM_S_MIN, (self.due_ns - now_ns) / 1e9)
        return wait_s if timeout_s <= 0 else min(wait_s, timeout_s)
