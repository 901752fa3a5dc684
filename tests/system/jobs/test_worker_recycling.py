"""Workers that end for newer code, rest between jobs, and say when they get none."""

from __future__ import annotations

import os
import signal
import time
from itertools import pairwise

import pytest

from atleastonce.system.jobs.exitmark import ExitMark, take_mark
from atleastonce.system.jobs.leasewire import Pops, Shutdown

from .machine_broker import Fault, MachineBroker
from .worker_process import Bench


def _since_s(t_ns: int) -> float:
    return (time.monotonic_ns() - t_ns) / 1e9


def test_worker_asked_for_newer_code_finishes_its_job_and_says_why_it_ends(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", "gated")
    broker.push_job("b")
    broker.push_job("c", partition="p-0001")
    pid = bench.start(prefetch=4)
    bench.wait_for_records("AttemptStarting", 1)
    os.kill(pid, signal.SIGUSR2)
    bench.gate.open()
    status = bench.wait_exit(pid)
    assert status == 0
    assert take_mark(bench.states, pid, status) is ExitMark.RESTART
    assert take_mark(bench.states, pid, status) is None
    assert [r["job_id"] for r in bench.records("AttemptAcked")] == ["a"]
    assert sorted(broker.pop_all()) == [("b", 1), ("c", 1)]


def test_idle_worker_asked_for_newer_code_ends_at_once(bench: Bench, broker: MachineBroker) -> None:
    pid = bench.start(block_for_s=2.0)
    bench.wait_for(lambda: len(broker.asked) == 1)
    os.kill(pid, signal.SIGUSR2)
    status = bench.wait_exit(pid)
    assert (status, take_mark(bench.states, pid, status)) == (0, ExitMark.RESTART)


def test_worker_that_was_only_asked_to_stop_leaves_no_marker(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = bench.start(block_for_s=2.0)
    bench.wait_for(lambda: len(broker.asked) == 1)
    assert bench.stop(pid) == 0
    assert list(bench.states.iterdir()) == []


def test_worker_that_has_handled_nothing_is_never_too_big(
    bench: Bench, broker: MachineBroker
) -> None:
    pid = bench.start(memory_mib=1, block_for_s=0.1)
    bench.wait_for(lambda: len(broker.asked) >= 3)
    status = bench.stop(pid)
    assert (status, take_mark(bench.states, pid, status)) == (0, None)


def test_worker_rests_after_each_job_but_not_before_it_ends(
    bench: Bench, broker: MachineBroker
) -> None:
    for n in range(3):
        broker.push_job(f"j{n}", "noted", partition=f"p-000{n}")

    @bench.app.job("noted")
    def noted(context: object, payload: object) -> None:
        bench.log("at", os.times().elapsed)

    pid = bench.start(prefetch=4, rest_s=0.3, max_jobs=3)
    assert bench.wait_exit(pid) == 0
    times_s = [float(at) for at in bench.records("at")]
    assert len(times_s) == 3
    assert all(later - earlier >= 0.29 for earlier, later in pairwise(times_s))


def test_stop_ends_a_rest(bench: Bench, broker: MachineBroker) -> None:
    broker.push_job("a")
    broker.push_job("b", partition="p-0001")
    pid = bench.start(prefetch=4, rest_s=600.0)
    bench.wait_for_records("AttemptAcked", 1)
    assert bench.stop(pid) == 0
    assert broker.pop_all() == [("b", 1)]


@pytest.mark.parametrize("bugs", [(), ("failing-pops-count-as-capacity",)])
def test_worker_says_when_its_pops_begin_to_fail_and_when_one_is_answered(
    bench: Bench, broker: MachineBroker, bugs: tuple[str, ...]
) -> None:
    bench.listen()
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "pop" else None
    # A pop is tried for a quarter of the lease before it has failed.
    pid = bench.start(block_for_s=0.1, retry_after_s=1.0, timeout_s=0.5, bugs=bugs)
    bench.accept()

    def said() -> list[Pops]:
        return [message for message in bench.lease_messages() if isinstance(message, Pops)]

    if bugs:
        bench.wait_for(lambda: bool(broker.asked) and _since_s(broker.asked[0].t_ns) > 1.0)
    else:
        bench.wait_for(lambda: bool(said()))
    broker.fault = lambda asked: None
    broker.push_job("a")
    bench.wait_for_records("AttemptAcked", 1)
    assert bench.stop(pid) == 0
    if bugs:
        assert said() == []
        return
    assert [message.failing_since_ns is None for message in said()] == [False, True]
    assert bench.lease_messages()[-1] == Shutdown()


def test_worker_whose_pop_raises_ends_and_does_not_try_again(
    bench: Bench, broker: MachineBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_type_error(*_: object) -> None:
        bench.log("tried", None)
        raise TypeError("a pop of something else")

    monkeypatch.setattr("atleastonce.system.jobs.popping.send_pop", raise_type_error)
    pid = bench.start()
    assert bench.wait_exit(pid) != 0
    assert len(bench.records("tried")) == 1
    assert broker.asked == []
