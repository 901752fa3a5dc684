"""Acks that wait for each other: complete, in time, and owed until they are sent."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable

import msgspec
import pytest

from atleastonce.system.jobs.debts import Code, hand_back_operations
from atleastonce.system.jobs.deferred_acks import DEFER_SHARE
from atleastonce.system.jobs.journal import read_debts

from .machine_broker import Asked, Fault, MachineBroker
from .one_node import Site
from .worker_process import Bench

LEASE_S_SHORT = 12.0
"""Its quarter is soon over, and a machine that stands still for seconds does not lose it."""


def acked(broker: MachineBroker) -> list[list[str]]:
    """Jobs of each ack, in order."""
    return [
        [item["transactionId"] for item in asked.body["acknowledgments"]]
        for asked in broker.asked
        if asked.target.startswith("/api/v1/ack/batch")
    ]


def push(broker: MachineBroker, *jobs: str, partitions: int = 1) -> None:
    for n, job in enumerate(jobs):
        broker.push_job(f"{job}{n}", job, partition=f"p-{n % partitions:04}")


def test_acks_go_out_by_so_many_and_the_rest_at_the_batchs_end(
    bench: Bench, broker: MachineBroker
) -> None:
    push(broker, *["work"] * 5, partitions=2)
    pid = bench.start(prefetch=5, ack_batch=2)
    bench.wait_for_records("AttemptAcked", 5)
    assert bench.stop(pid) == 0
    assert [len(jobs) for jobs in acked(broker)] == [2, 2, 1]
    ended = [record["job_id"] for record in bench.records("AttemptEnded")]
    assert [record["job_id"] for record in bench.records("AttemptAcked")] == ended
    assert "transaction" not in broker.kinds()
    broker.expire_leases()
    assert broker.pop_all() == []


def test_job_whose_ack_waits_owes_its_ack_and_does_not_run_again(
    bench: Bench, broker: MachineBroker
) -> None:
    push(broker, "work", "gated", "work", partitions=3)
    pid = bench.start(prefetch=3, ack_batch=3)
    bench.wait_for_records("AttemptStarting", 2)
    bench.wait_for(lambda: read_debts(bench.states, pid).running == "gated1")
    (debt,) = read_debts(bench.states, pid).debts
    assert debt.codes == (Code.ACK, Code.NOTHING, Code.UNSTARTED)
    os.kill(pid, signal.SIGKILL)
    bench.wait_exit(pid)
    assert bench.records("AttemptAcked") == []
    assert acked(broker) == []
    answer = broker.ask(
        "POST", "/api/v1/transaction", json.loads(msgspec.json.encode(hand_back_operations(debt)))
    )
    assert answer["success"], answer
    broker.expire_leases()
    assert sorted(broker.pop_all()) == [("gated1", 2), ("work2", 1)]


@pytest.mark.parametrize(("tries", "then"), [(1, "ack"), (2, "transaction")])
def test_ack_that_waits_goes_out_before_a_job_is_retried_or_given_up(
    bench: Bench, broker: MachineBroker, tries: int, then: str
) -> None:
    push(broker, "work", "throws", "work")
    pid = bench.start(prefetch=3, ack_batch=3, tries=tries, backoff_s=(60.0,))
    bench.wait_for_records("AttemptAcked", 3)
    os.kill(pid, signal.SIGTERM)
    assert bench.wait_exit(pid) == 0
    assert acked(broker)[0] == ["work0"]
    assert broker.kinds()[:2] == ["ack", then]
    assert [txn for txn, _ in broker.dead_letters()] == ["throws1"] * (tries == 1)
    assert bench.records("worked")[:2] == ["work0", "work2"]


def test_stop_takes_what_waits_along_with_the_hand_back(
    bench: Bench, broker: MachineBroker
) -> None:
    push(broker, "work", "work", "gated", "work", partitions=2)
    pid = bench.start(prefetch=4, ack_batch=4)
    bench.wait_for_records("AttemptStarting", 2)
    bench.wait_for(lambda: read_debts(bench.states, pid).running == "gated2")
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert broker.kinds() == ["transaction"]
    ended = [record["job_id"] for record in bench.records("AttemptEnded")]
    assert [record["job_id"] for record in bench.records("AttemptAcked")] == ended
    broker.expire_leases()
    assert {number for _, number in broker.pop_all()} == {1}


def test_ack_does_not_wait_longer_than_a_part_of_the_lease_for_a_running_job(
    bench: Bench, broker: MachineBroker
) -> None:
    push(broker, "work", "gated", "work", partitions=3)
    pid = bench.start(prefetch=3, ack_batch=3, retry_after_s=LEASE_S_SHORT, timeout_s=0.0)
    bench.wait_for(lambda: acked(broker) == [["work0"]])
    (asked,) = (asked for asked in broker.asked if asked.kind == "ack")
    ended_ns = bench.times_ns("AttemptEnded")[0]
    waited_s = (asked.t_ns - ended_ns) / 1e9
    assert waited_s >= LEASE_S_SHORT * DEFER_SHARE - 0.01
    assert len(bench.records("AttemptEnded")) == 1
    bench.gate.open()
    bench.wait_for_records("AttemptAcked", 3)
    assert bench.stop(pid) == 0
    assert acked(broker) == [["work0"], ["gated1", "work2"]]


def test_job_is_still_ended_by_its_timeout_after_acks_went_out_in_its_middle(
    bench: Bench, broker: MachineBroker
) -> None:
    push(broker, "work", "gated", "work", partitions=3)
    pid = bench.start(prefetch=3, ack_batch=3, retry_after_s=LEASE_S_SHORT, timeout_s=6.0, tries=1)
    assert os.WTERMSIG(bench.wait_exit(pid)) == signal.SIGKILL
    assert acked(broker) == [["work0"]]
    outcomes = [record["outcome"] for record in bench.records("AttemptEnded")]
    assert outcomes == ["completed", "timed_out"]
    assert [txn for txn, _ in broker.dead_letters()] == ["gated1"]
    assert broker.pop_all() == [("work2", 1)]


def test_timeout_takes_what_waits_along(bench: Bench, broker: MachineBroker) -> None:
    push(broker, "work", "gated", "work", partitions=3)
    pid = bench.start(prefetch=3, ack_batch=3, timeout_s=2.0)
    assert os.WTERMSIG(bench.wait_exit(pid)) == signal.SIGKILL
    assert broker.kinds() == ["transaction"]
    assert [record["job_id"] for record in bench.records("AttemptAcked")] == ["work0"]
    broker.expire_leases()
    assert sorted(broker.pop_all()) == [("gated1", 2), ("work2", 1)]


def test_refused_acks_abandon_the_jobs_behind_them(bench: Bench, broker: MachineBroker) -> None:
    hit: list[Asked] = []

    def reject(asked: Asked) -> Fault | None:
        if asked.kind == "ack" and not hit:
            hit.append(asked)
            return Fault.REJECT
        return None

    broker.fault = reject
    push(broker, *["work"] * 4, partitions=4)
    pid = bench.start(prefetch=4, ack_batch=2)
    bench.wait_for(lambda: bool(hit) and broker.asked[-1].kind == "pop")
    assert len(bench.records("AttemptStarting")) == 2
    assert read_debts(bench.states, pid).debts == ()
    assert bench.stop(pid) == 0
    assert bench.records("AttemptAcked") == []


def test_acks_whose_answer_is_lost_are_sent_again_under_their_id(
    bench: Bench, broker: MachineBroker
) -> None:
    hit: list[Asked] = []

    def lose(asked: Asked) -> Fault | None:
        if asked.kind == "ack" and not hit:
            hit.append(asked)
            return Fault.LOSE_ANSWER
        return None

    broker.fault = lose
    push(broker, *["work"] * 2, partitions=2)
    pid = bench.start(prefetch=2, ack_batch=2)
    bench.wait_for_records("AttemptAcked", 2)
    assert bench.stop(pid) == 0
    first, second = (asked.request_id for asked in broker.asked if asked.kind == "ack")
    assert first == second
    assert len(bench.records("worked")) == 2


def test_lease_is_let_go_before_the_acks_that_end_it(bench: Bench, broker: MachineBroker) -> None:
    bench.listen()
    push(broker, *["work"] * 2, partitions=2)
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "ack" else None
    pid = bench.start(prefetch=2, ack_batch=2)
    bench.accept()
    bench.wait_for(lambda: acked(broker) != [])
    assert [type(m).__name__.lower() for m in bench.lease_messages()][:2] == ["hold", "forget"]
    broker.release()
    bench.wait_for_records("AttemptAcked", 2)
    assert bench.stop(pid) == 0


def _one_fault(kind: str, fault: Fault) -> Callable[[Asked], Fault | None]:
    hit: list[Asked] = []

    def choose(asked: Asked) -> Fault | None:
        if asked.kind != kind or hit:
            return None
        hit.append(asked)
        return fault

    return choose


def _start_two_batches(bench: Bench, broker: MachineBroker, fault: Fault) -> int:
    """Two batches of two; the fault is for the acks of the first, the last job waits for a gate."""
    broker.fault = _one_fault("ack", fault)
    push(broker, "work", "work", "work", "gated", partitions=4)
    pid = bench.start(prefetch=2, ack_batch=2, pop_ahead=True)
    bench.wait_for_records("AttemptStarting", 4)
    return pid


def test_batch_asked_for_ahead_begins_before_the_answer_to_the_last_acks(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = _one_fault("ack", Fault.HOLD)
    push(broker, "work", "work", "gated", "work", partitions=4)
    pid = bench.start(prefetch=2, ack_batch=2, pop_ahead=True)
    bench.wait_for_records("AttemptStarting", 3)
    assert bench.records("AttemptAcked") == []
    broker.release()
    bench.gate.open()
    acks = bench.wait_for_records("AttemptAcked", 4)
    assert bench.stop(pid) == 0
    assert acked(broker) == [["work0", "work1"], ["gated2", "work3"]]
    ended = [record["job_id"] for record in bench.records("AttemptEnded")]
    assert [record["job_id"] for record in acks] == ended
    broker.expire_leases()
    assert broker.pop_all() == []


def test_worker_killed_before_that_answer_owes_the_new_batch_alone(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = _one_fault("ack", Fault.HOLD_ANSWER)
    push(broker, "work", "work", "gated", "work", partitions=4)
    pid = bench.start(prefetch=2, ack_batch=2, pop_ahead=True)
    bench.wait_for_records("AttemptStarting", 3)
    bench.wait_for(lambda: read_debts(bench.states, pid).running == "gated2")
    os.kill(pid, signal.SIGKILL)
    bench.wait_exit(pid)
    (debt,) = read_debts(bench.states, pid).debts
    assert debt.codes == (Code.NOTHING, Code.UNSTARTED)
    answer = broker.ask(
        "POST", "/api/v1/transaction", json.loads(msgspec.json.encode(hand_back_operations(debt)))
    )
    assert answer["success"], answer
    broker.expire_leases()
    assert sorted(broker.pop_all()) == [("gated2", 2), ("work3", 1)]


def test_refusal_of_the_last_acks_leaves_the_batch_behind_them_alone(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = _start_two_batches(bench, broker, Fault.REJECT)
    bench.gate.open()
    bench.wait_for_records("AttemptAcked", 2)
    assert bench.stop(pid) == 0
    assert [record["job_id"] for record in bench.records("AttemptAcked")] == ["work2", "gated3"]
    broker.expire_leases()
    assert sorted(broker.pop_all()) == [("work0", 2), ("work1", 2)]


def test_last_acks_whose_answer_is_lost_are_sent_again_under_their_id(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = _start_two_batches(bench, broker, Fault.LOSE_ANSWER)
    bench.gate.open()
    bench.wait_for_records("AttemptAcked", 4)
    assert bench.stop(pid) == 0
    first, second = [asked.request_id for asked in broker.asked if asked.kind == "ack"][:2]
    assert first == second
    assert acked(broker) == [["work0", "work1"]] * 2 + [["work2", "gated3"]]
    assert bench.records("worked") == ["work0", "work1", "work2"]


def test_stop_reads_the_answer_to_the_last_acks(bench: Bench, broker: MachineBroker) -> None:
    broker.fault = _one_fault("ack", Fault.HOLD_ANSWER)
    push(broker, "work", "work", "gated", "work", partitions=4)
    pid = bench.start(prefetch=2, ack_batch=2, pop_ahead=True)
    bench.wait_for_records("AttemptStarting", 3)
    os.kill(pid, signal.SIGTERM)
    broker.release()
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert [record["job_id"] for record in bench.records("AttemptAcked")][:2] == ["work0", "work1"]
    broker.expire_leases()
    assert broker.pop_all() == [("work3", 1)]


def test_answer_is_waited_for_when_the_last_job_was_slow(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = _one_fault("ack", Fault.HOLD)
    push(broker, "work", "gated", "work", "work", partitions=4)
    pid = bench.start(
        prefetch=2, ack_batch=2, pop_ahead=True, retry_after_s=LEASE_S_SHORT, timeout_s=11.0
    )
    bench.wait_for_records("AttemptStarting", 2)
    # The ack of the first goes out in time, and its answer is held.
    bench.wait_for(lambda: acked(broker) == [["work0"]])
    slow_ns = round((LEASE_S_SHORT * DEFER_SHARE + 0.1) * 1e9)
    started_ns = bench.times_ns("AttemptStarting")[1]
    bench.wait_for(lambda: time.monotonic_ns() > started_ns + slow_ns)
    bench.gate.open()
    bench.wait_for_records("AttemptEnded", 2)
    broker.release()
    bench.wait_for_records("AttemptAcked", 4)
    assert bench.stop(pid) == 0
    records = [name for name in bench.records() if name in ("AttemptStarting", "AttemptAcked")]
    assert records[:4] == ["AttemptStarting"] * 2 + ["AttemptAcked"] * 2


def test_jobs_on_a_node_run_once_with_their_acks_in_few_requests(site: Site) -> None:
    @site.app.job("quick")
    def quick(context: object, payload: object) -> None:
        site.log("ran", payload)

    for n in range(40):
        site.dispatcher.dispatch(site.app, "quick", n)
    site.run_until_drained(workers=2, prefetch=8, ack_batch=8, pop_ahead=True)
    assert sorted(site.records("ran")) == list(range(40))
    assert len(site.records("AttemptAcked")) == 40


def test_unique_job_among_others_frees_its_lock_on_a_node(site: Site) -> None:
    @site.app.job("quick")
    def quick(context: object, payload: object) -> None:
        return

    @site.app.job("once", unique_for_s=600)
    def once(context: object, payload: object) -> None:
        return

    for _ in range(2):
        for n in range(3):
            site.dispatcher.dispatch(site.app, "quick", n, partition="one")
        assert site.dispatcher.dispatch(site.app, "once", None, partition="one").status == "queued"
        site.run_until_drained(prefetch=4, ack_batch=4)
    assert len(site.records("AttemptAcked")) == 8
