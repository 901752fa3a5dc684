"""Each rule of a pool's size, one table each."""

from __future__ import annotations

import math

import pytest

from atleastonce.system.supervisor.core.demand import Portion, QueueLoad, demand
from atleastonce.system.supervisor.core.moves import Moves, Place, plan_moves
from atleastonce.system.supervisor.core.scaling import WAKE_US, Scaler
from atleastonce.system.supervisor.core.scaling_policy import Balance, ScalingPolicy, Strategy
from atleastonce.system.supervisor.core.spread import spread

S = 1_000_000


def loads(*depths: int) -> list[QueueLoad]:
    return [QueueLoad(depth) for depth in depths]


def places(*active: int) -> list[Place]:
    return [Place(count) for count in active]


@pytest.mark.parametrize(
    ("depths", "total"),
    [((0,), 1), ((1,), 1), ((10,), 1), ((11,), 2), ((95,), 10), ((5000,), 10)],
)
def test_size_is_backlog_by_jobs_per_worker_rounded_up_within_bounds(
    depths: tuple[int, ...], total: int
) -> None:
    policy = ScalingPolicy(queues=1, max_processes=10)
    assert demand(policy, loads(*depths)) == (total, 0)


@pytest.mark.parametrize(
    ("depth", "runtime_us", "total"),
    [
        (0, math.inf, 2),
        (60, None, 2),
        (180, None, 3),
        (181, None, 4),
        (60, 5.0 * S, 5),
        (60, 0.0, 2),
        (1, math.inf, 9),
        (1, math.nan, 9),
        (10**300, 1e300, 9),
    ],
)
def test_time_is_work_by_time_to_clear_and_what_is_no_number_is_the_most(
    depth: int, runtime_us: float | None, total: int
) -> None:
    policy = ScalingPolicy(queues=1, strategy=Strategy.TIME, min_processes=2, max_processes=9)
    assert demand(policy, [QueueLoad(depth, runtime_us)]) == (total, 0)


def test_automatic_balance_covers_every_backlogged_queue_and_no_balance_does_not() -> None:
    depths = loads(1, 0, 1, 1)
    assert demand(ScalingPolicy(queues=4), depths) == (3, 0)
    assert demand(ScalingPolicy(queues=4, balance=Balance.OFF), depths) == (1, 0)


def test_a_portion_is_bounded_and_covers_its_own_queues() -> None:
    policy = ScalingPolicy(queues=4, min_processes=1, max_processes=5)
    assert demand(policy, loads(1, 1, 1, 1), lambda t, b: Portion(0, 2, 2)) == (2, 2)
    assert demand(policy, loads(90, 0, 0, 0), Portion) == (5, 0)
    assert demand(policy, loads(0, 0, 0, 0), lambda t, b: Portion(t // 2, b)) == (1, 0)


@pytest.mark.parametrize(
    ("total", "weights", "offset", "given"),
    [
        (1, (0.0, 0.0), 0, (1, 0)),
        (4, (0.0, 0.0), 0, (2, 2)),
        (2, (1.0, 99.0), 0, (1, 1)),
        (6, (1.0, 99.0), 0, (1, 5)),
        (4, (10.0, 10.0), 0, (2, 2)),
        (3, (10.0, 10.0), 0, (2, 1)),
        (1, (5.0, 900.0), 0, (1, 0)),
        (1, (5.0, 900.0), 1, (0, 1)),
        (4, (math.inf, 5.0), 0, (3, 1)),
        (3, (0.0, 7.0), 0, (0, 3)),
    ],
)
def test_workers_go_to_unserved_backlogs_then_to_the_most_weight_for_one_more(
    total: int, weights: tuple[float, ...], offset: int, given: tuple[int, ...]
) -> None:
    assert spread(ScalingPolicy(queues=2), total, weights, offset) == given


def test_every_queue_keeps_its_floor() -> None:
    policy = ScalingPolicy(queues=3, min_per_queue=2, max_processes=10)
    assert policy.least == 6
    assert spread(policy, 7, (0.0, 0.0, 40.0)) == (2, 2, 3)


def test_a_simple_pool_is_spread_evenly_and_ignores_backlogs() -> None:
    policy = ScalingPolicy(queues=3, balance=Balance.SIMPLE, processes=8)
    scaler = Scaler(policy)
    moves = scaler.evaluate(0, loads(0, 900, 0), places(0, 0, 0))
    assert moves.starts == (3, 3, 2)


def test_no_balance_puts_all_on_the_list() -> None:
    policy = ScalingPolicy(queues=3, balance=Balance.OFF, max_processes=7)
    assert Scaler(policy).evaluate(0, loads(50, 50, 50), places(0)).target == (7,)


@pytest.mark.parametrize(
    ("target", "active", "stops", "starts", "changes"),
    [
        ((9,), (1,), (0,), (1,), {}),
        ((9,), (1,), (0,), (3,), {"max_shift": 3}),
        ((9,), (0,), (0,), (4,), {"min_processes": 4}),
        ((9,), (1,), (0,), (4,), {"fast_scale_up": True}),
        ((8,), (1,), (0,), (4,), {"fast_scale_up": True}),
        ((1,), (9,), (1,), (0,), {"fast_scale_up": True}),
        ((1,), (9,), (2,), (0,), {"max_shift": 2}),
        ((5, 5), (9, 1), (1, 0), (0, 0), {}),
        ((5, 5), (8, 1), (0, 0), (0, 1), {}),
        ((5, 5), (9, 1), (2, 0), (0, 0), {"max_shift": 2}),
        ((5, 5), (7, 1), (0, 0), (0, 2), {"max_shift": 2}),
        ((1, 5, 0), (1, 1, 1), (0, 0, 0), (0, 1, 0), {}),
        ((0, 2, 1), (3, 0, 0), (1, 0, 0), (0, 0, 0), {}),
    ],
)
def test_one_budget_pays_first_for_those_who_go_then_for_those_who_come(
    target: tuple[int, ...],
    active: tuple[int, ...],
    stops: tuple[int, ...],
    starts: tuple[int, ...],
    changes: dict[str, int],
) -> None:
    policy = ScalingPolicy(queues=len(target), max_processes=10, **changes)  # type: ignore[arg-type]
    moves = plan_moves(policy, target, places(*active), [1.0] * len(target))
    assert (moves.stops, moves.starts) == (stops, starts)


def test_draining_workers_keep_their_slots() -> None:
    policy = ScalingPolicy(queues=2, max_processes=10, max_shift=10)
    moves = plan_moves(policy, (4, 6), [Place(4, 0), Place(1, 3)], (1.0, 1.0))
    assert moves.starts == (0, 2)
    assert not moves.is_paced


def test_a_wake_never_moves_workers_between_queues() -> None:
    policy = ScalingPolicy(queues=2, max_processes=20)
    moves = plan_moves(policy, (5, 5), places(9, 1), (1.0, 1.0), may_stop=False)
    assert moves.is_nothing


def sized(scaler: Scaler, at_s: float, depth: int, active: int) -> Moves:
    return scaler.evaluate(round(at_s * S), loads(depth), places(active))


def test_workers_go_only_when_one_lower_total_has_held() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, max_shift=5))
    assert sized(scaler, 0, 100, 10).is_nothing
    assert sized(scaler, 3, 20, 10).is_nothing
    assert sized(scaler, 6, 20, 10).is_nothing
    assert sized(scaler, 9, 30, 10).is_nothing, "another lower total"
    assert sized(scaler, 12, 30, 10).is_nothing
    assert sized(scaler, 16, 30, 10).is_nothing
    assert sized(scaler, 19, 30, 10).stops == (5,)
    assert sized(scaler, 22, 30, 5).stops == (2,)


