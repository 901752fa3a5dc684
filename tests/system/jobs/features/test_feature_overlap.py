"""Jobs of one key, one at a time."""

from __future__ import annotations

import os
import signal

import pytest

from atleastonce.system.client import calls
from atleastonce.system.jobs import JobContext, Proceed, WithoutOverlapping, guard

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster


def test_jobs_of_a_key_run_one_at_a_time_and_other_keys_beside_them(
    on_node: FeatureBench,
) -> None:
    alone = WithoutOverlapping(lambda payload: payload["key"], release_after_s=0.2)

    @on_node.app.job("exclusive", tries=0, middleware=[alone])
    def exclusive(context: JobContext, payload: dict[str, str]) -> None:
        on_node.log("in", payload["key"])
        on_node.gate.wait()
        on_node.log("out", payload["key"])

    for partition, key in (("a", "x"), ("b", "x"), ("c", "y")):
        on_node.dispatch("exclusive", {"key": key}, partition=partition)
    pids = [on_node.start() for _ in range(2)]
    # Both keys are inside at once; the third job is released again and again meanwhile.
    on_node.wait_for(lambda: sorted(on_node.records("in")) == ["x", "y"])
    on_node.gate.open(3)
    on_node.wait_for(on_node.is_done)
    assert [on_node.stop(pid) for pid in pids] == [0, 0]
    steps = [step for step in on_node.records() if step in ("in", "out")]
    keys = on_node.records("in")
    assert sorted(keys) == ["x", "x", "y"]
    inside = [name for name, key in zip(steps, _keys(on_node), strict=True) if key == "x"]
    assert inside == ["in", "out", "in", "out"]


def _keys(bench: FeatureBench) -> list[str]:
    rows = [(at, key) for name in ("in", "out") for at, key in bench.timed(name)]
    return [key for _, key in sorted(rows)]


def test_job_that_is_kept_out_three_times_fails_at_its_fourth_pickup_without_running(
    on_node: FeatureBench,
) -> None:
    alone = WithoutOverlapping("one", release_after_s=0.1)

    @on_node.app.job("kept-out", tries=3, middleware=[alone])
    def kept_out(context: JobContext, payload: object) -> None:
        on_node.log("ran", context.attempt)

    name = alone.lock_name("kept-out", None)
    token = on_node.shared.acquire(name, "somebody else", 600)
    assert token is not None
    on_node.dispatch("kept-out")
    on_node.run_until_drained()
    on_node.shared.release(name, token)
    assert on_node.attempts() == [1, 2, 3]
    assert on_node.outcomes() == ["released"] * 3
    assert on_node.records("ran") == []
    gave_up = on_node.give_up()
    assert (gave_up["cause"], gave_up["attempt"], gave_up["attempts"]) == ("max_attempts", 4, 3)


def test_job_that_may_not_wait_is_dropped(on_node: FeatureBench) -> None:
    alone = WithoutOverlapping("drop", release_after_s=None, shared=True)

    @on_node.app.job("dropped", middleware=[alone])
    def dropped(context: JobContext, payload: object) -> None:
        on_node.log("ran", context.attempt)

    name = alone.lock_name("dropped", None)
    token = on_node.shared.acquire(name, "somebody else", 600)
    assert token is not None
    on_node.dispatch("dropped")
    on_node.run_until_drained()
    on_node.shared.release(name, token)
    assert on_node.outcomes() == ["skipped"]
    assert on_node.records("ran") == []
    assert on_node.own.dead_letters() == []


def test_next_attempt_after_a_kill_gets_the_lock_under_a_token_that_fences_the_dead_one(
    on_node: FeatureBench,
) -> None:
    alone = WithoutOverlapping("fenced", expire_after_s=600)

    @on_node.app.job("guarded", middleware=[alone])
    def guarded(context: JobContext, payload: object) -> None:
        on_node.log("fences", context.fences)
        on_node.gate.wait()

    on_node.dispatch("guarded")
    pid = on_node.start(retry_after_s=2.0, timeout_s=1.5)
    on_node.wait_for_records("fences", 1)
    os.kill(pid, signal.SIGKILL)
    on_node.wait_exit(pid)
    pid = on_node.start(retry_after_s=20.0, timeout_s=15.0)
    first, second = on_node.wait_for_records("fences", 2)
    (name,) = first
    assert second[name] > first[name]
    client = on_node.own.client
    verdicts = [
        client.call(calls.transaction({"kv": [guard(name, fences[name])]})).value.success
        for fences in (first, second)
    ]
    assert verdicts == [False, True]
    on_node.gate.open()
    on_node.wait_for(on_node.is_done)
    assert on_node.stop(pid) == 0
    assert on_node.attempts() == [1, 2]
    assert on_node.shared.acquire(name, "somebody else", 1) is not None


def test_timeout_frees_the_lock_that_its_run_held(on_node: FeatureBench) -> None:
    alone = WithoutOverlapping("timed", expire_after_s=600)

    @on_node.app.job("endless", tries=1, timeout_s=0.5, middleware=[alone])
    def endless(context: JobContext, payload: object) -> None:
        on_node.gate.wait()

    on_node.dispatch("endless")
    pid = on_node.start()
    assert os.WTERMSIG(on_node.wait_exit(pid)) == signal.SIGKILL
    assert on_node.give_up()["cause"] == "timeout"
    name = alone.lock_name("endless", None)
    assert on_node.shared.acquire(name, "somebody else", 1) is not None


def test_middleware_is_passed_from_the_outermost_in_and_may_change_what_follows(
    on_node: FeatureBench,
) -> None:
    def outer(context: JobContext, payload: dict[str, int], proceed: Proceed) -> None:
        on_node.log("step", "outer in")
        proceed(context, {"n": payload["n"] + 1})
        on_node.log("step", "outer out")

    def inner(context: JobContext, payload: dict[str, int], proceed: Proceed) -> None:
        on_node.log("step", f"inner {payload['n']}")
        proceed(context, payload)

    @on_node.app.job("layered", middleware=[outer, inner])
    def layered(context: JobContext, payload: dict[str, int]) -> None:
        on_node.log("step", f"handler {payload['n']}")

    on_node.dispatch("layered", {"n": 1})
    on_node.run_until_drained()
    assert on_node.records("step") == ["outer in", "inner 2", "handler 2", "outer out"]
