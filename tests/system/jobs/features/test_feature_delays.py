"""Jobs that wait: after their dispatch, until an instant, after a release."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta, timezone

import pytest

from atleastonce.system.jobs import JobContext

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster

DAY_S = 86_400


def test_delayed_job_starts_no_earlier_than_its_delay(on_node: FeatureBench) -> None:
    before_s = time.monotonic()
    assert on_node.dispatch("work", delay_s=1.5).status == "scheduled"
    on_node.run_until_drained()
    ((started_s, row),) = on_node.timed("AttemptStarting")
    assert started_s - before_s >= 1.5
    assert row["attempt"] == 1


def test_job_starts_no_earlier_than_its_instant_in_whatever_zone(on_node: FeatureBench) -> None:
    when = datetime.now(UTC) + timedelta(seconds=1.5)
    on_node.dispatch("work", delay_until=when.astimezone(timezone(timedelta(hours=-7))))
    on_node.run_until_drained()
    ((_, row),) = on_node.timed("AttemptStarting")
    assert datetime.now(UTC) >= when
    assert row["attempt"] == 1


def test_instant_that_has_passed_is_no_delay(on_node: FeatureBench) -> None:
    when = datetime.now(UTC) - timedelta(days=1)
    assert on_node.dispatch("work", delay_until=when).status == "queued"
    on_node.run_until_drained()
    assert on_node.attempts() == [1]


def test_delays_reach_ninety_days_and_no_further(on_node: FeatureBench) -> None:
    assert on_node.dispatch("work", delay_s=90 * DAY_S).status == "scheduled"
    with pytest.raises(ValueError, match=r"delay_s is 7.776e\+06; allowed: 0 to 7776000"):
        on_node.dispatch("work", delay_s=90 * DAY_S + 1)
    with pytest.raises(ValueError, match="at most 90 days from now"):
        on_node.dispatch("work", delay_until=datetime.now(UTC) + timedelta(days=91))


def test_instant_without_a_zone_is_refused_in_one_line(on_node: FeatureBench) -> None:
    with pytest.raises(ValueError, match="without a time zone; allowed") as refused:
        on_node.dispatch("work", delay_until=datetime(2030, 1, 2, 3, 4, 5))
    assert "delay_until is 2030-01-02T03:04:05" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_released_job_comes_back_after_its_pause_with_the_next_number(
    on_node: FeatureBench,
) -> None:
    @on_node.app.job("shy")
    def shy(context: JobContext, payload: object) -> None:
        if context.attempt == 1:
            context.release(1.5)

    on_node.dispatch("shy")
    on_node.run_until_drained()
    starts = on_node.timed("AttemptStarting")
    ends = on_node.timed("AttemptEnded")
    assert on_node.attempts() == [1, 2]
    assert on_node.outcomes() == ["released", "completed"]
    assert starts[1][0] - ends[0][0] >= 1.5


def test_job_may_be_released_until_an_instant(on_node: FeatureBench) -> None:
    @on_node.app.job("later")
    def later(context: JobContext, payload: object) -> None:
        if context.attempt == 1:
            when = datetime.now(UTC) + timedelta(seconds=1)
            on_node.log("when", when.timestamp())
            context.release_until(when)
        on_node.log("ran", time.time())

    on_node.dispatch("later")
    on_node.run_until_drained()
    (when_s,), (ran_s,) = on_node.records("when"), on_node.records("ran")
    assert ran_s >= when_s
