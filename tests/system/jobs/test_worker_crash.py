"""A worker that is killed: its journal and the real broker, together."""

from __future__ import annotations

import os
import signal
from typing import Any

import msgspec
import pytest

from atleastonce.system.jobs.debts import Debt, after_refusal, hand_back_operations
from atleastonce.system.jobs.journal import read_debts

from .machine_broker import Fault, MachineBroker
from .worker_process import Bench


def kill(bench: Bench, pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    bench.wait_exit(pid)


def hand_back(bench: Bench, pid: int) -> dict[str, Any]:
    debts = read_debts(bench.states, pid).debts
    assert len(debts) == 1, debts
    debt: Debt | None = debts[0]
    answer: dict[str, Any] = {"reason": ""}
    while debt is not None:
        body = msgspec.json.decode(msgspec.json.encode(hand_back_operations(debt)))
        answer = bench.broker.ask("POST", "/api/v1/transaction", body)
        debt = None if answer["success"] else after_refusal(debt, answer["reason"])
    return answer


def test_unstarted_jobs_come_back_at_once_and_uncharged(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "gated")
    for n in range(1, 4):
        broker.push_job(f"j{n}", partition=f"p-000{n}")
    pid = bench.start(prefetch=4)
    bench.wait_for_records("AttemptStarting", 1)
    kill(bench, pid)
    assert read_debts(bench.states, pid).running == "a"
    assert hand_back(bench, pid)["success"]
    assert sorted(broker.pop_all()) == [("j1", 1), ("j2", 1), ("j3", 1)]
    broker.expire_leases()
    assert ("a", 2) in broker.pop_all()


def test_running_job_comes_back_counted_before_its_tail(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", "gated")
    broker.push_job("c")
    pid = bench.start(prefetch=3, ack_async=True)
    bench.wait_for_records("AttemptStarting", 2)
    bench.wait_for(lambda: broker.kinds() == ["ack"])
    kill(bench, pid)
    assert hand_back(bench, pid)["success"]
    assert broker.pop_all() == [("b", 2), ("c", 1)]


def test_ack_on_the_wire_and_hand_back_agree_in_either_order(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "ack" else None
    broker.push_job("a")
    broker.push_job("b", "gated")
    broker.push_job("c")
    pid = bench.start(prefetch=3, ack_async=True)
    bench.wait_for_records("AttemptStarting", 2)
    kill(bench, pid)
    assert hand_back(bench, pid)["success"]
    broker.release()
    assert broker.pop_all() == [("b", 2), ("c", 1)]


def test_second_hand_back_is_refused_as_a_whole(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "gated")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=2)
    bench.wait_for_records("AttemptStarting", 1)
    kill(bench, pid)
    assert hand_back(bench, pid)["success"]
    assert not hand_back(bench, pid)["success"]
    assert broker.pop_all() == [("b", 1)]


def test_hand_back_after_the_lease_is_refused_as_a_whole(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "gated")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=2)
    bench.wait_for_records("AttemptStarting", 1)
    kill(bench, pid)
    broker.expire_leases()
    assert not hand_back(bench, pid)["success"]
    assert sorted(broker.pop_all()) == [("a", 2), ("b", 2)]


def test_worker_killed_while_idle_pops_and_owes_nothing(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = bench.start()
    bench.wait_for(lambda: len(broker.asked) >= 1)
    kill(bench, pid)
    debts = read_debts(bench.states, pid)
    assert (debts.popping, debts.debts) == (True, ())
    broker.push_job("a")
    broker.wait_for(lambda: broker.pending() == 1)
    assert broker.pop_all() == [("a", 1)]


@pytest.mark.parametrize("backoff_s", [0, 30])
@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_ANSWER])
def test_worker_killed_with_a_retry_on_the_wire_hands_back_the_jobs_behind_it(
    bench: Bench, broker: MachineBroker, fault: Fault, backoff_s: float
) -> None:
    broker.fault = lambda asked: fault if asked.kind == "transaction" else None
    broker.push_job("a", "throws", data="no", tries=3, backoff_s=[backoff_s])
    broker.push_job("b")
    pid = bench.start(prefetch=2)
    bench.wait_for(lambda: broker.kinds() == ["transaction"])
    kill(bench, pid)
    broker.fault = lambda asked: None
    assert hand_back(bench, pid)["success"]
    broker.release()
    if backoff_s:
        assert broker.timers() == 1
        broker.expire_leases()
        broker.wait_for(lambda: broker.timers() == 0)
    found = broker.pop_all()
    assert sorted(found) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_ANSWER])
def test_worker_killed_with_a_dead_letter_on_the_wire_hands_back_the_jobs_behind_it(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    broker.fault = lambda asked: fault if asked.kind == "ack" else None
    broker.push_job("a", "throws", data="no", tries=1)
    broker.push_job("b")
    broker.push_job("c", partition="p-0001")
    pid = bench.start(prefetch=3)
    bench.wait_for(lambda: broker.kinds() == ["ack"])
    kill(bench, pid)
    broker.fault = lambda asked: None
    assert hand_back(bench, pid)["success"]
    broker.release()
    found = broker.pop_all()
    if fault is Fault.HOLD:
        assert ("a", 2) in found
        assert broker.dead_letters() == []
    else:
        assert [txn for txn, _ in broker.dead_letters()] == ["a"]
    assert sorted(job for job in found if job[0] != "a") == [("b", 1), ("c", 1)]
