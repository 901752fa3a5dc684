"""What becomes of a job, by how its attempt ends."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from atleastonce.system.jobs import FailedStore, JobContext

from .machine_broker import Asked, Fault, MachineBroker
from .worker_process import Bench


def attempts(bench: Bench) -> list[int]:
    return [record["attempt"] for record in bench.records("AttemptStarting")]


def drained(broker: MachineBroker) -> bool:
    return broker.pending() == 0 and broker.timers() == 0


def run_until_drained(bench: Bench, **changes: object) -> None:
    pid = bench.start(**changes)
    bench.wait_for(lambda: drained(bench.broker) and len(bench.records()) > 0)
    assert bench.stop(pid) == 0


def test_completed_job_is_told_in_order_and_acked(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", data={"x": 1})
    run_until_drained(bench)
    assert bench.records() == [
        "BatchReceived",
        "AttemptStarting",
        "worked",
        "AttemptEnded",
        "AttemptAcked",
    ]
    (started,) = bench.records("AttemptStarting")
    (ended,) = bench.records("AttemptEnded")
    assert (started["job_id"], started["attempt"], started["payload"]) == ("a", 1, {"x": 1})
    assert (ended["outcome"], ended["error"], ended["run"]) == ("completed", None, started["run"])
    assert bench.records("AttemptAcked") == [{"job_id": "a", "run": started["run"]}]
    assert bench.records("BatchReceived") == [{"jobs": [["a", 1, started["lease"]]]}]
    assert list(bench.states.iterdir()) == []


def test_pop_asks_for_the_batch_of_its_settings(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a")
    run_until_drained(bench, prefetch=3, partitions=100)
    query = broker.asked[0].target.split("?")[1].split("&")
    assert sorted(query) == sorted(
        [
            "consumerGroup=jobs",
            "subscriptionMode=all",
            "batch=3",
            "partitions=64",
            "leaseSeconds=40",
            "wait=true",
            "timeout=1000",
        ]
    )


def test_throwing_job_is_tried_again_under_rising_numbers_then_given_up(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "throws", data="no luck", partition="p-0003", tries=3)
    run_until_drained(bench)
    assert attempts(bench) == [1, 2, 3]
    assert bench.records()[-5:] == [
        "AttemptStarting",
        "AttemptEnded",
        "AttemptAcked",
        "JobGaveUp",
        "hook",
    ]
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["attempts"], gave_up["ran"]) == ("exception", 3, True)
    ((_, error),) = broker.dead_letters()
    assert error == "ValueError: no luck"
    (row,) = FailedStore(bench.folder / "failed.db").list()
    assert (row.id, row.job, row.error, row.attempts) == ("a", "throws", error, 3)
    assert (row.cause, row.digest, row.partition) == ("exception", gave_up["digest"], "p-0003")


def test_back_off_waits_as_a_timer(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "throws", tries=3, backoff_s=[0.05, 0.3])
    pid = bench.start()
    bench.wait_for_records("JobGaveUp", 1)
    assert bench.stop(pid) == 0
    assert attempts(bench) == [1, 2, 3]
    bodies = [asked.body for asked in broker.asked if asked.kind == "transaction"]
    delays = [body["timers"][0]["delayMs"] for body in bodies]
    assert delays == [50, 300]


def test_retry_whose_answer_is_lost_is_applied_once(bench: Bench, broker: MachineBroker) -> None:
    lost: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "transaction" and not lost:
            lost.append(asked)
            return Fault.LOSE_ANSWER
        return None

    broker.fault = fault
    broker.push_job("a", "throws", tries=2)
    run_until_drained(bench)
    assert attempts(bench) == [1, 2]
    again = [asked for asked in broker.asked if asked.kind == "transaction"]
    assert [asked.request_id for asked in again] == [lost[0].request_id] * 2
    assert again[0].body == again[1].body


def test_released_job_comes_back_counted(bench: Bench, broker: MachineBroker) -> None:
    @bench.app.job("shy")
    def shy(context: JobContext, payload: Any) -> None:
        if context.attempt < payload["until"]:
            context.release(payload.get("delay_s", 0))

    broker.push_job("a", "shy", data={"until": 2})
    broker.push_job("b", "shy", data={"until": 3, "delay_s": 0.02}, partition="p-0001")
    run_until_drained(bench)
    ends = [(r["job_id"], r["attempt"], r["outcome"]) for r in bench.records("AttemptEnded")]
    assert [e[1:] for e in ends if e[0] == "a"] == [(1, "released"), (2, "completed")]
    assert [e[1:] for e in ends if e[0] == "b"] == [
        (1, "released"),
        (2, "released"),
        (3, "completed"),
    ]


def test_job_released_on_its_last_try_is_given_up_without_running(
    bench: Bench, broker: MachineBroker
) -> None:
    @bench.app.job("never", tries=2)
    def never(context: JobContext, payload: object) -> None:
        context.release()

    broker.push_job("a", "never")
    run_until_drained(bench)
    assert attempts(bench) == [1, 2]
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["attempt"], gave_up["attempts"]) == ("max_attempts", 3, 2)
    assert not gave_up["ran"]
    assert broker.dead_letters()[0][1] == "MaxAttemptsExceeded: picked up as attempt 3 of 2"


def test_failed_job_is_given_up_whatever_tries_it_has(bench: Bench, broker: MachineBroker) -> None:
    @bench.app.job("fatal", tries=9)
    def fatal(context: JobContext, payload: object) -> None:
        context.fail("out of paper")

    broker.push_job("a", "fatal")
    run_until_drained(bench)
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["attempts"], gave_up["ran"]) == ("failed", 1, True)
    assert broker.dead_letters() == [("a", "out of paper")]


def test_unlimited_tries_never_give_up(bench: Bench, broker: MachineBroker) -> None:
    @bench.app.job("stubborn", tries=0)
    def stubborn(context: JobContext, payload: object) -> None:
        if context.attempt < 8:
            raise ValueError("again")

    broker.push_job("a", "stubborn")
    run_until_drained(bench)
    assert attempts(bench) == list(range(1, 9))
    assert broker.dead_letters() == []


def test_pickup_beyond_its_tries_does_not_run(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", tries=3, attempts=3)
    run_until_drained(bench)
    assert attempts(bench) == []
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["ran"], gave_up["attempts"]) == ("max_attempts", False, 3)
    (row,) = FailedStore(bench.folder / "failed.db").list()
    assert row.cause == "max_attempts"


@pytest.mark.parametrize(
    "payload", [7, None, {"job": "work"}, {"_job": {"job": "gone", "id": "a", "data": 1}}]
)
def test_what_is_not_a_job_goes_to_the_dead_letters_at_once(
    bench: Bench, broker: MachineBroker, payload: object
) -> None:
    broker.push_raw("a", payload)
    broker.push_job("b")
    run_until_drained(bench)
    assert [txn for txn, _ in broker.dead_letters()] == ["a"]
    assert "not a job" in broker.dead_letters()[0][1]
    assert [record["job_id"] for record in bench.records("AttemptStarting")] == ["b"]
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["job_id"], gave_up["cause"], gave_up["ran"]) == ("a", "not_a_job", False)
    assert [row.id for row in FailedStore(bench.folder / "failed.db").list()] == ["a"]


def test_error_that_utf8_cannot_carry_still_gives_the_job_up(
    bench: Bench, broker: MachineBroker
) -> None:
    @bench.app.job("binary", tries=1)
    def binary(context: JobContext, payload: object) -> None:
        raise ValueError(os.fsdecode(b"\xff\xfe"))

    broker.push_job("a", "binary")
    run_until_drained(bench)
    assert broker.dead_letters() == [("a", "ValueError: \\udcff\\udcfe")]


def test_jobs_behind_a_dead_letter_come_back_uncharged(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a", "throws", tries=1)
    for name in ("b", "c"):
        broker.push_job(name)
    run_until_drained(bench, prefetch=4)
    starts = [(r["job_id"], r["attempt"]) for r in bench.records("AttemptStarting")]
    assert starts == [("a", 1), ("b", 1), ("c", 1)]
    assert len(bench.records("BatchReceived")) == 2


def test_jobs_of_a_partition_run_in_order(bench: Bench, broker: MachineBroker) -> None:
    names = [f"j{n}" for n in range(12)]
    for name in names:
        broker.push_job(name)
    run_until_drained(bench, prefetch=4, ack_async=True, pop_ahead=True)
    assert bench.records("worked") == names


def test_hook_that_throws_does_not_keep_the_row_from_being_stored(
    bench: Bench, broker: MachineBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    def hook(payload: object, error: str) -> None:
        raise RuntimeError("hook is broken")

    @bench.app.job("bad", tries=1, failed=hook)
    def bad(context: JobContext, payload: object) -> None:
        raise ValueError("x")

    broker.push_job("a", "bad")
    run_until_drained(bench)
    assert [row.id for row in FailedStore(bench.folder / "failed.db").list()] == ["a"]
    assert "hook is broken" in capfd.readouterr().err


def test_row_lies_in_the_store_that_the_worker_is_set_to(
    bench: Bench, broker: MachineBroker, tmp_path: Path
) -> None:
    broker.push_job("a", "throws", tries=1)
    run_until_drained(bench, failed_store=str(tmp_path / "other.db"))
    assert [row.id for row in FailedStore(tmp_path / "other.db").list()] == ["a"]
    assert not (bench.folder / "failed.db").exists()


def test_process_that_a_job_forks_settles_nothing(bench: Bench, broker: MachineBroker) -> None:
    @bench.app.job("forks")
    def forks(context: JobContext, payload: object) -> None:
        pid = os.fork()
        if pid == 0:
            return
        os.waitpid(pid, 0)

    broker.push_job("a", "forks")
    run_until_drained(bench)
    assert len(bench.records("AttemptEnded")) == 1
    assert len(bench.records("AttemptAcked")) == 1
    assert broker.kinds() == ["ack"]
