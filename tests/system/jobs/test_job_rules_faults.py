"""Unique jobs and middleware when requests or answers are lost."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from atleastonce.system.client import ClientOptions, SyncClient
from atleastonce.system.jobs import (
    ConnectionSettings,
    JobContext,
    RateLimited,
    SyncDispatcher,
    WithoutOverlapping,
)
from atleastonce.system.jobs.dispatch import DispatchResult

from .machine_broker import GROUP, QUEUE, Asked, Fault, MachineBroker
from .worker_process import Bench

Dispatch = Callable[[], DispatchResult]


@pytest.fixture
def dispatch(bench: Bench, broker: MachineBroker) -> Dispatch:
    """Dispatches a unique job; its handler waits for the gate."""

    @bench.app.job("only", unique_for_s=600)
    def only(context: JobContext, payload: object) -> None:
        bench.gate.wait()

    address = (broker.endpoint.host, broker.endpoint.port)
    bench.app.connection = ConnectionSettings(
        endpoints=(address,), queue=QUEUE, consumer_group=GROUP, partitions=4
    )

    def once() -> DispatchResult:
        client = SyncClient([broker.endpoint], ClientOptions(deadline_s=5.0))
        try:
            return SyncDispatcher(client).dispatch(bench.app, "only", None)
        finally:
            client.close()

    return once


def first_of(kind: str, fault: Fault) -> Callable[[Asked], Fault | None]:
    """A fault of the first request of a kind."""
    hit: list[Asked] = []

    def script(asked: Asked) -> Fault | None:
        if asked.kind == kind and not hit:
            hit.append(asked)
            return fault
        return None

    return script


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST])
def test_dispatch_whose_exchange_is_lost_queues_one_job_and_says_so(
    broker: MachineBroker, dispatch: Dispatch, fault: Fault
) -> None:
    broker.fault = first_of("transaction", fault)
    result = dispatch()
    assert (result.status, result.tries, result.holder) == ("queued", 2, None)
    assert dispatch().holder == result.job_id
    assert broker.pending() == 1


@pytest.mark.parametrize("fault", [Fault.LOSE_ANSWER, Fault.LOSE_REQUEST])
@pytest.mark.parametrize("ack_async", [False, True])
def test_last_ack_whose_exchange_is_lost_settles_the_job_and_frees_its_lock_once(
    bench: Bench, broker: MachineBroker, dispatch: Dispatch, fault: Fault, ack_async: bool
) -> None:
    job_id = dispatch().job_id
    pid = bench.start(ack_async=ack_async)
    bench.wait_for_records("AttemptStarting", 1)
    broker.fault = first_of("transaction", fault)
    bench.gate.open()
    bench.wait_for(lambda: broker.pending() == 0)
    assert bench.stop(pid) == 0
    assert [row["job_id"] for row in bench.records("AttemptAcked")] == [job_id]
    assert dispatch().status == "queued"


def test_lock_that_cannot_be_read_at_the_end_does_not_keep_the_job_from_ending(
    bench: Bench, broker: MachineBroker, dispatch: Dispatch, capfd: pytest.CaptureFixture[str]
) -> None:
    job_id = dispatch().job_id
    pid = bench.start()
    bench.wait_for_records("AttemptStarting", 1)
    broker.fault = lambda asked: Fault.REFUSE if asked.kind == "kv" else None
    bench.gate.open()
    bench.wait_for(lambda: broker.pending() == 0)
    assert bench.stop(pid) == 0
    assert len(bench.records("AttemptAcked")) == 1
    assert "unique lock not read" in capfd.readouterr().err
    # Its lifetime ends it.
    assert dispatch().holder == job_id
    broker.expire_leases(601)
    assert dispatch().status == "queued"


def test_job_killed_while_its_ack_is_out_leaves_neither_job_nor_lock(
    bench: Bench, broker: MachineBroker, dispatch: Dispatch
) -> None:
    dispatch()
    pid = bench.start()
    bench.wait_for_records("AttemptStarting", 1)
    broker.fault = first_of("transaction", Fault.HOLD_ANSWER)
    bench.gate.open()
    bench.wait_for(lambda: broker.pending() == 0)
    os.kill(pid, signal.SIGKILL)
    bench.wait_exit(pid)
    broker.release()
    assert dispatch().status == "queued"


def test_middleware_that_no_node_answers_is_a_throw_and_the_job_is_tried_again(
    bench: Bench, broker: MachineBroker
) -> None:
    alone = WithoutOverlapping("k", expire_after_s=600)

    @bench.app.job("limited", tries=2, middleware=[alone, RateLimited("k", 9, 60)])
    def limited(context: JobContext, payload: object) -> None:
        bench.log("ran", context.attempt)

    broken = {"locks"}
    broker.fault = lambda asked: Fault.REFUSE if asked.kind in broken else None
    broker.push_job("a", "limited")
    pid = bench.start(retry_after_s=6.0)
    bench.wait_for_records("AttemptEnded", 1)
    broken.clear()
    bench.wait_for(lambda: broker.pending() == 0)
    assert bench.stop(pid) == 0
    outcomes = [(row["attempt"], row["outcome"]) for row in bench.records("AttemptEnded")]
    assert outcomes == [(1, "threw"), (2, "completed")]
    assert bench.records("ran") == [2]
    (counted,) = broker.ask(
        "POST",
        "/api/v1/kv",
        {"operations": [{"op": "get", "ns": "job-counters", "key": "rate/k"}]},
    )["results"]
    assert counted["value"] == 1
