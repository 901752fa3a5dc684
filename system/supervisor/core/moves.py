"""What one evaluation does: workers stopped and started, within what may move at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .scaling_policy import ScalingPolicy
from .spread import even_out, heaviest


@dataclass(frozen=True, slots=True)
class Place:
    """The workers of one queue, or of the whole list.

    Attributes:
        active: Workers that run or are to run: one that crashed and waits to start again counts.
        draining: Workers that were told to stop and have not ended.
    """

    active: int = 0
    draining: int = 0


@dataclass(frozen=True, slots=True)
class Moves:
    """What to do now.

    Attributes:
        target: Workers that each place should come to have.
        stops: Workers to stop, by place.
        starts: Workers to start, by place.
        is_paced: Whether only the pace keeps it from starting more.
    """

    target: tuple[int, ...]
    stops: tuple[int, ...]
    starts: tuple[int, ...]
    is_paced: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether nothing moves."""
        return not any(self.stops) and not any(self.starts)


def plan_moves(
    policy: ScalingPolicy,
    target: Sequence[int],
    places: Sequence[Place],
    weights: Sequence[float],
    *,
    may_stop: bool = True,
) -> Moves:
    """Plan the way from what is to the target: first who goes, then who comes, from one budget.

    Workers that go only to come back elsewhere never leave the pool more than `max_shift` below
    its target. Whoever drains keeps a slot, so a pool at its bound waits for it.

    Args:
        policy: Bounds and pace.
        target: Workers that each place should have.
        places: Workers that each place has.
        weights: One for each place; the heaviest gets the first worker.
        may_stop: Whether workers may go.
    """
    active = [place.active for place in places]
    have, want = sum(active), sum(target)
    budget = max(policy.max_shift, policy.least - have)
    over = [max(0, has - wanted) for has, wanted in zip(active, target, strict=True)]
    going = max(0, min(budget, sum(over), have - want + policy.max_shift)) if may_stop else 0
    stops = _choose_stops(over, going)
    budget -= going
    if policy.fast_scale_up and want > have:
        budget = max(budget, -((have - want) // 2))
    short = [max(0, wanted - has) for has, wanted in zip(active, target, strict=True)]
    room = max(0, policy.most - have - sum(place.draining for place in places))
    useful = min(sum(short), max(0, want - have + going), room)
    coming = min(budget, useful)
    starts = _choose_starts(short, active, weights, coming)
    return Moves(tuple(target), stops, starts, is_paced=coming < useful)


def _choose_stops(over: Sequence[int], count: int) -> tuple[int, ...]:
    """Take from whoever has the most to spare; of several, from the last."""
    left, stops = list(over), [0] * len(over)
    for _ in range(count):
        place = max(range(len(left)), key=lambda place: (left[place], place))
        left[place] -= 1
        stops[place] += 1
    return tuple(stops)


def _choose_starts(
    short: Sequence[int], active: Sequence[int], weights: Sequence[float], count: int
) -> tuple[int, ...]:
    """Give to places without a worker first, then to the heaviest for one more."""
    left, have, starts = list(short), list(active), [0] * len(short)
    even = even_out(weights)
    for _ in range(count):
        open_ = [place for place, missing in enumerate(left) if missing]
        unserved = [place for place in open_ if have[place] == 0]
        place = heaviest(even, have, unserved or open_)
        left[place] -= 1
        have[place] += 1
        starts[place] += 1
    return tuple(starts)
