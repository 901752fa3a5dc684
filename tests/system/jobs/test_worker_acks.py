"""Acks: on the wire before the next job starts, answered before the next request."""

from __future__ import annotations

from atleastonce.system.jobs.journal import read_debts

from .machine_broker import Asked, Fault, MachineBroker
from .worker_process import Bench


def one_fault(kind: str, fault: Fault) -> tuple[list[Asked], object]:
    hit: list[Asked] = []

    def choose(asked: Asked) -> Fault | None:
        if asked.kind == kind and not hit:
            hit.append(asked)
            return fault
        return None

    return hit, choose


def acked_jobs(broker: MachineBroker) -> list[str]:
    return [asked.body["transactionId"] for asked in broker.asked if asked.kind == "ack"]


def test_ack_of_a_finished_job_is_sent_before_the_next_job_ends(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", "gated", partition="p-0001")
    pid = bench.start(prefetch=2, ack_async=True)
    bench.wait_for_records("AttemptStarting", 2)
    bench.wait_for(lambda: acked_jobs(broker) == ["a"])
    assert len(bench.records("AttemptEnded")) == 1
    bench.gate.open()
    bench.wait_for(lambda: acked_jobs(broker) == ["a", "b"])
    assert bench.stop(pid) == 0


def test_next_job_starts_before_the_ack_is_answered(bench: Bench, broker: MachineBroker) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "ack" else None
    broker.push_job("a")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=2, ack_async=True)
    bench.wait_for_records("worked", 2)
    assert bench.records("AttemptAcked") == []
    broker.release()
    assert [r["job_id"] for r in bench.wait_for_records("AttemptAcked", 2)] == ["a", "b"]
    assert bench.stop(pid) == 0


def test_ack_is_answered_before_the_next_ack_is_sent(bench: Bench, broker: MachineBroker) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "ack" else None
    for n in range(3):
        broker.push_job(f"j{n}", partition=f"p-000{n}")
    pid = bench.start(prefetch=3, ack_async=True)
    bench.wait_for_records("AttemptEnded", 2)
    bench.wait_for(lambda: acked_jobs(broker) != [])
    assert acked_jobs(broker) == ["j0"]
    broker.release()
    bench.wait_for_records("AttemptAcked", 3)
    assert acked_jobs(broker) == ["j0", "j1", "j2"]
    assert bench.stop(pid) == 0


def test_without_ack_async_the_next_job_waits_for_the_answer(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=2)
    bench.wait_for_records("AttemptAcked", 2)
    assert bench.records()[1:] == ["AttemptStarting", "worked", "AttemptEnded", "AttemptAcked"] * 2
    assert bench.stop(pid) == 0


def test_ack_whose_answer_is_lost_is_sent_again_and_succeeds(
    bench: Bench, broker: MachineBroker
) -> None:
    hit, broker.fault = one_fault("ack", Fault.LOSE_ANSWER)  # type: ignore[assignment]
    broker.push_job("a")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=2, ack_async=True)
    bench.wait_for_records("AttemptAcked", 2)
    assert acked_jobs(broker) == ["a", "a", "b"]
    assert broker.asked[-1].kind != "transaction"
    again = [asked.request_id for asked in broker.asked if asked.kind == "ack"][1]
    assert hit[0].request_id == again
    assert bench.stop(pid) == 0
    assert len(bench.records("worked")) == 2


def test_refused_ack_abandons_the_jobs_behind_it(bench: Bench, broker: MachineBroker) -> None:
    _, broker.fault = one_fault("ack", Fault.REJECT)  # type: ignore[assignment]
    for n in range(4):
        broker.push_job(f"j{n}", partition=f"p-000{n}")
    pid = bench.start(prefetch=4, ack_async=True)
    # The refusal is read when the second job has ended; the other two never start.
    bench.wait_for(lambda: len(acked_jobs(broker)) == 2)
    bench.wait_for(lambda: broker.asked[-1].kind == "pop")
    assert len(bench.records("AttemptStarting")) == 2
    debts = read_debts(bench.states, pid)
    assert debts.debts == ()
    assert bench.stop(pid) == 0
    assert "transaction" not in broker.kinds()


def test_unanswered_ack_abandons_the_lease(bench: Bench, broker: MachineBroker) -> None:
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "ack" else None
    broker.push_job("a")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=2, deadline_s=0.2)
    bench.wait_for(lambda: len(acked_jobs(broker)) > 1 and broker.asked[-1].kind == "pop")
    assert [r["job_id"] for r in bench.records("AttemptStarting")] == ["a"]
    assert bench.records("AttemptAcked") == []
    broker.fault = lambda _: None
    broker.expire_leases()
    bench.wait_for_records("AttemptAcked", 2)
    starts = [(r["job_id"], r["attempt"]) for r in bench.records("AttemptStarting")]
    assert sorted(starts) == [("a", 1), ("a", 2), ("b", 2)]
    assert bench.stop(pid) == 0


def test_retry_whose_ack_is_refused_pushes_nothing(bench: Bench, broker: MachineBroker) -> None:
    @bench.app.job("outlives")
    def outlives(context: object, payload: object) -> None:
        bench.gate.wait()
        raise ValueError("too late")

    broker.push_job("a", "outlives", tries=2)
    pid = bench.start()
    bench.wait_for_records("AttemptStarting", 1)
    broker.expire_leases()
    bench.gate.open(2)
    bench.wait_for_records("AttemptStarting", 2)
    assert bench.records("AttemptStarting")[1]["attempt"] == 2
    bench.wait_for_records("JobGaveUp", 1)
    assert bench.stop(pid) == 0
    assert broker.pending() == 0


def test_dead_letter_that_is_refused_calls_neither_hook_nor_store(
    bench: Bench, broker: MachineBroker
) -> None:
    _, broker.fault = one_fault("ack", Fault.REJECT)  # type: ignore[assignment]
    broker.push_job("a", "throws", tries=1)
    pid = bench.start()
    bench.wait_for(lambda: len(acked_jobs(broker)) == 1)
    broker.expire_leases()
    bench.wait_for_records("hook", 1)
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["attempts"], gave_up["ran"]) == ("max_attempts", 1, False)
    assert bench.stop(pid) == 0


def test_unwritten_ack_is_a_bug_that_shows(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a")
    broker.push_job("b", "gated", partition="p-0001")
    pid = bench.start(prefetch=2, ack_async=True, pop_ahead=True, bugs=("async-ack-unwritten",))
    bench.wait_for_records("AttemptStarting", 2)
    bench.wait_for(lambda: [asked.kind for asked in broker.asked].count("pop") == 2)
    assert acked_jobs(broker) == []
    assert read_debts(bench.states, pid).debts == ()
    bench.gate.open()
    bench.wait_for(lambda: acked_jobs(broker) == ["a", "b"])
    assert bench.stop(pid) == 0
