"""How workers leave: stops and recycling."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import msgspec
import pytest

from atleastonce.system.jobs import JobContext
from atleastonce.system.jobs.exitmark import ExitMark, take_mark
from atleastonce.system.jobs.leasewire import Shutdown

from .machine_broker import Asked, Fault, MachineBroker
from .worker_process import Bench


def decoded(body: object) -> object:
    """A request's body as plain values."""
    return msgspec.json.decode(msgspec.json.encode(body))


def queue_four(broker: MachineBroker, first: str = "gated") -> None:
    """`a` and `b` share a partition, `c` and `d` have one each."""
    broker.push_job("a", first)
    broker.push_job("b")
    broker.push_job("c", partition="p-0001")
    broker.push_job("d", partition="p-0002")


def test_idle_worker_stops_at_once(bench: Bench, broker: MachineBroker) -> None:
    pid = bench.start(block_for_s=2.0)
    bench.wait_for(lambda: len(broker.asked) >= 1)
    assert bench.stop(pid) == 0
    assert list(bench.states.iterdir()) == []


def test_stopping_worker_takes_nothing_with_it_from_a_waiting_pop(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = bench.start(block_for_s=2.0)
    bench.wait_for(lambda: len(broker.asked) >= 1)
    assert bench.stop(pid) == 0
    broker.push_job("a")
    assert broker.pop_all() == [("a", 1)]


def test_stop_lets_the_running_job_finish_and_hands_back_the_rest_uncharged(
    bench: Bench, broker: MachineBroker
) -> None:
    queue_four(broker)
    pid = bench.start(prefetch=4, ack_async=True)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert broker.kinds() == ["ack", "transaction"]
    assert [r["job_id"] for r in bench.records("AttemptAcked")] == ["a"]
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1), ("d", 1)]
    assert list(bench.states.iterdir()) == []


def test_hand_back_whose_answer_is_lost_is_folded(bench: Bench, broker: MachineBroker) -> None:
    lost: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "transaction" and not lost:
            lost.append(asked)
            return Fault.LOSE_ANSWER
        return None

    broker.fault = fault
    queue_four(broker)
    pid = bench.start(prefetch=4)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert broker.kinds() == ["ack", "transaction", "transaction"]
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1), ("d", 1)]


def test_stop_settles_the_ack_that_is_out(bench: Bench, broker: MachineBroker) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "ack" else None
    broker.push_job("a")
    broker.push_job("b", "gated", partition="p-0001")
    pid = bench.start(prefetch=2, ack_async=True)
    bench.wait_for_records("AttemptStarting", 2)
    os.kill(pid, signal.SIGTERM)
    broker.release()
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert [r["job_id"] for r in bench.records("AttemptAcked")] == ["a", "b"]
    assert broker.pending() == 0


def test_stop_sends_a_lost_ack_again(bench: Bench, broker: MachineBroker) -> None:
    lost: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "ack" and not lost:
            lost.append(asked)
            return Fault.LOSE_REQUEST
        return None

    broker.fault = fault
    broker.push_job("a", "gated")
    pid = bench.start(prefetch=1, ack_async=True)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert broker.pending() == 0


def test_stop_hands_back_the_batch_that_was_asked_for_ahead(
    bench: Bench, broker: MachineBroker
) -> None:
    for n in range(4):
        broker.push_job(f"j{n}", "gated", partition=f"p-000{n}")
    pid = bench.start(prefetch=2, ack_async=True, pop_ahead=True)
    bench.gate.open()
    bench.wait_for(lambda: [asked.kind for asked in broker.asked].count("pop") == 2)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert len(bench.records("AttemptStarting")) == 2
    assert sorted(broker.pop_all()) == [("j2", 1), ("j3", 1)]


def test_retry_ack_on_graceful_stop_is_a_bug_that_shows(
    bench: Bench, broker: MachineBroker
) -> None:
    queue_four(broker)
    pid = bench.start(prefetch=4, bugs=("retry-ack-on-graceful-stop",))
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert sorted(broker.pop_all()) == [("b", 2), ("c", 2), ("d", 2)]


