"""Jobs of which one at most is queued."""

from __future__ import annotations

import os
import signal
import uuid
from typing import Any

import pytest
import trio

from atleastonce.system.client import AsyncClient, ClientOptions
from atleastonce.system.jobs import Dispatcher, JobContext, SyncDispatcher, prepare_dispatch
from atleastonce.system.jobs.dispatch import DispatchResult

from .one_node import FeatureBench

pytestmark = pytest.mark.cluster


def register(bench: FeatureBench, **rules: Any) -> str:
    """A unique job under a name of its own; with `gated` data it waits for the gate."""
    name = f"only-{uuid.uuid4().hex[:8]}"

    @bench.app.job(name, **{"unique_for_s": 600, **rules})
    def only(context: JobContext, payload: object) -> None:
        bench.log("ran", context.job_id)
        if payload == "gated":
            bench.gate.wait()
        if payload == "throws" and context.attempt == 1:
            raise ValueError("no luck")

    return name


def test_three_dispatches_are_one_job_and_its_end_frees_the_lock(on_node: FeatureBench) -> None:
    name = register(on_node)
    results = [on_node.dispatch(name) for _ in range(3)]
    assert [result.status for result in results] == ["queued", "duplicate", "duplicate"]
    first = results[0].job_id
    assert [result.holder for result in results] == [None, first, first]
    on_node.run_until_drained()
    assert on_node.records("ran") == [first]
    assert on_node.dispatch(name).status == "queued"


def test_lock_is_freed_by_an_ack_whose_answer_is_read_later(on_node: FeatureBench) -> None:
    name = register(on_node)
    on_node.dispatch(name)
    on_node.dispatch("work")
    on_node.run_until_drained(prefetch=4, ack_async=True, pop_ahead=True)
    assert on_node.outcomes() == ["completed", "completed"]
    assert on_node.dispatch(name).status == "queued"


def test_tasks_that_dispatch_at_once_are_told_which_of_them_queued_it(
    on_node: FeatureBench,
) -> None:
    name = register(on_node)
    results: list[DispatchResult] = []

    async def dispatch() -> None:
        client = AsyncClient([on_node.own.endpoint], ClientOptions(10.0, 30.0))
        results.append(await Dispatcher(client).dispatch(on_node.app, name, None))
        await client.aclose()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            for _ in range(4):
                nursery.start_soon(dispatch)

    trio.run(main)
    (queued,) = [result for result in results if result.status == "queued"]
    others = [result.holder for result in results if result.status == "duplicate"]
    assert others == [queued.job_id] * 3


def test_jobs_with_other_keys_are_queued_beside_it(on_node: FeatureBench) -> None:
    name = register(on_node, unique_key=lambda payload: payload["user"])
    statuses = [on_node.dispatch(name, {"user": user}).status for user in ("a/b", "a", "a", "b#")]
    assert statuses == ["queued", "queued", "duplicate", "queued"]


def test_delayed_unique_job_holds_its_lock_while_it_waits(on_node: FeatureBench) -> None:
    name = register(on_node)
    assert on_node.dispatch(name, delay_s=1.0).status == "scheduled"
    assert on_node.dispatch(name).status == "duplicate"
    on_node.run_until_drained()
    assert on_node.dispatch(name).status == "queued"


def test_retry_keeps_the_lock_and_giving_up_frees_it(on_node: FeatureBench) -> None:
    name = register(on_node, tries=2, backoff_s=(600,))
    on_node.dispatch(name, "throws")
    pid = on_node.start()
    on_node.wait_for_records("AttemptAcked", 1)
    assert on_node.dispatch(name).status == "duplicate"
    assert on_node.stop(pid) == 0
    other = register(on_node, tries=1)
    on_node.dispatched.clear()
    on_node.dispatch(other, "throws")
    pid = on_node.start()
    on_node.wait_for_records("JobGaveUp", 1)
    assert on_node.dispatch(other).status == "queued"
    assert on_node.stop(pid) == 0


def test_dispatch_that_is_sent_again_is_the_same_job(on_node: FeatureBench) -> None:
    name = register(on_node)
    dispatcher = SyncDispatcher(on_node.own.client)
    prepared = prepare_dispatch(on_node.app, name, None)
    own: dict[str, Any] = {"job_id": prepared.body.id, "request_id": prepared.request_id}
    first = dispatcher.dispatch(on_node.app, name, None, **own)
    again = dispatcher.dispatch(on_node.app, name, None, **own)
    assert (first.status, again.status) == ("queued", "queued")
    other = dispatcher.dispatch(on_node.app, name, None, job_id=prepared.body.id)
    assert (other.status, other.holder) == ("duplicate", prepared.body.id)
    assert on_node.own.client.depth(on_node.own.queue, "jobs").value.pending == 1


def test_killed_worker_keeps_the_lock_until_the_job_has_come_back_and_ended(
    on_node: FeatureBench,
) -> None:
    name = register(on_node)
    job_id = on_node.dispatch(name, "gated").job_id
    pid = on_node.start(retry_after_s=2.0, timeout_s=1.5)
    on_node.wait_for_records("ran", 1)
    os.kill(pid, signal.SIGKILL)
    on_node.wait_exit(pid)
    assert on_node.dispatch(name).holder == job_id
    on_node.gate.open()
    on_node.run_until_drained(retry_after_s=20.0, timeout_s=15.0)
    assert on_node.records("ran") == [job_id, job_id]
    assert on_node.dispatch(name).status == "queued"


def test_lock_that_has_outlived_its_time_is_the_next_jobs_and_stays_so(
    on_node: FeatureBench,
) -> None:
    name = register(on_node, unique_for_s=1)
    on_node.dispatch(name, "gated", partition="a")
    pid = on_node.start()
    on_node.wait_for_records("ran", 1)
    statuses: list[str] = []

    def is_queued() -> bool:
        statuses.append(on_node.dispatch(name, "gated", partition="b").status)
        return statuses[-1] == "queued"

    on_node.wait_for(is_queued)
    holder = on_node.shared.get(f"unique/{name}/#0", "queen-locks")
    on_node.gate.open()
    on_node.wait_for_records("AttemptAcked", 1)
    # The end of the first job does not free what is the second's by now.
    after = on_node.shared.get(f"unique/{name}/#0", "queen-locks")
    assert after.version == holder.version or not after.found
    on_node.gate.open()
    on_node.wait_for(on_node.is_done)
    assert on_node.stop(pid) == 0


def test_lock_until_processing_is_freed_before_the_handler_runs(on_node: FeatureBench) -> None:
    name = register(on_node, unique_until="processing")
    first = on_node.dispatch(name, "gated", partition="a")
    assert on_node.dispatch(name).status == "duplicate"
    pid = on_node.start()
    on_node.wait_for_records("ran", 1)
    second = on_node.dispatch(name, "gated", partition="b")
    assert second.status == "queued"
    assert on_node.dispatch(name).holder == second.job_id
    on_node.gate.open(2)
    on_node.wait_for(on_node.is_done)
    assert on_node.stop(pid) == 0
    assert on_node.records("ran") == [first.job_id, second.job_id]
