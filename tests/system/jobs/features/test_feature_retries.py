"""When a job is tried again, and when it is given up."""

from __future__ import annotations

import os
import signal
import time
from datetime import UTC, datetime, timedelta

import pytest

from atleastonce.system.jobs import FailedStore, JobContext, retry_failed

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster


def test_back_off_list_is_kept_and_its_last_pause_repeats(on_node: FeatureBench) -> None:
    on_node.app.job("broken", tries=4, backoff_s=(0.4, 1.0))(_throw)
    on_node.dispatch("broken")
    on_node.run_until_drained()
    starts = [at for at, _ in on_node.timed("AttemptStarting")]
    ends = [at for at, _ in on_node.timed("AttemptEnded")]
    pauses = [start - end for start, end in zip(starts[1:], ends, strict=False)]
    assert on_node.attempts() == [1, 2, 3, 4]
    assert all(pause >= least for pause, least in zip(pauses, (0.4, 1.0, 1.0), strict=True))
    assert on_node.give_up()["cause"] == "exception"


def test_job_with_a_deadline_is_tried_until_then_whatever_its_tries(on_node: FeatureBench) -> None:
    on_node.app.job("stubborn", tries=1, backoff_s=(0.3,), retry_for_s=6.0)(_throw)
    before_s = time.monotonic()
    on_node.dispatch("stubborn")
    on_node.run_until_drained()
    starts = [at for at, _ in on_node.timed("AttemptStarting")]
    assert len(starts) >= 3
    assert on_node.attempts() == list(range(1, len(starts) + 1))
    assert on_node.timed("JobGaveUp")[0][0] - before_s >= 6.0
    assert on_node.give_up()["cause"] in ("exception", "deadline")


def test_releases_do_not_use_up_a_job_with_a_deadline(on_node: FeatureBench) -> None:
    @on_node.app.job("patient", tries=2, retry_for_s=600.0)
    def patient(context: JobContext, payload: object) -> None:
        assert context.tries == 0
        if context.attempt < 5:
            context.release()

    on_node.dispatch("patient")
    on_node.run_until_drained()
    assert on_node.attempts() == [1, 2, 3, 4, 5]
    assert on_node.outcomes()[-1] == "completed"
    assert on_node.own.dead_letters() == []


def test_pickup_after_the_deadline_does_not_run(on_node: FeatureBench) -> None:
    until = datetime.now(UTC) + timedelta(seconds=0.2)
    on_node.dispatch("work", retry_until=until, delay_s=0.5, tries=9)
    on_node.run_until_drained()
    assert on_node.attempts() == []
    gave_up = on_node.give_up()
    assert (gave_up["cause"], gave_up["ran"], gave_up["attempts"]) == ("deadline", False, 0)
    assert gave_up["error"].startswith("DeadlineExceeded: picked up as attempt 1 after ")


def test_worker_whose_clock_is_ahead_gives_no_job_up_before_its_deadline(
    on_node: FeatureBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @on_node.app.job("late", backoff_s=(0.1,), retry_for_s=600.0)
    def late(context: JobContext, payload: object) -> None:
        if context.attempt < 3:
            raise ValueError("no luck")

    on_node.dispatch("late")
    right_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + 3600 * 1_000_000_000)
    on_node.run_until_drained()
    assert on_node.attempts() == [1, 2, 3]
    assert on_node.outcomes() == ["threw", "threw", "completed"]


def test_retry_of_a_failed_job_begins_its_deadline_anew(on_node: FeatureBench) -> None:
    @on_node.app.job("late", retry_for_s=5.0)
    def late(context: JobContext, payload: object) -> None:
        on_node.log("late", context.attempt)

    job_id = on_node.dispatch("late", delay_s=5.2).job_id
    on_node.run_until_drained()
    assert on_node.give_up()["cause"] == "deadline"
    pid = on_node.start()
    store = FailedStore(on_node.folder / "failed.db")
    row = store.get(job_id)
    assert row is not None
    assert '"span_us":5000000' in row.payload
    retry_failed(store, on_node.own.client, job_id)
    on_node.wait_for(lambda: len(on_node.records("late") + on_node.records("JobGaveUp")) == 2)
    assert on_node.stop(pid) == 0


def test_throws_are_counted_and_releases_are_not(on_node: FeatureBench) -> None:
    @on_node.app.job("moody", tries=10, backoff_s=(0,), max_exceptions=2)
    def moody(context: JobContext, payload: object) -> None:
        if context.attempt % 2:
            context.release()
        raise ValueError("again")

    on_node.dispatch("moody")
    on_node.run_until_drained()
    assert on_node.outcomes() == ["released", "threw", "released", "threw"]
    gave_up = on_node.give_up()
    assert (gave_up["cause"], gave_up["attempts"], gave_up["ran"]) == ("exception", 4, True)


def test_completed_job_leaves_no_count_of_its_throws(on_node: FeatureBench) -> None:
    @on_node.app.job("recovers", tries=10, backoff_s=(0,), max_exceptions=3)
    def recovers(context: JobContext, payload: object) -> None:
        if context.attempt < 3:
            raise ValueError("again")

    job_id = on_node.dispatch("recovers").job_id
    on_node.run_until_drained()
    assert on_node.outcomes() == ["threw", "threw", "completed"]
    assert not on_node.shared.get(f"exceptions/{job_id}").found


def test_first_timeout_gives_up_a_job_that_says_so(on_node: FeatureBench) -> None:
    @on_node.app.job("endless", tries=5, timeout_s=0.2, fail_on_timeout=True)
    def endless(context: JobContext, payload: object) -> None:
        on_node.gate.wait()

    on_node.dispatch("endless")
    pid = on_node.start()
    assert os.WTERMSIG(on_node.wait_exit(pid)) == signal.SIGKILL
    gave_up = on_node.give_up()
    assert on_node.attempts() == [1]
    assert (gave_up["cause"], gave_up["attempts"], gave_up["ran"]) == ("timeout", 1, True)


def test_timeouts_count_as_throws(on_node: FeatureBench) -> None:
    @on_node.app.job("endless", tries=9, timeout_s=0.2, max_exceptions=2)
    def endless(context: JobContext, payload: object) -> None:
        on_node.gate.wait()

    on_node.dispatch("endless")
    for _ in range(2):
        pid = on_node.start(retry_after_s=2.0, timeout_s=1.0)
        assert os.WTERMSIG(on_node.wait_exit(pid)) == signal.SIGKILL
    gave_up = on_node.give_up()
    assert on_node.attempts() == [1, 2]
    assert (gave_up["cause"], gave_up["attempts"]) == ("timeout", 2)


def test_three_releases_are_pickups_1_2_3_and_the_fourth_does_not_run(
    on_node: FeatureBench,
) -> None:
    @on_node.app.job("never", tries=3)
    def never(context: JobContext, payload: object) -> None:
        context.release()

    on_node.dispatch("never")
    on_node.run_until_drained()
    assert on_node.attempts() == [1, 2, 3]
    gave_up = on_node.give_up()
    assert (gave_up["cause"], gave_up["attempt"], gave_up["ran"]) == ("max_attempts", 4, False)


def test_zero_tries_never_give_up(on_node: FeatureBench) -> None:
    @on_node.app.job("forever", tries=0)
    def forever(context: JobContext, payload: object) -> None:
        if context.attempt < 6:
            raise ValueError("again")

    on_node.dispatch("forever")
    on_node.run_until_drained()
    assert on_node.attempts() == [1, 2, 3, 4, 5, 6]
    assert on_node.own.dead_letters() == []


def _throw(context: JobContext, payload: object) -> None:
    raise ValueError("no luck")
