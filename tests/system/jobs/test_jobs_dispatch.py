"""Dispatching, and the commands on the failed-job store, against the real machine."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable

import pytest
import trio

from atleastonce.system.client import AsyncClient, BrokerError, ClientOptions, SyncClient
from atleastonce.system.jobs import (
    Application,
    ConnectionSettings,
    Dispatcher,
    FailedStore,
    SyncDispatcher,
    forget_failed,
    payload_digest,
    prepare_dispatch,
    retry_failed,
)
from atleastonce.system.jobs.dispatch import DispatchResult
from atleastonce.system.jobs.payload import partition_of
from atleastonce.system.jobs.requeue import UnknownFailedJobError

from .deliveries import make_app
from .machine_broker import GROUP, QUEUE, Asked, Fault, MachineBroker
from .worker_process import Bench


@pytest.fixture
def app(broker: MachineBroker) -> Application:
    made = make_app()
    endpoint = broker.endpoint
    made.connection = ConnectionSettings(
        endpoints=((endpoint.host, endpoint.port),),
        queue=QUEUE,
        consumer_group=GROUP,
        partitions=16,
    )
    return made


def dispatching(
    broker: MachineBroker, use: Callable[[Dispatcher], Awaitable[DispatchResult]]
) -> DispatchResult:
    async def main() -> DispatchResult:
        client = AsyncClient([broker.endpoint], ClientOptions(deadline_s=5.0))
        try:
            return await use(Dispatcher(client))
        finally:
            await client.aclose()

    return trio.run(main)


def test_job_is_queued_in_its_stripe_under_its_id(broker: MachineBroker, app: Application) -> None:
    job_id = str(uuid.uuid4())
    result = dispatching(
        broker, lambda d: d.dispatch(app, "work", {"n": 1}, job_id=job_id, tries=4)
    )
    assert (result.job_id, result.status, result.offset) == (job_id, "queued", 0)
    assert result.partition == partition_of(job_id, 16)
    assert result.digest == payload_digest({"n": 1})
    assert result.answered_by == str(broker.endpoint)
    (item,) = broker.asked[0].body["items"]
    assert item["transactionId"] == job_id
    assert item["payload"] == {
        "_job": {
            "job": "work",
            "id": job_id,
            "data": {"n": 1},
            "partition": result.partition,
            "tries": 4,
        }
    }


def test_job_without_an_id_gets_a_uuid(broker: MachineBroker, app: Application) -> None:
    result = dispatching(broker, lambda d: d.dispatch(app, "work", None))
    assert str(uuid.UUID(result.job_id)) == result.job_id


def test_job_goes_to_the_partition_that_it_names(broker: MachineBroker, app: Application) -> None:
    result = dispatching(broker, lambda d: d.dispatch(app, "work", 1, partition="orders-7"))
    assert result.partition == "orders-7"


def test_dispatch_whose_answer_is_lost_is_stored_once(
    broker: MachineBroker, app: Application
) -> None:
    lost: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if not lost:
            lost.append(asked)
            return Fault.LOSE_ANSWER
        return None

    broker.fault = fault
    result = dispatching(broker, lambda d: d.dispatch(app, "work", 1))
    assert result.tries == 2
    assert broker.asked[0].request_id == broker.asked[1].request_id
    assert broker.pending() == 1


def test_dispatch_sent_again_by_another_client_is_a_duplicate(
    broker: MachineBroker, app: Application
) -> None:
    prepared = prepare_dispatch(app, "work", 1)
    first = dispatching(broker, lambda d: d.send(prepared))
    again = prepare_dispatch(app, "work", 1, job_id=prepared.body.id)
    second = dispatching(broker, lambda d: d.send(again))
    assert (first.status, second.status) == ("queued", "duplicate")
    assert broker.pending() == 1


def test_delayed_job_is_a_timer_that_becomes_a_message(
    broker: MachineBroker, app: Application
) -> None:
    prepared = prepare_dispatch(app, "work", {"n": 1}, delay_s=30.0)
    result = dispatching(broker, lambda d: d.send(prepared))
    assert (result.status, result.offset) == ("scheduled", None)
    (operation,) = broker.asked[0].body["operations"]
    assert operation["timerKey"] == f"delay:{result.job_id}"
    assert operation["delayMs"] == 30_000
    assert broker.pop_all() == []
    broker.expire_leases(31.0)
    broker.wait_for(lambda: broker.timers() == 0)
    assert broker.pop_all() == [(result.job_id, 1)]


def test_delayed_dispatch_sent_again_stays_one_job(broker: MachineBroker, app: Application) -> None:
    prepared = prepare_dispatch(app, "work", 1, delay_s=30.0)
    dispatching(broker, lambda d: d.send(prepared))
    again = prepare_dispatch(app, "work", 1, delay_s=30.0, job_id=prepared.body.id)
    assert dispatching(broker, lambda d: d.send(again)).status == "rescheduled"
    broker.expire_leases(31.0)
    broker.wait_for(lambda: broker.timers() == 0)
    assert len(broker.pop_all()) == 1


def test_dispatch_that_cannot_work_names_what_is_wrong(app: Application) -> None:
    with pytest.raises(ValueError, match="unknown job 'wrok'; choose from: work"):
        prepare_dispatch(app, "wrok", 1)
    with pytest.raises(ValueError, match="delay_s is -1"):
        prepare_dispatch(app, "work", 1, delay_s=-1)
    with pytest.raises(ValueError, match="no connection settings"):
        prepare_dispatch(make_app(), "work", 1)
    with pytest.raises(TypeError):
        prepare_dispatch(app, "work", {1, 2}.union)


def test_dispatch_that_only_errors_answer_is_in_doubt(
    broker: MachineBroker, app: Application
) -> None:
    broker.fault = lambda _: Fault.REFUSE
    with pytest.raises(BrokerError) as caught:
        dispatching(broker, lambda d: d.send(prepare_dispatch(app, "work", 1), deadline_s=0.1))
    assert not caught.value.definite


def test_handler_may_dispatch_without_an_event_loop(
    broker: MachineBroker, app: Application
) -> None:
    client = SyncClient([broker.endpoint])
    result = SyncDispatcher(client).dispatch(app, "work", 1)
    client.close()
    assert result.status == "queued"
    assert broker.pop_all() == [(result.job_id, 1)]


def give_up_one(bench: Bench) -> FailedStore:
    bench.broker.push_job("a", "throws", tries=1, data="x")
    pid = bench.start()
    bench.wait_for(lambda: len(bench.records("hook")) == 1)
    assert bench.stop(pid) == 0
    return FailedStore(bench.folder / "failed.db")


def test_retried_job_has_all_its_tries_again(bench: Bench, broker: MachineBroker) -> None:
    store, client = give_up_one(bench), SyncClient([broker.endpoint])
    retry_failed(store, client, "a")
    assert store.list() == ()
    assert broker.dead_letters() == []
    assert broker.pop_all() == [("a", 1)]
    client.close()


def test_retry_that_is_interrupted_can_be_done_again(bench: Bench, broker: MachineBroker) -> None:
    store, client = give_up_one(bench), SyncClient([broker.endpoint], ClientOptions(5.0, 0.1))
    broker.fault = lambda asked: Fault.LOSE_ANSWER if asked.kind == "push" else None
    with pytest.raises(BrokerError):
        retry_failed(store, client, "a")
    assert len(store.list()) == 1
    broker.fault = lambda _: None
    retry_failed(store, client, "a")
    assert store.list() == ()
    assert broker.pop_all() == [("a", 1)]
    client.close()


def test_forgotten_job_is_gone_from_store_and_broker(bench: Bench, broker: MachineBroker) -> None:
    store, client = give_up_one(bench), SyncClient([broker.endpoint])
    forget_failed(store, client, "a")
    assert store.list() == ()
    assert broker.dead_letters() == []
    assert broker.pending() == 0
    with pytest.raises(UnknownFailedJobError, match="no failed job 'a'"):
        forget_failed(store, client, "a")
    client.close()
