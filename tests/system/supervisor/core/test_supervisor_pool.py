"""The pool in virtual time: back-off, the five-crash circuit and its probe."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

import pytest

from atleastonce.system.supervisor.core.exits import Exit
from atleastonce.system.supervisor.core.pool import CRASH_LIMIT, Circuit, Pool, RestartPolicy

SECOND = 1_000_000
POLICY = RestartPolicy(backoff_us=SECOND, backoff_max_us=30 * SECOND, stable_after_us=60 * SECOND)


def start(pool: Pool, now_us: int) -> tuple[int, ...]:
    slots = pool.due(now_us)
    for slot in slots:
        pool.started(slot, now_us)
    return slots


def opened_pool(workers: int = 2) -> tuple[Pool, int]:
    """A pool whose circuit opened at the returned time; slot 1 and up still run."""
    pool, now_us = Pool(workers, POLICY), 0
    start(pool, now_us)
    for _ in range(CRASH_LIMIT):
        assert pool.circuit is Circuit.CLOSED
        pool.ended(0, Exit.CRASH, now_us)
        if pool.circuit is Circuit.CLOSED:
            due_us = pool.next_us()
            assert due_us is not None
            now_us = due_us
            assert start(pool, now_us) == (0,)
    assert pool.circuit is Circuit.OPEN
    return pool, now_us


def test_every_slot_starts_at_once() -> None:
    pool = Pool(3, POLICY)
    assert start(pool, 0) == (0, 1, 2)
    assert pool.next_us() is None


@pytest.mark.parametrize(
    ("crashes", "delay_s"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 16), (6, 30), (60, 30)]
)
def test_the_delay_doubles_up_to_its_bound(crashes: int, delay_s: int) -> None:
    assert POLICY.delay_us(crashes) == delay_s * SECOND


def test_a_crashed_slot_waits_for_its_delay_and_no_longer() -> None:
    pool = Pool(1, POLICY)
    start(pool, 0)
    pool.ended(0, Exit.CRASH, 5 * SECOND)
    assert pool.next_us() == 6 * SECOND
    assert pool.due(6 * SECOND - 1) == ()
    assert start(pool, 6 * SECOND) == (0,)
    pool.ended(0, Exit.CRASH, 6 * SECOND)
    assert pool.next_us() == 8 * SECOND


@pytest.mark.parametrize("exit_kind", [Exit.CLEAN, Exit.RECYCLE])
def test_a_worker_that_ends_by_itself_restarts_at_once_and_forgives(exit_kind: Exit) -> None:
    pool = Pool(1, POLICY)
    start(pool, 0)
    pool.ended(0, Exit.CRASH, 0)
    start(pool, SECOND)
    pool.ended(0, exit_kind, SECOND)
    assert (pool.crashes, pool.next_us()) == (0, SECOND)


def test_a_timeout_restarts_at_once_and_leaves_the_count() -> None:
    pool = Pool(1, POLICY)
    start(pool, 0)
    pool.ended(0, Exit.CRASH, 0)
    for _ in range(20):
        assert start(pool, SECOND) == (0,)
        pool.ended(0, Exit.TIMEOUT, SECOND)
    assert (pool.circuit, pool.crashes) == (Circuit.CLOSED, 1)


def test_a_crash_after_a_stable_run_is_forgiven() -> None:
    pool = Pool(1, POLICY)
    start(pool, 0)
    pool.ended(0, Exit.CRASH, 60 * SECOND)
    assert (pool.crashes, pool.next_us()) == (0, 60 * SECOND)


def test_crashes_a_stable_time_apart_are_not_in_a_row() -> None:
    pool = Pool(2, POLICY)
    start(pool, 0)
    pool.ended(0, Exit.CRASH, 0)
    start(pool, 50 * SECOND)
    pool.ended(0, Exit.CRASH, 60 * SECOND)
    assert pool.crashes == 1


def test_crashes_of_all_slots_count_together() -> None:
    pool = Pool(5, POLICY)
    start(pool, 0)
    for slot in range(5):
        pool.ended(slot, Exit.CRASH, slot)
    assert pool.circuit is Circuit.OPEN


def test_a_failed_start_counts_as_a_crash() -> None:
    pool = Pool(1, POLICY)
    now_us = 0
    for _ in range(CRASH_LIMIT):
        (slot,) = pool.due(now_us)
        pool.start_failed(slot, now_us)
        due_us = pool.next_us()
        assert due_us is not None
        now_us = due_us
    assert pool.circuit is Circuit.OPEN


def test_an_open_circuit_starts_one_probe_after_the_longest_delay() -> None:
    pool, now_us = opened_pool()
    pool.ended(1, Exit.CRASH, now_us)
    probe_us = now_us + 30 * SECOND
    assert pool.next_us() == probe_us
    assert pool.due(probe_us - 1) == ()
    assert start(pool, probe_us) == (0,)
    assert pool.circuit is Circuit.PROBING
    assert pool.due(probe_us + 59 * SECOND) == ()


@pytest.mark.parametrize("exit_kind", list(Exit))
def test_a_sibling_never_closes_or_reopens_the_circuit(exit_kind: Exit) -> None:
    pool, now_us = opened_pool(3)
    pool.ended(1, exit_kind, now_us + SECOND)
    assert (pool.circuit, pool.next_us()) == (Circuit.OPEN, now_us + 30 * SECOND)
    probe_us = now_us + 30 * SECOND
    start(pool, probe_us)
    pool.ended(2, exit_kind, probe_us + SECOND)
    assert pool.circuit is Circuit.PROBING
    assert pool.due(probe_us + 2 * SECOND) == ()


def test_a_sibling_that_ran_long_does_not_close_the_circuit() -> None:
    pool, now_us = opened_pool()
    pool.ended(1, Exit.CRASH, now_us + 29 * SECOND)
    assert pool.circuit is Circuit.OPEN


def test_the_probe_closes_the_circuit_when_it_is_stable() -> None:
    pool, now_us = opened_pool()
    pool.ended(1, Exit.CRASH, now_us)
    probe_us = now_us + 30 * SECOND
    start(pool, probe_us)
    assert pool.next_us() == probe_us + 60 * SECOND
    assert start(pool, probe_us + 60 * SECOND) == (1,)
    assert (pool.circuit, pool.crashes) == (Circuit.CLOSED, 0)


@pytest.mark.parametrize("exit_kind", [Exit.CLEAN, Exit.RECYCLE])
def test_the_probe_closes_the_circuit_by_a_clean_end(exit_kind: Exit) -> None:
    pool, now_us = opened_pool(1)
    probe_us = now_us + 30 * SECOND
    start(pool, probe_us)
    pool.ended(0, exit_kind, probe_us + SECOND)
    assert (pool.circuit, start(pool, probe_us + SECOND)) == (Circuit.CLOSED, (0,))


def test_a_crashed_probe_opens_the_circuit_again() -> None:
    pool, now_us = opened_pool(1)
    probe_us = now_us + 30 * SECOND
    start(pool, probe_us)
    pool.ended(0, Exit.CRASH, probe_us + SECOND)
    assert (pool.circuit, pool.next_us()) == (Circuit.OPEN, probe_us + 31 * SECOND)


def test_a_timed_out_probe_frees_the_probe_for_another_at_once() -> None:
    pool, now_us = opened_pool(1)
    probe_us = now_us + 30 * SECOND
    start(pool, probe_us)
    pool.ended(0, Exit.TIMEOUT, probe_us + SECOND)
    assert (pool.circuit, pool.next_us()) == (Circuit.OPEN, probe_us + SECOND)
    assert start(pool, probe_us + SECOND) == (0,)
    assert pool.due(probe_us + SECOND) == ()


def simulate(
    seed: int, workers: int, span_us: int, life: Callable[[random.Random], tuple[int, Exit]]
) -> tuple[Pool, list[tuple[int, int]]]:
    """Run a pool on an event heap; returns it and its starts as (time, slot)."""
    chance, pool = random.Random(seed), Pool(workers, POLICY)
    ends: list[tuple[int, int, Exit]] = []
    starts: list[tuple[int, int]] = []
    now_us = 0
    while now_us <= span_us:
        for slot in pool.due(now_us):
            pool.started(slot, now_us)
            starts.append((now_us, slot))
            lasts_us, exit_kind = life(chance)
            heapq.heappush(ends, (now_us + lasts_us, slot, exit_kind))
        due_us = pool.next_us()
        assert ends or due_us is not None, "the pool sleeps for ever"
        now_us = min(t for t in (due_us, ends[0][0] if ends else None) if t is not None)
        while ends and ends[0][0] <= now_us:
            _, slot, exit_kind = heapq.heappop(ends)
            pool.ended(slot, exit_kind, now_us)
    return pool, starts


@pytest.mark.parametrize("seed", range(20))
def test_a_crash_loop_costs_few_starts_whatever_the_order(seed: int) -> None:
    def life(chance: random.Random) -> tuple[int, Exit]:
        return chance.randrange(1, SECOND), Exit.CRASH

    span_us = 600 * SECOND
    pool, starts = simulate(seed, 8, span_us, life)
    assert pool.circuit is not Circuit.CLOSED
    probes = span_us // POLICY.backoff_max_us
    assert len(starts) <= 8 + CRASH_LIMIT + probes + 1


@pytest.mark.parametrize("seed", range(20))
def test_timeouts_never_open_the_circuit(seed: int) -> None:
    def life(chance: random.Random) -> tuple[int, Exit]:
        return chance.randrange(SECOND, 5 * SECOND), Exit.TIMEOUT

    pool, starts = simulate(seed, 4, 120 * SECOND, life)
    assert pool.circuit is Circuit.CLOSED
    assert len(starts) >= 4 * 120 // 5


@pytest.mark.parametrize("seed", range(20))
def test_a_pool_that_stops_crashing_is_whole_again(seed: int) -> None:
    def life(chance: random.Random) -> tuple[int, Exit]:
        deaths.append(seed)
        if len(deaths) < 40:
            return chance.randrange(1, 3 * SECOND), Exit.CRASH
        return 3_000 * SECOND, Exit.CLEAN

    deaths: list[int] = []
    pool, starts = simulate(seed, 6, 2_000 * SECOND, life)
    assert pool.circuit is Circuit.CLOSED
    assert len({slot for _, slot in starts}) == 6
