"""Rules about progress: late, hand-back-late, stall."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .capacity import DUE, HANDED_BACK, NOT_JUDGED, Capacity
from .findings import Finding, seconds
from .intervals import Interval, intersect
from .world import World

_WAITING_MAX = 2000


def judge_late(world: World, capacity: Capacity) -> Iterator[Finding]:
    """A ready job that waited past the bound while a worker was free."""
    bound_ns = world.ns("late_s")
    idle = capacity.idle(bound_ns, world.windows.open)
    for delivery, free in capacity.overdue(DUE, bound_ns, idle):
        yield _finding(world, capacity, "late", "it was ready", delivery, free, bound_ns)


def judge_hand_back_late(world: World, capacity: Capacity) -> Iterator[Finding]:
    """An unstarted job of a dead worker that was not delivered again in time."""
    bound_ns = world.ns("hand_back_s")
    idle = capacity.idle(bound_ns, world.windows.open_beside_workers)
    what = "the worker that held it unstarted was dead"
    for delivery, free in capacity.overdue(HANDED_BACK, bound_ns, idle):
        yield _finding(world, capacity, "hand-back-late", what, delivery, free, bound_ns)


def _finding(
    world: World,
    capacity: Capacity,
    rule: str,
    what: str,
    delivery: int,
    free: Interval,
    bound_ns: int,
) -> Finding:
    ready_ns = int(capacity.waits.ready_ns[delivery])
    taken_ns = int(capacity.waits.taken_ns[delivery])
    return Finding(
        rule,
        int(world.facts.deliveries.job[delivery]),
        f"{what} {seconds(taken_ns - ready_ns)} before a worker claimed it; for "
        f"{seconds(free[1] - free[0])} of that a worker was free, its partition was not held and "
        "no fault window that could excuse it was open",
        ready_ns,
        taken_ns,
        doubt=world.starvation.doubt(free, bound_ns),
    )


def judge_stall(world: World, capacity: Capacity) -> Iterator[Finding]:
    """Nothing started though jobs were ready, workers free and no fault window open."""
    bound_ns = world.ns("stall_s")
    starts = np.sort(world.facts.deliveries.start_ns)
    starts = starts[starts >= 0]
    at = np.flatnonzero(np.diff(starts) > bound_ns)
    pauses = list(zip(starts[at].tolist(), starts[at + 1].tolist(), strict=True))
    idle = capacity.idle(bound_ns, world.windows.open) if pauses else []
    for pause in pauses:
        found = _stalled(capacity, pause, idle, bound_ns)
        if found is None:
            continue
        delivery, (start, end) = found
        yield Finding(
            "stall",
            int(world.facts.deliveries.job[delivery]),
            f"nothing started for {seconds(end - start)} while this job was ready, its partition "
            "not held, a worker free and no fault window open",
            start,
            end,
            doubt=world.starvation.doubt((start, end), bound_ns),
        )


def _stalled(
    capacity: Capacity, pause: Interval, idle: list[Interval], bound_ns: int
) -> tuple[int, Interval] | None:
    """The wait of which most was not starved; one that breaks the bound without that is enough."""
    waits = capacity.waits
    found: tuple[int, Interval] | None = None
    for free in idle:
        quiet = intersect(pause, free)
        if quiet is None or quiet[1] - quiet[0] <= bound_ns:
            continue
        common = np.minimum(waits.taken_ns, quiet[1]) - np.maximum(waits.ready_ns, quiet[0])
        waiting = np.flatnonzero((waits.kind != NOT_JUDGED) & (common > bound_ns))
        for delivery in waiting[:_WAITING_MAX].tolist():
            wait = (int(waits.ready_ns[delivery]), int(waits.taken_ns[delivery]))
            shared = intersect(wait, quiet)
            part = capacity.longest_unheld(delivery, shared) if shared else None
            if part is None or part[1] - part[0] <= bound_ns:
                continue
            if found is None or capacity.left_ns(part) > capacity.left_ns(found[1]):
                found = delivery, part
            if capacity.left_ns(part) > bound_ns:
                return found
    return found