def test_a_backlog_that_comes_back_ends_the_wait() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, max_shift=5))
    assert sized(scaler, 0, 20, 10).is_nothing
    assert sized(scaler, 9, 100, 10).is_nothing
    assert sized(scaler, 12, 20, 10).is_nothing
    assert sized(scaler, 19, 20, 10).is_nothing
    assert sized(scaler, 22, 20, 10).stops == (5,)


def test_the_cooldown_is_counted_from_the_last_whole_evaluation() -> None:
    scaler = Scaler(ScalingPolicy(queues=1), listens=True)
    assert scaler.is_due(0)
    sized(scaler, 0, 0, 1)
    assert not scaler.is_due(2_999_999)
    scaler.wake()
    sized(scaler, 1.5, 30, 1)
    assert scaler.is_due(3 * S)


def test_an_evaluation_inside_the_cooldown_only_adds() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, scale_down_delay_us=0), listens=True)
    sized(scaler, 0, 90, 9)
    assert sized(scaler, 1, 0, 9).is_nothing
    assert sized(scaler, 1, 100, 9).starts == (1,)
    assert sized(scaler, 3, 0, 9).stops == (1,)


def test_a_wake_is_answered_a_second_after_the_last_evaluation_at_the_soonest() -> None:
    scaler = Scaler(ScalingPolicy(queues=1), listens=True)
    sized(scaler, 0, 0, 1)
    assert scaler.next_us() is None
    scaler.wake()
    assert scaler.next_us() == WAKE_US
    sized(scaler, 1, 1, 1)
    assert scaler.next_us() is None


def test_a_pool_held_back_by_its_pace_climbs_every_second() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, max_processes=4), listens=True)
    sized(scaler, 0, 0, 1)
    scaler.wake()
    climbed = 1
    while (at_us := scaler.next_us()) is not None:
        climbed += sum(scaler.evaluate(at_us, loads(100), places(climbed)).starts)
    assert (climbed, at_us) == (4, None)


def test_a_pool_that_waits_for_a_draining_worker_does_not_climb() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, max_processes=4), listens=True)
    scaler.evaluate(0, loads(100), [Place(3, 1)])
    assert scaler.next_us() is None


def test_a_pool_with_all_its_workers_does_not_wake() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, max_processes=4), listens=True)
    sized(scaler, 0, 100, 4)
    scaler.wake()
    assert scaler.next_us() is None


def test_a_pool_that_nobody_tells_neither_wakes_nor_climbs() -> None:
    for scaler in (
        Scaler(ScalingPolicy(queues=1)),
        Scaler(ScalingPolicy(queues=1, min_processes=4, max_processes=4), listens=True),
    ):
        sized(scaler, 0, 100, 1)
        scaler.wake()
        assert scaler.next_us() is None


def test_an_unreadable_depth_keeps_the_last_target() -> None:
    scaler = Scaler(ScalingPolicy(queues=1, max_shift=2))
    assert sized(scaler, 0, 50, 1).starts == (2,)
    assert scaler.evaluate(3 * S, None, places(3)) == Moves((5,), (0,), (2,))
    assert scaler.evaluate(6 * S, None, places(5)).is_nothing


def test_a_first_poll_that_fails_treats_every_queue_as_one_job() -> None:
    scaler = Scaler(ScalingPolicy(queues=3, max_shift=9))
    assert scaler.evaluate(0, None, places(0, 0, 0)).starts == (1, 1, 1)
    assert scaler.evaluate(3 * S, None, places(1, 1, 1)).is_nothing
