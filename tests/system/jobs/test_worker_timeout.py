"""Jobs that run too long: the worker settles, says why, and kills itself."""

from __future__ import annotations

import os
import signal
import time

import pytest

from atleastonce.system.jobs import AttemptEnded, FailedStore, JobContext
from atleastonce.system.jobs.exitmark import ExitMark, take_mark
from atleastonce.system.jobs.journal import read_debts

from .machine_broker import Fault, MachineBroker
from .worker_process import Bench


@pytest.fixture
def endless(bench: Bench) -> Bench:
    @bench.app.job("endless", timeout_s=0.1, failed=lambda payload, error: bench.log("hook", error))
    def run(context: JobContext, payload: object) -> None:
        while True:
            bench.gate.wait()

    return bench


def killed_by_timeout(bench: Bench, pid: int) -> bool:
    status = bench.wait_exit(pid)
    killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return killed and take_mark(bench.states, pid, status) is ExitMark.TIMEOUT


def test_job_with_tries_left_waits_for_its_lease(endless: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "endless", tries=2)
    assert killed_by_timeout(endless, endless.start())
    (ended,) = endless.records("AttemptEnded")
    assert ended["outcome"] == "timed_out"
    assert ended["error"] == "TimeoutExceeded: attempt 1 ran longer than 0.1 s"
    assert endless.records("JobGaveUp") == []
    assert broker.kinds() == []
    assert broker.pop_all() == []
    broker.expire_leases()
    assert broker.pop_all() == [("a", 2)]


def test_last_attempt_is_given_up_inside_the_run(endless: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "endless", tries=1)
    assert killed_by_timeout(endless, endless.start())
    assert endless.records()[2:] == ["AttemptEnded", "AttemptAcked", "JobGaveUp", "hook"]
    (gave_up,) = endless.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["ran"], gave_up["attempts"]) == ("timeout", True, 1)
    assert [txn for txn, _ in broker.dead_letters()] == ["a"]
    assert [row.cause for row in FailedStore(endless.folder / "failed.db").list()] == ["timeout"]


def test_unstarted_jobs_are_handed_back_uncharged(endless: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "endless", tries=2)
    broker.push_job("b", partition="p-0001")
    pid = endless.start(prefetch=4)
    assert killed_by_timeout(endless, pid)
    assert read_debts(endless.states, pid).debts == ()
    assert broker.pop_all() == [("b", 1)]
    broker.expire_leases()
    assert ("a", 2) in broker.pop_all()


def test_job_with_a_tail_is_handed_back_before_it_and_counted(
    endless: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "endless", tries=2)
    broker.push_job("b")
    assert killed_by_timeout(endless, endless.start(prefetch=4))
    assert broker.pop_all() == [("a", 2), ("b", 1)]


def test_jobs_behind_a_last_attempt_come_back_uncharged(
    endless: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "endless", tries=1)
    broker.push_job("b")
    broker.push_job("c", partition="p-0001")
    assert killed_by_timeout(endless, endless.start(prefetch=4))
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1)]


def test_ack_that_is_out_is_settled_and_the_batch_ahead_handed_back(
    endless: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a")
    broker.push_job("b", "endless", tries=2, partition="p-0001")
    for n in range(2, 4):
        broker.push_job(f"j{n}", partition=f"p-000{n}")
    pid = endless.start(prefetch=2, ack_async=True, pop_ahead=True)
    assert killed_by_timeout(endless, pid)
    assert [r["job_id"] for r in endless.records("AttemptAcked")] == ["a"]
    assert sorted(broker.pop_all()) == [("j2", 1), ("j3", 1)]


def test_dead_letter_that_cannot_be_filed_is_left_to_the_next_pickup(
    endless: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "ack" else None
    broker.push_job("a", "endless", tries=1)
    assert killed_by_timeout(endless, endless.start(settle_timeout_s=0.05))
    assert endless.records("JobGaveUp") == []
    broker.expire_leases()
    assert broker.pop_all() == [("a", 2)]


def test_timeout_of_the_job_itself_wins_and_zero_is_none(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "gated", timeout_s=0, tries=1)
    pid = bench.start(timeout_s=0.05)
    bench.wait_for_records("AttemptStarting", 1)
    started_ns = time.monotonic_ns()
    bench.wait_for(lambda: time.monotonic_ns() - started_ns > 200_000_000)
    bench.gate.open()
    bench.wait_for_records("AttemptAcked", 1)
    assert bench.stop(pid) == 0


def test_alarm_does_not_reach_the_job_after(bench: Bench, broker: MachineBroker) -> None:
    for n in range(20):
        broker.push_job(f"j{n}", partition=f"p-{n % 4:04d}", timeout_s=1.0)
    pid = bench.start(prefetch=4, ack_async=True, pop_ahead=True)
    bench.wait_for_records("AttemptAcked", 20)
    started_ns = time.monotonic_ns()
    bench.wait_for(lambda: time.monotonic_ns() - started_ns > 1_100_000_000)
    assert bench.stop(pid) == 0


def test_listener_that_raises_does_not_keep_the_worker_alive(
    endless: Bench, broker: MachineBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    def broken(event: AttemptEnded) -> None:
        raise OSError("log is full")

    endless.app.listen(AttemptEnded, broken)
    broker.push_job("a", "endless", tries=1)
    assert killed_by_timeout(endless, endless.start())
    assert "log is full" in capfd.readouterr().err


def test_hook_that_hangs_does_not_keep_the_worker_alive(
    bench: Bench, broker: MachineBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("atleastonce.system.jobs.ending.TIMEOUT_ENDING_S", 0.2)

    def hang(payload: object, error: str) -> None:
        bench.gate.wait()

    @bench.app.job("endless", timeout_s=0.05, tries=1, failed=hang)
    def run(context: JobContext, payload: object) -> None:
        bench.gate.wait()

    broker.push_job("a", "endless")
    assert killed_by_timeout(bench, bench.start())
    assert len(bench.records("JobGaveUp")) == 1
