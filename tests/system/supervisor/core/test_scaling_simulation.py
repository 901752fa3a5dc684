"""The pool in virtual time: 600 jobs of five seconds, one to twenty workers, and what follows."""

from __future__ import annotations

from itertools import pairwise

from atleastonce.system.supervisor.core.demand import Portion
from atleastonce.system.supervisor.core.scaling_policy import Balance, ScalingPolicy, Strategy

from .simulated_pool import FORK_US, READ_US, WAKE_PATH_US, S, SimulatedPool

BURST_JOBS = 600
IDLE_US = 30 * S
_START_US = READ_US + FORK_US


def burst(
    period_us: int, offset_us: int, *, fast: bool, listens: bool = False
) -> tuple[int, int, SimulatedPool]:
    """Let a burst meet an idle pool of one; return when the second and the twentieth worker ran.

    Args:
        period_us: Poll interval and cooldown.
        offset_us: How long after a poll the burst comes.
        fast: Whether growth is fast.
        listens: Whether pushes wake the pool.
    """
    policy = ScalingPolicy(queues=1, max_processes=20, cooldown_us=period_us, fast_scale_up=fast)
    pool = SimulatedPool(policy, period_us, listens=listens)
    came_us = IDLE_US + offset_us
    pool.push(came_us, 0, BURST_JOBS)
    pool.run(IDLE_US + 60 * S)
    second_us, twentieth_us = pool.time_to_us(2), pool.time_to_us(20)
    assert second_us is not None
    assert twentieth_us is not None
    return second_us - came_us, twentieth_us - came_us, pool


def test_stepwise_growth_takes_nineteen_polls_of_a_second() -> None:
    for offset_us in (1, S // 2, S - 1):
        _, twenty_us, _ = burst(S, offset_us, fast=False)
        assert twenty_us == 19 * S - offset_us + _START_US


def test_fast_growth_takes_five_polls_of_a_second() -> None:
    for offset_us in (1, S // 2, S - 1):
        _, twenty_us, _ = burst(S, offset_us, fast=True)
        assert twenty_us == 5 * S - offset_us + _START_US


def test_polled_growth_takes_five_polls_of_three_seconds() -> None:
    for offset_us in (1, S, 3 * S - 1):
        two_us, twenty_us, _ = burst(3 * S, offset_us, fast=True)
        assert two_us == 3 * S - offset_us + _START_US
        assert twenty_us == 15 * S - offset_us + _START_US


def test_woken_growth_begins_within_a_second_and_climbs_every_second() -> None:
    for offset_us in (1, S // 2, 3 * S // 2, 5 * S // 2):
        two_us, twenty_us, pool = burst(3 * S, offset_us, fast=True, listens=True)
        wait_us = max(0, S - offset_us - WAKE_PATH_US)
        assert two_us == WAKE_PATH_US + wait_us + _START_US
        assert twenty_us <= two_us + 4 * S
        polls = {at_us for at_us in pool.evaluations if at_us % (3 * S) == 0}
        for before_us, at_us in pairwise(pool.evaluations):
            assert at_us in polls or at_us - before_us >= S


def test_the_backlog_is_worked_off_and_the_pool_returns_to_one_worker() -> None:
    _, _, pool = burst(S, S // 2, fast=True)
    pool.run(400 * S)
    assert pool.finished[0] == BURST_JOBS
    assert pool.size() == 1


def test_a_stopped_worker_finishes_its_job() -> None:
    policy = ScalingPolicy(queues=1, max_processes=8, scale_down_delay_us=0, cooldown_us=S)
    pool = SimulatedPool(policy, S)
    pool.push(0, 0, 60)
    pool.run(200 * S)
    assert pool.finished[0] == 60
    assert pool.workers[0].place == 0
    assert len(pool.workers) == 1


def test_unreadable_depths_leave_the_pool_where_it_was_going() -> None:
    policy = ScalingPolicy(queues=1, max_processes=6, cooldown_us=S)
    pool = SimulatedPool(policy, S, readable=lambda now_us: now_us < 3 * S or now_us > 100 * S)
    pool.push(0, 0, 5000)
    pool.run(100 * S)
    assert pool.size() == 6


def test_a_second_queue_gets_workers_from_a_full_pool() -> None:
    policy = ScalingPolicy(queues=2, max_processes=10, cooldown_us=S, fast_scale_up=True)
    pool = SimulatedPool(policy, S, job_us=S)
    pool.push(0, 0, 4000)
    pool.run(20 * S)
    assert [place.active for place in pool.places()] == [10, 0]
    pool.push(20 * S, 1, 4000)
    pool.run(60 * S)
    assert [place.active for place in pool.places()] == [5, 5]


def test_two_supervisors_that_share_have_the_target_between_them() -> None:
    def half(target: int, backlogged: int) -> Portion:
        return Portion(target // 2, backlogged)

    policy = ScalingPolicy(queues=1, max_processes=20, cooldown_us=S, fast_scale_up=True)
    pool = SimulatedPool(policy, S, share=half, job_us=1000 * S)
    pool.push(0, 0, 120)
    pool.run(60 * S)
    assert pool.size() == 6


def test_a_pool_of_the_time_strategy_grows_with_how_long_jobs_take() -> None:
    sizes = []
    for job_us in (S, 4 * S):
        policy = ScalingPolicy(
            queues=2,
            balance=Balance.OFF,
            strategy=Strategy.TIME,
            max_processes=30,
            cooldown_us=S,
            fast_scale_up=True,
        )
        pool = SimulatedPool(policy, S, job_us=job_us)
        pool.push(0, 0, 150)
        pool.push(0, 1, 150)
        pool.run(10 * S)
        sizes.append(max(seen for _, seen in pool.sizes))
    assert sizes == [5, 20]
