"""Many jobs in few requests, each with its own answer."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import trio

from atleastonce.system.client import (
    Answer,
    AsyncClient,
    BrokerError,
    Call,
    ClientOptions,
    Endpoint,
    PushResult,
    SyncClient,
    TimerResult,
)
from atleastonce.system.jobs import (
    BulkResult,
    ConnectionSettings,
    Dispatch,
    Dispatcher,
    JobContext,
    SettingError,
    SyncDispatcher,
    prepare_dispatch,
    step,
)
from atleastonce.system.jobs.bulk import REQUEST_BYTES_MAX, BulkDispatch

from .one_node import Site

HERE = Endpoint("127.0.0.1", 1)
TARGET = ConnectionSettings(endpoints=(("127.0.0.1", 1),), queue="q", partitions=4)


def jobs(count: int, **options: Any) -> list[Dispatch]:
    return [prepare_dispatch(TARGET, "work", n, job_id=f"j{n}", **options) for n in range(count)]


def sizes(bulk: BulkDispatch) -> list[int]:
    return [len(request.places) for request in bulk.requests]


@pytest.mark.parametrize(
    ("count", "bulk_batch", "expected"),
    [
        (0, 100, []),
        (1, 100, [1]),
        (100, 100, [100]),
        (101, 100, [100, 1]),
        (5, 2, [2, 2, 1]),
        (3, 1, [1, 1, 1]),
    ],
)
def test_requests_hold_up_to_bulk_batch_jobs(
    count: int, bulk_batch: int, expected: list[int]
) -> None:
    bulk = BulkDispatch(jobs(count), lambda _: bulk_batch)
    assert sizes(bulk) == expected
    places = [place for request in bulk.requests for place in request.places]
    assert places == list(range(count))


def test_timers_go_apart_and_two_hundred_at_a_time() -> None:
    mixed = [*jobs(3), *jobs(201, delay_s=1.0), *jobs(2)]
    bulk = BulkDispatch(mixed, lambda _: 1000)
    assert [(request.call.name, len(request.places)) for request in bulk.requests] == [
        ("push", 5),
        ("timers", 200),
        ("timers", 1),
    ]


def test_large_jobs_make_a_request_full_before_its_count_does() -> None:
    large = [prepare_dispatch(TARGET, "work", "x" * (REQUEST_BYTES_MAX // 2 - 2)) for _ in range(5)]
    assert sizes(BulkDispatch(large, lambda _: 100)) == [2, 2, 1]


def pushed(*statuses: str) -> Answer[tuple[PushResult, ...]]:
    results = [
        PushResult(n, status, offset=n, error="no such luck" if status == "failed" else None)
        for n, status in enumerate(statuses)
    ]
    return Answer(tuple(results), HERE, 1)


def test_every_job_has_its_own_result() -> None:
    bulk = BulkDispatch(jobs(4), lambda _: 3)
    first, second = bulk.next(), bulk.next()
    assert first is not None
    assert second is not None
    assert bulk.next() is None
    bulk.answered(first, pushed("queued", "duplicate", "failed"))
    bulk.failed(second, BrokerError(413, "too_large", "too large", definite=True))
    results = bulk.results()
    assert [told.job_id for told in results] == ["j0", "j1", "j2", "j3"]
    assert [told.result and told.result.status for told in results] == [
        "queued",
        "duplicate",
        None,
        None,
    ]
    assert [told.error and told.error.text for told in results] == [
        None,
        None,
        "no such luck",
        "too large",
    ]


def test_answer_with_too_few_results_leaves_all_its_jobs_unknown() -> None:
    bulk = BulkDispatch(jobs(2), lambda _: 100)
    bulk.answered(bulk.requests[0], pushed("queued"))
    errors = [told.error for told in bulk.results()]
    assert [error is not None and error.definite for error in errors] == [False, False]


def test_timers_are_read_one_by_one() -> None:
    bulk = BulkDispatch(jobs(2, delay_s=5.0), lambda _: 100)
    told = (TimerResult(True, "scheduled"), TimerResult(False, "absent"))
    bulk.answered(bulk.requests[0], Answer(told, HERE, 1))
    first, second = bulk.results()
    assert first.result is not None
    assert first.result.status == "scheduled"
    assert second.error is not None


def test_rest_is_not_sent_once_no_node_answered() -> None:
    nowhere = SyncClient([HERE], ClientOptions(0.2, 0.2))
    dispatcher = SyncDispatcher(nowhere)
    first, second, third = dispatcher.send_many(jobs(3), lambda _: 1)
    assert first.error is not None
    assert (second.error and second.error.code, third.error and third.error.code) == (
        "not_sent",
        "not_sent",
    )


def test_settings_want_at_least_one_job_a_request() -> None:
    with pytest.raises(SettingError, match="bulk_batch is 0; allowed: 1 or more"):
        msgspec.structs.replace(TARGET, bulk_batch=0)


class CountingClient(SyncClient):
    """Counts the calls that it makes."""

    names: list[str]

    def call(self, call: Call[Any], **options: Any) -> Answer[Any]:
        self.names = [*getattr(self, "names", []), call.name]
        return super().call(call, **options)


def add_jobs(site: Site) -> None:
    @site.app.job("note")
    def note(context: JobContext, payload: object) -> None:
        site.log("ran", payload)

    @site.app.job("once", unique_for_s=600)
    def once(context: JobContext, payload: object) -> None:
        site.log("ran", payload)


def kinds(results: tuple[BulkResult, ...]) -> list[str]:
    return [told.result.status if told.result else "error" for told in results]


def test_bulk_dispatch_on_a_node_runs_every_job_once(site: Site) -> None:
    add_jobs(site)
    site.app.set_dispatching(bulk_batch=10, after_commit=None)
    client = CountingClient([site.node.endpoint])
    dispatcher = SyncDispatcher(client)
    steps = [step("note", n, job_id=f"{site.connection.queue}-{n}") for n in range(25)]
    assert kinds(dispatcher.dispatch_many(site.app, steps)) == ["queued"] * 25
    assert client.names == ["push"] * 3
    again = dispatcher.dispatch_many(site.app, [*steps[:3], step("note", 25, delay_s=0.05)])
    assert kinds(again) == ["duplicate"] * 3 + ["scheduled"]
    pair = dispatcher.dispatch_many(site.app, [step("once", 26), step("once", 27)])
    assert kinds(pair) == ["queued", "duplicate"]
    site.run_until_drained(workers=2, prefetch=4)
    assert sorted(site.records("ran")) == list(range(27))
    client.close()


def test_bulk_dispatch_from_a_task_runs_every_job_once(site: Site) -> None:
    add_jobs(site)

    async def go() -> tuple[BulkResult, ...]:
        client = AsyncClient([site.node.endpoint])
        try:
            return await Dispatcher(client).dispatch_many(
                site.app, [step("note", n) for n in range(150)]
            )
        finally:
            await client.aclose()

    assert kinds(trio.run(go)) == ["queued"] * 150
    site.run_until_drained(workers=2, prefetch=8)
    assert sorted(site.records("ran")) == list(range(150))


def test_request_that_is_refused_as_a_whole_is_halved_until_the_job_is_found() -> None:
    bulk = BulkDispatch(jobs(5), lambda _: 5)
    asked = []
    while (request := bulk.next()) is not None:
        asked.append(request.places)
        if 3 in request.places:
            bulk.failed(request, BrokerError(400, "bad", "job 3 is bad", definite=True))
        else:
            bulk.answered(request, pushed(*["queued"] * len(request.places)))
    assert asked == [(0, 1, 2, 3, 4), (0, 1), (2, 3, 4), (2,), (3, 4), (3,), (4,)]
    assert kinds(bulk.results()) == ["queued"] * 3 + ["error", "queued"]


def test_request_of_unknown_fate_is_not_halved() -> None:
    bulk = BulkDispatch(jobs(2), lambda _: 2)
    request = bulk.next()
    assert request is not None
    bulk.failed(request, BrokerError(400, "bad", "bad", definite=False))
    assert bulk.next() is None
    assert kinds(bulk.results()) == ["error", "error"]


def test_job_that_the_broker_refuses_is_an_error_of_its_own(site: Site) -> None:
    add_jobs(site)
    steps = [step("note", 1), step("note", 2, partition="p" * 5000), step("note", 3)]
    results = site.dispatcher.dispatch_many(site.app, steps)
    assert kinds(results) == ["queued", "error", "queued"]
    assert results[1].error is not None
    assert results[1].error.definite
    site.run_until_drained()
    assert sorted(site.records("ran")) == [1, 3]


def test_unknown_job_is_refused_before_anything_is_sent(site: Site) -> None:
    add_jobs(site)
    with pytest.raises(ValueError, match="unknown job 'nothing'"):
        site.dispatcher.dispatch_many(site.app, [step("note", 1), step("nothing")])
    assert site.left() == 0


def test_workers_take_bulk_batch_from_their_settings(site: Site) -> None:
    @site.app.job("spread")
    def spread(context: JobContext, payload: object) -> None:
        client = CountingClient([site.node.endpoint])
        SyncDispatcher(client).dispatch_many(site.app, [step("note", n) for n in range(6)])
        site.log("asked", client.names)
        client.close()

    add_jobs(site)
    site.dispatcher.dispatch(site.app, "spread", None)
    site.run_until_drained(bulk_batch=2)
    assert site.records("asked") == [["push"] * 3]
    assert sorted(site.records("ran")) == list(range(6))
