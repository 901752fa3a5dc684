"""Jobs that fork: a child is nobody's worker."""

from __future__ import annotations

import os
import sys

import pytest

from atleastonce.system.jobs import JobContext, WithoutOverlapping

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster


def leave(how: str) -> None:
    """What the child does."""
    if how == "exit":
        sys.exit(3)
    if how == "raise":
        raise ValueError("child")


def test_however_a_child_ends_the_job_is_one_attempt_and_its_worker_goes_on(
    on_node: FeatureBench, capfd: pytest.CaptureFixture[str]
) -> None:
    alone = WithoutOverlapping("forks", expire_after_s=600)

    @on_node.app.job("forks", middleware=[alone], unique_for_s=600, max_exceptions=2)
    def forks(context: JobContext, payload: str) -> None:
        on_node.log("worker", os.getpid())
        pid = os.fork()
        if pid == 0:
            return leave(payload)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        # The child, which is over, has taken nothing of what its parent holds.
        (name,) = context.fences
        held = on_node.shared.acquire(name, "somebody else", 1) is None
        on_node.log("child", [payload, status, held])
        return None

    pid = on_node.start(prefetch=4)
    for how in ("return", "exit", "raise"):
        assert on_node.dispatch("forks", how).status == "queued"
        on_node.wait_for(on_node.is_done)
    assert on_node.stop(pid) == 0
    assert on_node.records("child") == [
        ["return", 0, True],
        ["exit", 3, True],
        ["raise", 1, True],
    ]
    assert set(on_node.records("worker")) == {pid}
    assert on_node.attempts() == [1, 1, 1]
    assert on_node.outcomes() == ["completed"] * 3
    assert len(on_node.records("AttemptAcked")) == 3
    assert list(on_node.states.iterdir()) == []
    assert "forked child threw" in capfd.readouterr().err


def test_child_that_outlives_its_job_writes_no_journal_and_settles_nothing(
    on_node: FeatureBench,
) -> None:
    @on_node.app.job("leaves-a-child")
    def leaves(context: JobContext, payload: object) -> None:
        if os.fork() == 0:
            on_node.log("child", os.getpid())
            on_node.gate.wait()
            on_node.log("child is over", os.getpid())

    on_node.dispatch("leaves-a-child")
    pid = on_node.start(prefetch=4)
    on_node.wait_for(on_node.is_done)
    on_node.wait_for_records("child", 1)
    on_node.dispatch("gated")
    on_node.wait_for_records("AttemptStarting", 2)
    before = {path.name: path.read_bytes() for path in on_node.states.iterdir()}
    on_node.gate.open()
    on_node.gate.open()
    on_node.wait_for(on_node.is_done)
    on_node.wait_for_records("child is over", 1)
    assert before
    assert {name.split(".")[0] for name in before} == {str(pid)}
    assert {path.name.split(".")[0] for path in on_node.states.iterdir()} <= {str(pid)}
    assert on_node.stop(pid) == 0
    assert on_node.attempts() == [1, 1]
    assert len(on_node.records("AttemptAcked")) == 2
