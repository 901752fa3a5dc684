"""Jobs on another named connection: each worker takes its own connection's jobs, and no others."""

from __future__ import annotations

import pytest

from atleastonce.system.client import SyncClient
from atleastonce.system.jobs import (
    ConnectionSettings,
    JobContext,
    SyncDispatcher,
    notification,
    prepare_dispatch,
    queued_listener,
    retry_failed,
    step,
)

from .machine_broker import QUEUE, MachineBroker
from .one_node import Site, wait_for

pytestmark = pytest.mark.cluster


def add_jobs(site: Site) -> None:
    @site.app.job("plain")
    def plain(context: JobContext, payload: object) -> None:
        site.log("ran", [context.queue, payload])

    @site.app.job("routed", connection="other", tries=3)
    def routed(context: JobContext, payload: object) -> None:
        site.log("ran", [context.queue, payload])
        if payload == "again" and context.attempt == 1:
            context.release(0.05)
        if payload == "twice" and context.attempt == 1:
            raise ValueError("again")
        if payload == "bad" and not (site.folder / "mended").exists():
            context.fail("bad")

    @site.app.job("called", connection="other")
    def called(context: JobContext, payload: object) -> None:
        site.log("called", context.queue)


def run_both(site: Site) -> None:
    site.start()
    site.start(site.other)
    wait_for(lambda: site.left() == 0 and site.left(site.other) == 0)
    site.stop()


def test_worker_takes_the_jobs_of_its_own_connection_only(site: Site) -> None:
    add_jobs(site)
    site.dispatcher.dispatch(site.app, "plain", 1)
    site.dispatcher.dispatch(site.app, "plain", 2, connection="other")
    site.dispatcher.dispatch(site.app, "routed", 3)
    site.run_until_drained()
    assert site.records("ran") == [[site.connection.queue, 1]]
    assert site.left(site.other) == 2
    run_both(site)
    assert sorted(site.records("ran")[1:], key=str) == [
        [site.other.queue, 2],
        [site.other.queue, 3],
    ]


def test_job_that_comes_back_stays_on_its_connection(site: Site) -> None:
    add_jobs(site)
    for payload in ("again", "twice"):
        site.dispatcher.dispatch(site.app, "routed", payload)
    run_both(site)
    assert sorted(payload for _, payload in site.records("ran")) == [
        "again",
        "again",
        "twice",
        "twice",
    ]
    assert {queue for queue, _ in site.records("ran")} == {site.other.queue}


def test_failed_job_is_retried_on_its_connection(site: Site) -> None:
    add_jobs(site)
    site.dispatcher.dispatch(site.app, "routed", "bad")
    run_both(site)
    (row,) = site.store.list()
    assert row.queue == site.other.queue
    (site.folder / "mended").touch()
    retry_failed(site.store, site.node.client, row.id)
    assert (site.left(), site.left(site.other)) == (0, 1)
    run_both(site)
    assert len(site.records("ran")) == 2


def test_chain_runs_on_the_connection_of_its_jobs(site: Site) -> None:
    add_jobs(site)
    site.dispatcher.chain(site.app, [step("routed", 1), step("routed", "bad")], catch="called")
    run_both(site)
    assert site.records("ran") == [[site.other.queue, 1], [site.other.queue, "bad"]]
    assert site.records("called") == [site.other.queue]


def test_batch_runs_on_the_connection_that_it_names(site: Site) -> None:
    add_jobs(site)
    steps = [step("plain", n) for n in range(3)]
    batch = site.dispatcher.batch(site.app, steps, connection="other", then="called")
    run_both(site)
    assert sorted(site.records("ran")) == [[site.other.queue, n] for n in range(3)]
    assert site.records("called") == [site.other.queue]
    assert batch.progress() == 100


def test_listeners_and_notifications_run_on_the_connection_they_name(site: Site) -> None:
    @queued_listener(site.app, "event", connection="other")
    def hears(context: JobContext, payload: object) -> None:
        site.log("hears", context.queue)

    @notification(site.app, "news", connection="other")
    def news(context: JobContext, notifiable: object, payload: object) -> None:
        site.log("news", context.queue)

    site.dispatcher.emit(site.app, "event", None)
    site.dispatcher.notify(site.app, "news", ["ann"])
    run_both(site)
    assert site.records("hears") == site.records("news") == [site.other.queue]


def test_delayed_job_waits_on_its_connection(site: Site) -> None:
    add_jobs(site)
    site.dispatcher.dispatch(site.app, "routed", 1, delay_s=0.1)
    assert site.left(site.other) == 1
    run_both(site)
    assert site.records("ran") == [[site.other.queue, 1]]


def test_connection_of_another_broker_is_reached_through_its_own_client(
    site: Site, broker: MachineBroker
) -> None:
    add_jobs(site)
    place = (broker.endpoint.host, broker.endpoint.port)
    far = ConnectionSettings(endpoints=(place,), queue=QUEUE, partitions=8)
    site.app.connections["far"] = far
    client = SyncClient([broker.endpoint])
    dispatcher = SyncDispatcher(site.node.client, {"far": client})
    dispatcher.dispatch(site.app, "plain", 1)
    dispatcher.chain(
        site.app, [step("plain", 2, connection="far"), step("plain", 3, connection="far")]
    )
    batch = dispatcher.batch(site.app, [step("plain", 4)], connection="far", then="plain")
    client.close()
    site.start(far)
    wait_for(lambda: broker.pending() == 0 and len(site.records("AttemptAcked")) == 4)
    site.stop()
    assert site.left() == 1
    assert {queue for queue, _ in site.records("ran")} == {QUEUE}
    assert site.records("ran")[-1][1]["batch"] == batch.batch_id


def test_connection_that_nobody_knows_is_refused(site: Site) -> None:
    add_jobs(site)
    with pytest.raises(ValueError, match="unknown connection 'gone'; choose from: other"):
        prepare_dispatch(site.app, "plain", 1, connection="gone")
    with pytest.raises(ValueError, match="no client for connection 'other'; this dispatcher has"):
        SyncDispatcher(site.node.client).dispatch(site.app, "routed", 1)
    with pytest.raises(ValueError, match="connection and catch need an application"):
        prepare_dispatch(site.connection, "plain", 1, connection="other")
