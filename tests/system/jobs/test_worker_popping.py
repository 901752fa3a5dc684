"""Claiming batches."""

from __future__ import annotations

import time

from atleastonce.system.jobs.journal import read_debts

from .machine_broker import Asked, Fault, MachineBroker
from .worker_process import Bench


def _since_s(t_ns: int) -> float:
    return (time.monotonic_ns() - t_ns) / 1e9


def pops(broker: MachineBroker) -> list[bool]:
    """Of each pop, whether it waits."""
    return ["wait=true" in asked.target for asked in broker.asked if asked.kind == "pop"]


def test_next_batch_is_asked_for_while_the_last_job_of_a_full_one_runs(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", "gated", partition="p-0001")
    for n in range(2, 4):
        broker.push_job(f"j{n}", partition=f"p-000{n}")
    pid = bench.start(prefetch=2, pop_ahead=True)
    bench.wait_for_records("AttemptStarting", 2)
    bench.wait_for(lambda: pops(broker) == [True, False])
    assert len(bench.records("AttemptEnded")) == 1
    assert read_debts(bench.states, pid).popping
    bench.gate.open()
    bench.wait_for_records("AttemptAcked", 4)
    assert [r["job_id"] for r in bench.records("AttemptStarting")] == ["a", "b", "j2", "j3"]
    assert bench.stop(pid) == 0


def test_nothing_is_asked_for_ahead_of_a_batch_that_was_not_full(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=4, pop_ahead=True)
    bench.wait_for_records("AttemptAcked", 2)
    bench.wait_for(lambda: len(pops(broker)) >= 2)
    assert set(pops(broker)) == {True}
    assert bench.stop(pid) == 0


def test_nothing_is_asked_for_ahead_when_jobs_are_slow(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "gated")
    broker.push_job("b", "gated", partition="p-0001")
    pid = bench.start(prefetch=2, pop_ahead=True, retry_after_s=6.0, timeout_s=5.9)
    bench.wait_for_records("AttemptStarting", 1)
    start_ns = time.monotonic_ns()
    bench.wait_for(lambda: _since_s(start_ns) > 2.1)
    bench.gate.open()
    bench.wait_for_records("AttemptStarting", 2)
    bench.gate.open()
    bench.wait_for_records("AttemptAcked", 2)
    bench.wait_for(lambda: len(pops(broker)) >= 2)
    assert set(pops(broker)) == {True}
    assert bench.stop(pid) == 0


def test_idle_worker_says_that_it_pops_and_owes_nothing(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = bench.start(block_for_s=30.0)
    bench.wait_for(lambda: len(pops(broker)) >= 1)
    debts = read_debts(bench.states, pid)
    assert (debts.popping, debts.debts, debts.running) == (True, (), None)
    # A quarter of the lease is all that a pop may wait.
    assert "timeout=10000" in broker.asked[0].target
    assert bench.stop(pid) == 0


def test_worker_that_does_not_wait_at_the_broker_pauses_between_pops(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = bench.start(block_for_s=0.0, sleep_s=0.05)
    bench.wait_for(lambda: len(pops(broker)) >= 3)
    assert set(pops(broker)) == {False}
    times = [asked.t_ns for asked in broker.asked]
    assert (times[2] - times[0]) / 1e9 > 0.09
    assert bench.stop(pid) == 0


def test_worker_outlives_an_outage_of_the_broker(bench: Bench, broker: MachineBroker) -> None:
    broker.fault = lambda asked: Fault.REFUSE
    pid = bench.start(retry_after_s=1.0, timeout_s=0.5)
    bench.wait_for(lambda: len(pops(broker)) >= 4)
    broker.fault = lambda asked: None
    broker.push_job("a")
    bench.wait_for_records("AttemptAcked", 1)
    assert bench.stop(pid) == 0


def test_pop_whose_answer_is_lost_is_repeated_under_its_id_and_charges_nothing(
    bench: Bench, broker: MachineBroker
) -> None:
    lost: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "pop" and not lost:
            lost.append(asked)
            return Fault.LOSE_ANSWER
        return None

    broker.fault = fault
    broker.push_job("a")
    pid = bench.start()
    bench.wait_for_records("AttemptAcked", 1)
    assert broker.asked[0].request_id == broker.asked[1].request_id
    assert [r["attempt"] for r in bench.records("AttemptStarting")] == [1]
    assert bench.stop(pid) == 0


def test_pops_carry_one_id_until_a_batch_came(bench: Bench, broker: MachineBroker) -> None:
    pid = bench.start(block_for_s=0.0, sleep_s=0.01)
    bench.wait_for(lambda: len(pops(broker)) >= 3)
    empty = len(pops(broker))
    broker.push_job("a")
    bench.wait_for_records("AttemptAcked", 1)
    bench.wait_for(lambda: len(pops(broker)) >= empty + 3)
    ids = [asked.request_id for asked in broker.asked if asked.kind == "pop"]
    assert len(set(ids)) == 2, ids
    assert ids == sorted(ids, key=ids.index)
    assert bench.stop(pid) == 0


def test_worker_whose_pops_are_refused_ends(bench: Bench, broker: MachineBroker) -> None:
    pid = bench.start(queue="x" * 500)
    assert bench.wait_exit(pid) == 1 << 8


def run_beside_a_late_batch(bench: Bench, broker: MachineBroker) -> int:
    """Have `a` run until the batch that was asked for ahead is older than half its lease."""
    broker.push_job("a", "gated")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=1, pop_ahead=True, retry_after_s=6.0, timeout_s=5.9)
    bench.wait_for_records("AttemptStarting", 1)
    bench.wait_for(lambda: len(pops(broker)) == 2)
    start_ns = broker.asked[-1].t_ns
    bench.wait_for(lambda: _since_s(start_ns) > 3.1)
    bench.gate.open()
    return pid


def test_batch_that_is_read_late_is_renewed_and_run_in_its_place(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = run_beside_a_late_batch(bench, broker)
    bench.wait_for_records("AttemptAcked", 2)
    assert broker.kinds().count("lease") == 1
    assert "transaction" not in broker.kinds()
    assert len(bench.records("BatchReceived")) == 2
    assert [r["attempt"] for r in bench.records("AttemptStarting")] == [1, 1]
    assert bench.stop(pid) == 0


def test_late_batch_that_cannot_be_renewed_is_recorded_and_handed_back(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "lease" else None
    pid = run_beside_a_late_batch(bench, broker)
    bench.wait_for_records("AttemptAcked", 2)
    assert "transaction" in broker.kinds()
    assert len(bench.records("BatchReceived")) == 3
    assert [r["attempt"] for r in bench.records("AttemptStarting")] == [1, 1]
    assert bench.stop(pid) == 0
