"""How many workers a backlog asks for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .scaling_policy import Balance, ScalingPolicy, Strategy


@dataclass(frozen=True, slots=True)
class QueueLoad:
    """What one queue holds.

    Attributes:
        depth: Jobs without an ack, running ones included, delayed ones not.
        runtime_us: How long its jobs took lately; None when none has been seen.
    """

    depth: int
    runtime_us: float | None = None


@dataclass(frozen=True, slots=True)
class Portion:
    """What of the whole demand is this supervisor's own.

    Attributes:
        target: Workers.
        cover: Backlogged queues that it must be able to serve at once.
        offset: The backlogged queue, counted from 0, that it serves first.
    """

    target: int
    cover: int
    offset: int = 0


Share = Callable[[int, int], Portion]
"""Takes the workers that the whole backlog asks for, and how many queues have one."""


def alone(target: int, backlogged: int) -> Portion:
    """Return the portion of a supervisor that shares with nobody: all of it."""
    return Portion(target, backlogged)


def weigh(policy: ScalingPolicy, loads: Sequence[QueueLoad]) -> tuple[float, ...]:
    """Return each queue's weight: jobs (`SIZE`) or microseconds of work (`TIME`).

    A weight that cannot be computed is infinite: what is unknown must not look like nothing.
    """
    return tuple(_weight(policy, load) for load in loads)


def _weight(policy: ScalingPolicy, load: QueueLoad) -> float:
    if load.depth <= 0:
        return 0.0
    if policy.strategy is Strategy.SIZE:
        return float(load.depth)
    runtime_us = policy.default_runtime_us if load.runtime_us is None else load.runtime_us
    weight = load.depth * float(runtime_us)
    return math.inf if math.isnan(weight) else max(0.0, weight)


def count_needed(policy: ScalingPolicy, weights: Sequence[float]) -> int | None:
    """Return how many workers the weights ask for, without bounds; None is without number."""
    unit = policy.jobs_per_process if policy.strategy is Strategy.SIZE else policy.clear_us
    needed = sum(weights) / unit
    return math.ceil(needed) if math.isfinite(needed) else None


def bound(policy: ScalingPolicy, total: int) -> int:
    """Return the allowed number of workers that is nearest to `total`."""
    return min(max(total, policy.least), policy.most)


def demand(
    policy: ScalingPolicy, loads: Sequence[QueueLoad], share: Share = alone
) -> tuple[int, int]:
    """Return (workers that this pool should have, the backlogged queue it serves first).

    Args:
        policy: Bounds.
        loads: One for each queue.
        share: Splits the demand among supervisors; a `SIMPLE` pool is never split.
    """
    if policy.balance is Balance.SIMPLE:
        return policy.processes, 0
    backlogged = sum(load.depth > 0 for load in loads)
    needed = count_needed(policy, weigh(policy, loads))
    if needed is None:
        return policy.most, share(policy.most, backlogged).offset
    portion = share(needed, backlogged)
    total = portion.target
    if policy.balance is Balance.AUTO:
        total = max(total, portion.cover)
    return bound(policy, total), portion.offset
