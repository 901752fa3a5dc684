"""Jobs that are limited, throttled or skipped."""

from __future__ import annotations

import time

import pytest

from atleastonce.system.client import keyvalue
from atleastonce.system.jobs import JobContext, RateLimited, Skip, ThrottlesExceptions
from atleastonce.system.jobs.shared_state import COUNTERS

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster


def test_jobs_over_the_limit_come_back_in_the_windows_after(on_node: FeatureBench) -> None:
    limit = RateLimited("mail", 1, 2, spread_s=0.1)

    @on_node.app.job("mail", tries=0, middleware=[limit])
    def mail(context: JobContext, payload: object) -> None:
        on_node.log("sent", context.attempt)

    for partition in "abc":
        on_node.dispatch("mail", partition=partition)
    on_node.run_until_drained()
    sent = [at for at, _ in on_node.timed("sent")]
    assert len(sent) == 3
    assert sent[2] - sent[0] >= 2.0
    # Every release was counted.
    assert len(on_node.attempts()) == on_node.outcomes().count("released") + 3


@pytest.mark.parametrize("ahead_s", [3600, -3600])
def test_windows_end_when_the_broker_says_whatever_the_workers_time_of_day(
    on_node: FeatureBench, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    limit = RateLimited(f"clock{ahead_s}", 1, 6)

    @on_node.app.job("mail", tries=3, middleware=[limit])
    def mail(context: JobContext, payload: object) -> None:
        on_node.log("sent", context.attempt)

    for partition in "ab":
        on_node.dispatch("mail", partition=partition)
    right, right_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: right() + ahead_s)
    monkeypatch.setattr(time, "time_ns", lambda: right_ns() + ahead_s * 1_000_000_000)
    started = time.monotonic()
    on_node.run_until_drained()
    assert [attempt for _, attempt in on_node.timed("sent")] == [1, 2]
    assert time.monotonic() - started < 12


def test_job_that_is_limited_three_times_fails_at_its_fourth_pickup_without_running(
    on_node: FeatureBench,
) -> None:
    @on_node.app.job("limited", tries=3, middleware=[RateLimited("full", 1, 1)])
    def limited(context: JobContext, payload: object) -> None:
        on_node.log("ran", context.attempt)

    full = {"op": "put", "ns": COUNTERS, "key": "rate/full", "value": 1, "forever": True}
    on_node.own.client.call(keyvalue.kv([full]))
    on_node.dispatch("limited")
    on_node.run_until_drained()
    assert on_node.attempts() == [1, 2, 3]
    assert on_node.outcomes() == ["released"] * 3
    assert on_node.records("ran") == []
    gave_up = on_node.give_up()
    assert (gave_up["cause"], gave_up["attempt"], gave_up["ran"]) == ("max_attempts", 4, False)


def test_job_that_threw_too_often_waits_until_the_count_has_decayed(
    on_node: FeatureBench,
) -> None:
    throttle = ThrottlesExceptions(2, 3, retry_after_s=0.1)

    @on_node.app.job("flaky", tries=0, max_exceptions=1, middleware=[throttle])
    def flaky(context: JobContext, payload: object) -> None:
        on_node.log("ran", context.attempt)
        if len(on_node.records("ran")) <= 2:
            raise ValueError("no luck")

    on_node.dispatch("flaky")
    on_node.run_until_drained()
    ran = [at for at, _ in on_node.timed("ran")]
    assert len(ran) == 3
    assert ran[2] - ran[0] >= 3.0
    # What is throttled is released: the limit of one throw is not reached.
    assert on_node.outcomes() == ["released"] * (len(on_node.attempts()) - 1) + ["completed"]
    assert not on_node.shared.get("throttle/flaky").found


def test_exceptions_that_are_not_throttled_are_throws(on_node: FeatureBench) -> None:
    throttle = ThrottlesExceptions(1, 600, when=lambda error: isinstance(error, OSError))

    @on_node.app.job("fails", tries=2, backoff_s=(0,), middleware=[throttle])
    def fails(context: JobContext, payload: object) -> None:
        raise ValueError("no luck")

    on_node.dispatch("fails")
    on_node.run_until_drained()
    assert on_node.outcomes() == ["threw", "threw"]
    assert not on_node.shared.get("throttle/fails").found


def test_skipped_job_is_done_without_having_run(on_node: FeatureBench) -> None:
    when = Skip(when=lambda context, payload: payload == "no")
    unless = Skip(unless=lambda context, payload: payload == "yes")

    @on_node.app.job("maybe", middleware=[when, unless])
    def maybe(context: JobContext, payload: object) -> None:
        on_node.log("ran", payload)

    for payload in ("no", "perhaps", "yes"):
        on_node.dispatch("maybe", payload)
    on_node.run_until_drained()
    assert on_node.records("ran") == ["yes"]
    assert sorted(on_node.outcomes()) == ["completed", "skipped", "skipped"]
    assert on_node.own.dead_letters() == []
