"""Slots that open and close: what crashes, drains and circuits do to a pool that changes size."""

from __future__ import annotations

from atleastonce.system.supervisor.core.exits import Exit
from atleastonce.system.supervisor.core.pool import CRASH_LIMIT, Circuit, Pool, RestartPolicy

S = 1_000_000
POLICY = RestartPolicy(backoff_us=S, backoff_max_us=30 * S, stable_after_us=60 * S)


def running(count: int) -> Pool:
    pool = Pool(0, POLICY)
    for _ in range(count):
        pool.open(0)
    for slot in pool.due(0):
        pool.started(slot, 0)
    return pool


def test_a_pool_of_no_slots_starts_nothing() -> None:
    pool = Pool(0, POLICY)
    assert pool.due(0) == ()
    assert pool.next_us() is None
    assert (pool.active, pool.draining) == (0, 0)


def test_an_opened_slot_is_due_at_once() -> None:
    pool = Pool(0, POLICY)
    assert pool.open(5) == 0
    assert pool.next_us() == 5
    assert pool.due(5) == (0,)


def test_a_closing_slot_keeps_its_worker_and_takes_no_other() -> None:
    pool = running(2)
    pool.close(1)
    assert (pool.active, pool.draining) == (1, 1)
    pool.ended(1, Exit.STOPPED, S)
    assert (pool.active, pool.draining) == (1, 0)
    assert pool.due(100 * S) == ()


def test_a_closed_slot_is_opened_again_before_a_new_one_is_made() -> None:
    pool = running(2)
    pool.close(0)
    assert pool.open(S) == 2, "slot 0 still has its worker"
    pool.ended(0, Exit.STOPPED, 2 * S)
    assert pool.open(3 * S) == 0
    assert pool.due(3 * S) == (0, 2)


def test_a_slot_that_waits_after_a_crash_is_vacant_and_closes_at_once() -> None:
    pool = running(2)
    pool.ended(0, Exit.CRASH, S)
    assert pool.vacant() == (0,)
    pool.close(0)
    assert (pool.active, pool.draining) == (1, 0)
    assert pool.next_us() is None


def test_a_slot_that_closes_while_its_worker_starts_drains() -> None:
    pool = Pool(0, POLICY)
    pool.open(0)
    assert pool.due(0) == (0,)
    pool.close(0)
    assert (pool.active, pool.draining) == (0, 1)
    pool.start_failed(0, S)
    assert (pool.active, pool.draining) == (0, 0)


def test_an_open_circuit_probes_no_closed_slot() -> None:
    pool = running(CRASH_LIMIT + 1)
    for slot in range(CRASH_LIMIT):
        pool.ended(slot, Exit.CRASH, S)
    assert pool.circuit is Circuit.OPEN
    for slot in range(CRASH_LIMIT):
        pool.close(slot)
    assert pool.due(100 * S) == ()
    assert pool.open(100 * S) == 0
    assert pool.due(100 * S) == (0,)


def test_a_probe_that_is_told_to_stop_says_nothing_about_the_circuit() -> None:
    pool = running(CRASH_LIMIT)
    for slot in range(CRASH_LIMIT):
        pool.ended(slot, Exit.CRASH, S)
    (probe,) = pool.due(40 * S)
    pool.started(probe, 40 * S)
    pool.close(probe)
    pool.ended(probe, Exit.STOPPED, 41 * S)
    assert pool.circuit is Circuit.OPEN
    assert len(pool.due(41 * S)) == 1
