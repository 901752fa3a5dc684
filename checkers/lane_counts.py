"""The rule of a failure lane about what the broker counts of its jobs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from .findings import Finding
from .lane_contract import CountsExpected
from .world import World

COUNT_JOBS: Final = "count-jobs"
"""Operation whose ok value is what the broker had counted by then; see `JobCounts`."""


class JobCounts(msgspec.Struct, frozen=True):
    """What the broker says of the queue since the beginning.

    Attributes:
        processed: Messages acknowledged as done.
        failed: Messages acknowledged as failed.
        dead: Dead letters that are there.
    """

    processed: int
    failed: int
    dead: int


def read_counts(world: World) -> list[tuple[int, JobCounts]]:
    """Return all answers with their times, in order."""
    return [
        (op.time_ns, msgspec.convert(op.value, JobCounts))
        for op in world.run.ops
        if op.f == COUNT_JOBS and op.type == "ok"
    ]


def judge_counts(world: World, expected: Sequence[CountsExpected]) -> Iterator[Finding]:
    """Yield where the broker counted otherwise than the lane expects."""
    for (at, counts), wanted in zip(read_counts(world), expected, strict=False):
        told = (counts.processed, counts.failed, counts.dead)
        if told != (wanted.processed, wanted.failed, wanted.failed):
            text = (
                f"the broker counted {counts.processed} jobs processed, {counts.failed} failed and "
                f"{counts.dead} dead letters; the lane expects {wanted.processed}, "
                f"{wanted.failed} and {wanted.failed}"
            )
            yield Finding("lane-counts", None, text, at, at)
