"""When a pool is sized anew, and what comes of it: cooldown, patience before it shrinks, wakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .demand import QueueLoad, Share, alone, demand, weigh
from .moves import Moves, Place, plan_moves
from .scaling_policy import Balance, ScalingPolicy
from .spread import spread

WAKE_US: Final = 1_000_000
"""Least time between an evaluation and one that a wake asks for."""

_UNKNOWN: Final = QueueLoad(depth=1)


class Scaler:
    """The size of one pool, evaluation by evaluation.

    A poll evaluates it whenever `is_due`. Whoever hears of new jobs says `wake`, and evaluates at
    `next_us`, too; such an evaluation inside the cooldown only adds workers. After it, a pool
    that only its pace keeps from growing asks for the next one by itself.

    Args:
        policy: Bounds and pace.
        listens: Whether somebody says `wake`; without, a pool grows at polls alone.
    """

    __slots__ = (
        "_at_most",
        "_climbs",
        "_last_us",
        "_listens",
        "_lower",
        "_policy",
        "_target",
        "_weights",
        "_whole_us",
        "_woken",
    )

    def __init__(self, policy: ScalingPolicy, *, listens: bool = False) -> None:
        self._policy = policy
        self._listens = listens and policy.is_elastic
        self._target: tuple[int, ...] | None = None
        self._weights: tuple[float, ...] = (0.0,) * policy.places
        self._lower: tuple[int, int] | None = None
        self._last_us: int | None = None
        self._whole_us: int | None = None
        self._woken = False
        self._climbs = False
        self._at_most = False

    @property
    def listens(self) -> bool:
        """Whether a wake may change anything."""
        return self._listens

    @property
    def target(self) -> tuple[int, ...] | None:
        """Workers that each place should come to have; None before the first evaluation."""
        return self._target

    def is_due(self, now_us: int) -> bool:
        """Tell whether the cooldown is over."""
        return self._whole_us is None or now_us - self._whole_us >= self._policy.cooldown_us

    def wake(self) -> None:
        """Note that jobs came; a pool that has all its workers does not care."""
        self._woken = self._listens and not self._at_most

    def next_us(self) -> int | None:
        """Return when to evaluate before the next poll, or None."""
        if not (self._woken or self._climbs) or self._last_us is None:
            return None
        return self._last_us + WAKE_US

    def evaluate(
        self,
        now_us: int,
        loads: Sequence[QueueLoad] | None,
        places: Sequence[Place],
        share: Share = alone,
    ) -> Moves:
        """Size the pool anew.

        Args:
            now_us: When the loads were asked for.
            loads: One for each queue, or None when they cannot be read: then the last target
                stands, and before the first one every queue counts as holding one job.
            places: The workers of each place.
            share: What of the demand is this supervisor's own.

        Returns:
            What to stop and start; the caller does it before it evaluates again.
        """
        policy = self._policy
        is_whole = self.is_due(now_us)
        if loads is None and self._target is None:
            loads = [_UNKNOWN] * policy.queues
        if loads is not None:
            self._aim(now_us, loads, places, share, is_whole)
        assert self._target is not None, "a pool without a target"
        moves = plan_moves(policy, self._target, places, self._weights, may_stop=is_whole)
        if is_whole:
            self._whole_us = now_us
        self._last_us, self._woken = now_us, False
        self._climbs = self._listens and moves.is_paced
        # Who drains here makes room in a moment, and then a poll fills it.
        have = sum(place.active for place in places) + sum(moves.starts) - sum(moves.stops)
        self._at_most = have >= policy.most
        return moves

    def _aim(
        self,
        now_us: int,
        loads: Sequence[QueueLoad],
        places: Sequence[Place],
        share: Share,
        is_whole: bool,
    ) -> None:
        policy = self._policy
        assert len(loads) == policy.queues, f"{len(loads)} loads of {policy.queues} queues"
        have = sum(place.active for place in places)
        total, offset = demand(policy, loads, share)
        weights = weigh(policy, loads)
        total = self._held(now_us, total, have, is_whole)
        self._target = spread(policy, total, weights, offset)
        self._weights = (sum(weights),) if policy.balance is Balance.OFF else weights

    def _held(self, now_us: int, total: int, have: int, is_whole: bool) -> int:
        """Return the total to aim for: what there is, until one lower total has held."""
        if total >= have:
            self._lower = None
            return total
        if is_whole and (self._lower is None or self._lower[0] != total):
            self._lower = (total, now_us)
        if self._lower is None or self._lower[0] != total:
            return min(have, self._policy.most)
        has_held = now_us - self._lower[1] >= self._policy.scale_down_delay_us
        return total if has_held else min(have, self._policy.most)
