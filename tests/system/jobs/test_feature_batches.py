"""Batches: each callback once, members counted once, cancelled and retried ones accounted for."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from atleastonce.system.client import AsyncClient
from atleastonce.system.jobs import (
    BatchHandle,
    Dispatcher,
    JobContext,
    SkipIfBatchCancelled,
    UnknownBatchError,
    prepare_batch,
    retry_batch,
    step,
)

from .one_node import Site, wait_for

pytestmark = pytest.mark.cluster

CALLBACKS: dict[str, Any] = {"then": "then", "catch": "catch", "finally_": "finally"}


def add_members(site: Site) -> None:
    @site.app.job("member")
    def member(context: JobContext, payload: object) -> None:
        site.log("member", payload)

    @site.app.job("bad", tries=1)
    def bad(context: JobContext, payload: object) -> None:
        if not (site.folder / "mended").exists():
            raise ValueError("bad member")

    @site.app.job("skips", middleware=[SkipIfBatchCancelled()])
    def skips(context: JobContext, payload: object) -> None:
        site.log("ran", payload)

    for name in ("then", "catch", "finally"):
        _add_callback(site, name)


def _add_callback(site: Site, name: str) -> None:
    @site.app.job(name)
    def callback(context: JobContext, payload: object) -> None:
        site.log(name, payload)


def called(site: Site) -> list[str]:
    return sorted(site.names("then", "catch", "finally"))


def test_batch_calls_then_and_finally_once_and_never_catch(site: Site) -> None:
    add_members(site)
    steps = [step("member", n) for n in range(12)]
    batch = site.dispatcher.batch(site.app, steps, name="import", **CALLBACKS)
    assert (batch.progress(), batch.state().pending) == (0, 12)
    site.run_until_drained(workers=3, prefetch=4, ack_async=True, pop_ahead=True)
    assert sorted(site.records("member")) == list(range(12))
    assert called(site) == ["finally", "then"]
    assert site.records("then")[0] == {
        "batch": batch.batch_id,
        "name": "import",
        "total": 12,
        "pending": 0,
        "failed": 0,
        "skipped": 0,
        "cancelled": False,
    }
    state = batch.state()
    assert (batch.progress(), state.is_settled, state.cancelled) == (100, True, False)


def test_batch_with_a_failing_member_is_cancelled_and_caught_once_and_never_done(
    site: Site,
) -> None:
    add_members(site)
    steps = [step("bad", job_id=f"{site.connection.queue}-1"), step("bad"), step("member", 1)]
    batch = site.dispatcher.batch(site.app, steps, **CALLBACKS)
    site.run_until_drained(workers=2)
    assert called(site) == ["catch", "finally"]
    caught = site.records("catch")[0]
    assert (caught["job"], caught["error"]) == ("bad", "ValueError: bad member")
    state = batch.state()
    assert (state.cancelled, state.failed, state.pending, batch.progress()) == (True, 2, 2, 33)


def test_batch_that_allows_failures_is_not_cancelled_by_one(site: Site) -> None:
    add_members(site)
    steps = [step("bad"), *[step("skips", n) for n in range(4)]]
    batch = site.dispatcher.batch(site.app, steps, allow_failures=True, **CALLBACKS)
    site.run_until_drained(partitions=8)
    assert sorted(site.records("ran")) == [0, 1, 2, 3]
    assert called(site) == ["catch", "finally"]
    assert not batch.state().cancelled


def test_members_of_a_cancelled_batch_skip_and_it_is_never_done(site: Site) -> None:
    add_members(site)

    @site.app.job("cancels")
    def cancels(context: JobContext, payload: object) -> None:
        assert context.batch is not None
        site.log("cancelled", [context.batch.cancel(), context.batch.cancel()])

    steps = [step("cancels", partition="p"), *[step("skips", n, partition="p") for n in range(3)]]
    batch = site.dispatcher.batch(site.app, steps, **CALLBACKS)
    site.run_until_drained(prefetch=4)
    assert site.records("cancelled") == [[True, False]]
    assert site.records("ran") == []
    assert called(site) == ["finally"]
    state = batch.state()
    assert (state.skipped, state.pending, state.cancelled) == (3, 0, True)
    assert len(site.records("AttemptAcked")) == 5


def test_retried_members_make_the_batch_done_and_call_nothing_twice(site: Site) -> None:
    add_members(site)
    steps = [step("bad"), step("bad"), step("member", 1)]
    batch = site.dispatcher.batch(site.app, steps, **CALLBACKS)
    site.start()
    wait_for(lambda: called(site) == ["catch", "finally"] and len(site.store.list()) == 2)
    assert len(batch.failed_members()) == 2
    # Failing again counts nothing again.
    (retried, *_) = retry_batch(site.store, site.node.client, batch.batch_id)
    wait_for(lambda: site.left() == 0 and len(site.store.list()) == 2)
    assert retried in batch.failed_members()
    assert (batch.state().failed, batch.state().pending) == (2, 2)
    (site.folder / "mended").touch()
    assert len(retry_batch(site.store, site.node.client, batch.batch_id)) == 2
    wait_for(lambda: "then" in called(site))
    site.stop()
    assert called(site) == ["catch", "finally", "then"]
    assert (batch.progress(), batch.state().failed) == (100, 0)


def test_batch_that_is_sent_twice_runs_once(site: Site) -> None:
    add_members(site)
    steps = [step("member", n, delay_s=0.05 if n == 3 else 0.0) for n in range(4)]
    prepared = prepare_batch(site.app, steps, then="then")
    for _ in range(2):
        prepared.send(site.node.client)
    site.run_until_drained()
    prepared.send(site.node.client)
    site.run_until_drained()
    assert sorted(site.records("member")) == [0, 1, 2, 3]
    assert called(site) == ["then"]


def test_batch_larger_than_one_transaction_is_counted_whole(site: Site) -> None:
    add_members(site)
    steps = [step("member", n) for n in range(230)]
    batch = site.dispatcher.batch(site.app, steps, then="then")
    site.run_until_drained(workers=2, prefetch=16)
    assert sorted(site.records("member")) == list(range(230))
    assert called(site) == ["then"]
    assert batch.progress() == 100


def test_trio_tasks_dispatch_chains_and_batches_on_their_connections(site: Site) -> None:
    add_members(site)

    async def send() -> str:
        client, other = (AsyncClient([site.node.endpoint]) for _ in range(2))
        try:
            dispatcher = Dispatcher(client, {"other": other})
            await dispatcher.chain(site.app, [step("member", "first"), step("member", "second")])
            steps = [step("member", n, delay_s=0.05 * n) for n in range(3)]
            return await dispatcher.batch(site.app, steps, connection="other", then="then")
        finally:
            await client.aclose()
            await other.aclose()

    batch = BatchHandle(site.node.client, trio.run(send))
    site.start()
    site.start(site.other)
    wait_for(lambda: called(site) == ["then"] and site.left() == 0)
    site.stop()
    ran = site.records("member")
    assert sorted(each for each in ran if isinstance(each, int)) == [0, 1, 2]
    assert [each for each in ran if isinstance(each, str)] == ["first", "second"]
    assert batch.progress() == 100


def test_batch_refuses_what_it_cannot_keep(site: Site) -> None:
    add_members(site)
    with pytest.raises(ValueError, match="no members"):
        prepare_batch(site.app, [])
    with pytest.raises(ValueError, match="spans connections default, other"):
        prepare_batch(site.app, [step("member"), step("member", connection="other")])
    with pytest.raises(ValueError, match="same job_id"):
        prepare_batch(site.app, [step("member", job_id="a"), step("member", job_id="a")])
    with pytest.raises(ValueError, match="catch of its own"):
        prepare_batch(site.app, [step("member", catch="catch")])
    site.app.job("alone", unique_for_s=9)(lambda context, payload: None)
    with pytest.raises(ValueError, match="'alone' of a batch is unique"):
        prepare_batch(site.app, [step("alone")])
    with pytest.raises(UnknownBatchError, match="no batch 'gone'"):
        BatchHandle(site.node.client, "gone").state()
