"""Which queues a pool's workers serve."""

from __future__ import annotations

import math
from collections.abc import Sequence

from .scaling_policy import Balance, ScalingPolicy


def spread(
    policy: ScalingPolicy, total: int, weights: Sequence[float], offset: int = 0
) -> tuple[int, ...]:
    """Return how many of `total` workers each place gets; the sum is `total`.

    Every place gets its floor, then every backlogged queue without a worker gets one, as far as
    they go; each of the rest goes to the queue with the most weight for one more worker. Ties go
    by declaration.

    Args:
        policy: Bounds; `total` is within them.
        total: Workers to give out.
        weights: One for each queue; see `even_out` for what has none.
        offset: The backlogged queue that is served first when they are more than the workers.
    """
    if policy.balance is Balance.OFF:
        return (total,)
    count = policy.places
    if policy.balance is Balance.SIMPLE:
        return tuple(total // count + (place < total % count) for place in range(count))
    given = [policy.floor] * count
    left = total - sum(given)
    assert left >= 0, f"{total} workers do not make {policy.floor} for each of {count} queues"
    backlogged = [place for place in range(count) if weights[place] > 0]
    start = offset % len(backlogged) if backlogged else 0
    for place in backlogged[start:] + backlogged[:start]:
        if given[place] == 0 and left > 0:
            given[place], left = 1, left - 1
    even = even_out(weights)
    for _ in range(left):
        given[heaviest(even, given, range(count))] += 1
    return tuple(given)


def even_out(weights: Sequence[float]) -> tuple[float, ...]:
    """Return weights that can be divided: all equal when none has any, only the infinite if any."""
    if any(math.isinf(weight) for weight in weights):
        return tuple(1.0 if math.isinf(weight) else 0.0 for weight in weights)
    return tuple(weights) if any(weights) else (1.0,) * len(weights)


def heaviest(weights: Sequence[float], workers: Sequence[int], among: Sequence[int]) -> int:
    """Return the place with the highest weight/(workers + 1); the first one of several."""
    return max(among, key=lambda place: (weights[place] / (workers[place] + 1), -place))