def test_hand_back_that_fails_leaves_the_jobs_to_their_lease(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "transaction" else None
    queue_four(broker)
    pid = bench.start(prefetch=4, settle_timeout_s=0.1)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    assert bench.wait_exit(pid) == 0
    assert broker.pop_all() == []
    broker.expire_leases()
    assert sorted(broker.pop_all()) == [("b", 2), ("c", 2), ("d", 2)]


@pytest.mark.parametrize("fault", [Fault.HOLD_ANSWER, Fault.LOSE_REQUEST])
def test_worker_killed_while_it_hands_back_still_owes_it_and_once_is_enough(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    from atleastonce.system.jobs.debts import hand_back_operations
    from atleastonce.system.jobs.journal import read_debts

    broker.fault = lambda asked: fault if asked.kind == "transaction" else None
    queue_four(broker)
    pid = bench.start(prefetch=4, settle_timeout_s=15.0)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    bench.wait_for(lambda: "transaction" in broker.kinds())
    os.kill(pid, signal.SIGKILL)
    bench.wait_exit(pid)
    broker.fault = lambda _: None
    broker.release()
    (debt,) = read_debts(bench.states, pid).debts
    assert (debt.ran, debt.unstarted) == ((), ("b", "c", "d"))
    body = hand_back_operations(debt)
    again = broker.ask("POST", "/api/v1/transaction", decoded(body))
    assert again["success"] is (fault is Fault.LOSE_REQUEST)
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1), ("d", 1)]


@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_ANSWER])
def test_worker_killed_while_it_waits_for_its_last_ack_still_owes_the_rest(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    from atleastonce.system.jobs.debts import hand_back_operations
    from atleastonce.system.jobs.journal import read_debts

    broker.fault = lambda asked: fault if asked.kind == "ack" else None
    queue_four(broker)
    bench.listen()
    pid = bench.start(prefetch=4, ack_async=True, settle_timeout_s=15.0)
    bench.accept()
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGTERM)
    bench.gate.open()
    bench.wait_for(lambda: Shutdown in {type(m) for m in bench.lease_messages()})
    os.kill(pid, signal.SIGKILL)
    bench.wait_exit(pid)
    broker.fault = lambda _: None
    broker.release()
    (debt,) = read_debts(bench.states, pid).debts
    assert (debt.ran, debt.unstarted) == ((), ("b", "c", "d"))
    answer = broker.ask("POST", "/api/v1/transaction", decoded(hand_back_operations(debt)))
    assert answer["success"], answer
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1), ("d", 1)]


def test_stop_does_not_wait_long_for_a_broker_that_is_gone(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "gated")
    pid = bench.start(settle_timeout_s=0.1, deadline_s=60.0)
    bench.wait_for_records("AttemptStarting", 1)
    broker.fault = lambda asked: Fault.REFUSE
    bench.gate.open()
    bench.wait_for(lambda: broker.kinds().count("ack") >= 2)
    assert bench.stop(pid) == 0


@pytest.mark.parametrize("changes", [{"max_jobs": 1}, {"max_time_s": 0.01}])
def test_recycled_worker_hands_back_what_it_did_not_start(
    bench: Bench, broker: MachineBroker, changes: dict[str, object]
) -> None:
    @bench.app.job("slow")
    def slow(context: JobContext, payload: object) -> None:
        bench.gate.wait()

    queue_four(broker, "slow")
    pid = bench.start(prefetch=4, **changes)
    bench.gate.open(1 if "max_jobs" in changes else 4)
    status = bench.wait_exit(pid)
    assert status == 0
    started = {r["job_id"] for r in bench.records("AttemptStarting")}
    left = broker.pop_all()
    assert {name for name, _ in left} == {"a", "b", "c", "d"} - started
    assert {number for _, number in left} <= {1}
    assert take_mark(bench.states, pid, status) is None


def test_worker_at_its_memory_limit_says_so(bench: Bench, broker: MachineBroker) -> None:
    queue_four(broker, "work")
    pid = bench.start(prefetch=4, memory_mib=1)
    status = bench.wait_exit(pid)
    assert os.waitstatus_to_exitcode(status) == 12
    assert len(bench.records("AttemptStarting")) == 1
    assert take_mark(bench.states, pid, status) is ExitMark.MEMORY
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1), ("d", 1)]


def test_listener_that_raises_ends_the_worker_and_leaves_its_journal(
    bench: Bench, broker: MachineBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    from atleastonce.system.jobs import AttemptStarting
    from atleastonce.system.jobs.journal import read_debts

    def broken(event: AttemptStarting) -> None:
        raise OSError("log is full")

    bench.app.listen(AttemptStarting, broken)
    queue_four(broker)
    pid = bench.start(prefetch=4)
    assert bench.wait_exit(pid) != 0
    (debt,) = read_debts(Path(bench.states), pid).debts
    assert (debt.ran, debt.unstarted) == (("a",), ("b", "c", "d"))
