"""Jobs behind a dead letter in its partition keep their number, whoever dies on the way."""

from __future__ import annotations

from typing import Any

import pytest

from atleastonce.system.client import calls
from atleastonce.system.jobs import FailedStore, JobContext
from atleastonce.system.jobs import batch as batch_module
from atleastonce.system.jobs.batch import Batch
from atleastonce.system.jobs.journal import read_debts

from .deliveries import LEASE, make_batch, make_delivery, make_message
from .machine_broker import GROUP, QUEUE, Asked, Fault, MachineBroker
from .one_node import OneNode, Site, wait_for
from .test_worker_crash import hand_back, kill
from .worker_process import Bench

CHAIN = {
    "id": "c",
    "links": [],
    "catch": {
        "queue": QUEUE,
        "partition": "p-0005",
        "id": "caught",
        "body": {"job": "work", "id": "caught", "partition": "p-0005", "data": None},
    },
}


def deliver_twice(broker: MachineBroker) -> None:
    """All that is queued is claimed twice and not acked: its next number is 3."""
    for _ in range(2):
        broker.pop_all()
        broker.expire_leases()


def starts(bench: Bench) -> list[tuple[str, int]]:
    return [(r["job_id"], r["attempt"]) for r in bench.records("AttemptStarting")]


def operations(asked: Asked) -> list[tuple[str, str]]:
    """(type, status or the job that is pushed) of each operation of a transaction."""
    found = []
    for operation in asked.body["operations"]:
        if operation["type"] == "ack":
            found.append(("ack", operation["status"]))
        else:
            found.append(("push", operation["items"][0]["payload"]["_job"]["id"]))
    return found


def test_jobs_that_ran_behind_a_given_up_one_keep_their_runs(
    bench: Bench, broker: MachineBroker
) -> None:
    refused: list[Asked] = []

    def fault(asked: Asked) -> Fault | None:
        if asked.kind == "ack" and asked.body["status"] == "completed" and len(refused) < 4:
            refused.append(asked)
            return Fault.REJECT
        return None

    broker.fault = fault
    broker.push_job("a", tries=2)
    broker.push_job("b", tries=9)
    bench.start(prefetch=2, ack_async=True)
    for acks in (2, 4):
        bench.wait_for(lambda acks=acks: len(refused) == acks)  # type: ignore[misc]
        broker.expire_leases()
    bench.wait_for(lambda: broker.pending() == 0)
    assert starts(bench) == [("a", 1), ("b", 1), ("a", 2), ("b", 2), ("b", 3)]
    assert [txn for txn, _ in broker.dead_letters()] == ["a"]


def test_jobs_behind_a_dead_letter_keep_their_number_on_a_real_node(
    node: OneNode, site: Site
) -> None:
    @site.app.job("work")
    def work(context: JobContext, payload: object) -> None:
        site.log("worked", context.job_id)

    queue = site.connection.queue
    for name, tries in (("a", 2), ("b", 9), ("c", 9)):
        body = {"job": "work", "id": name, "partition": "p-0000", "tries": tries, "data": None}
        item = {"queue": queue, "partition": "p-0000", "transactionId": name}
        node.client.call(calls.push([item | {"payload": {"_job": body}}]))
    for number in (1, 2):
        numbers: list[int] = []

        def delivered(numbers: list[int] = numbers) -> bool:
            call = calls.pop(queue, group="jobs", batch=10, partitions=8, lease_s=1)
            numbers += [each.delivery_attempt for each in node.client.call(call).value.messages]
            return bool(numbers)

        wait_for(delivered)
        assert numbers == [number] * 3
    site.run_until_drained(prefetch=3)
    found = [(r["job_id"], r["attempt"]) for r in site.records("AttemptStarting")]
    assert found == [("b", 3), ("c", 3)]
    assert [r["attempt"] for r in site.records("JobGaveUp")] == [3]


@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_ANSWER])
@pytest.mark.parametrize(
    ("job", "own", "back"),
    [
        ("work", {"tries": 2}, 3),
        ("throws", {"tries": 3}, 4),
        ("work", {"tries": 2, "chain": CHAIN}, 3),
    ],
    ids=["refused", "ran", "with-a-catch"],
)
def test_worker_killed_with_a_dead_letter_and_its_tail_on_the_wire_recounts_nothing(
    bench: Bench, broker: MachineBroker, fault: Fault, job: str, own: dict[str, Any], back: int
) -> None:
    broker.push_job("a", job, data="no", **own)
    for name in ("b", "c"):
        broker.push_job(name)
    broker.push_job("d", partition="p-0001")
    deliver_twice(broker)
    broker.fault = lambda asked: fault if asked.kind == "transaction" else None
    pid = bench.start(prefetch=4)
    bench.wait_for(lambda: broker.kinds() == ["transaction"])
    kill(bench, pid)
    broker.fault = lambda asked: None
    (debt,) = read_debts(bench.states, pid).debts
    assert sorted((*debt.unstarted, *debt.ran)) == ["a", "b", "c", "d"]
    assert hand_back(bench, pid)["success"]
    (sent,) = [asked for asked in broker.asked if asked.kind == "transaction"]
    late = broker.ask(sent.method, sent.target, sent.body)
    assert not late["success"]
    found = sorted(broker.pop_all())
    if fault is Fault.HOLD:
        assert broker.dead_letters() == []
        assert found == [("a", back), ("b", 3), ("c", 3), ("d", 3)]
    else:
        assert [txn for txn, _ in broker.dead_letters()] == ["a"]
        caught = [("caught", 1)] if "chain" in own else []
        assert found == [("b", 3), ("c", 3), *caught, ("d", 3)]
    broker.release()


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_dead_letter_and_tail_whose_exchange_is_lost_are_repeated_under_their_id(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    def once(asked: Asked) -> Fault | None:
        kinds = broker.kinds()
        return fault if asked.kind == "transaction" and kinds.count("transaction") == 1 else None

    broker.push_job("a", tries=2)
    broker.push_job("b")
    deliver_twice(broker)
    broker.fault = once
    bench.start(prefetch=2)
    bench.wait_for(lambda: broker.pending() == 0 and "b" in bench.records("worked"))
    first, second = [asked for asked in broker.asked if asked.kind == "transaction"]
    assert (first.request_id, first.body) == (second.request_id, second.body)
    assert operations(first) == [("ack", "dlq"), ("ack", "completed"), ("push", "b")]
    assert starts(bench) == [("b", 3)]
    assert [row.id for row in FailedStore(bench.folder / "failed.db").list()] == ["a"]


def test_dead_letter_before_first_deliveries_is_the_plain_ack_that_it_was(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", tries=2, attempts=2)
    broker.push_job("b", attempts=4, tries=9)
    bench.start(prefetch=2)
    bench.wait_for(lambda: broker.pending() == 0 and "b" in bench.records("worked"))
    asked = next(asked for asked in broker.asked if asked.kind != "pop")
    assert asked.kind == "ack"
    assert asked.body == {
        "transactionId": "a",
        "partitionId": asked.body["partitionId"],
        "status": "dlq",
        "consumerGroup": GROUP,
        "leaseId": asked.body["leaseId"],
        "error": "MaxAttemptsExceeded: picked up as attempt 3 of 2",
    }
    assert starts(bench) == [("b", 5)]


def test_tail_is_what_is_unstarted_behind_it_in_its_partition_and_was_delivered_before() -> None:
    batch = make_batch("a", "b", "a", "a", delivery_attempt=2)
    batch.start(0, 1)
    batch.bury(0)
    tail = batch.tail_operations(0, "q", "g")
    assert [op["transactionId"] for op in tail if op["type"] == "ack"] == ["j2", "j3"]
    assert batch.tail_operations(1, "q", "g") == []
    assert batch.tail_operations(3, "q", "g") == []
    assert make_batch("a", "a").tail_operations(0, "q", "g") == []


def test_tail_ends_with_its_last_job() -> None:
    messages = [
        make_message("a", delivery_attempt=2),
        make_message("x", delivery_attempt=2, offset=1, data=b"3"),
        make_message("b", delivery_attempt=2, offset=2),
        make_message("y", delivery_attempt=2, offset=3, data=b"4"),
    ]
    batch = Batch(LEASE, 8.0, 1, tuple(make_delivery(message) for message in messages))
    acked = [op["transactionId"] for op in batch.tail_operations(0, "q", "g") if "leaseId" in op]
    assert acked == ["x", "b"]
    assert batch.tail_operations(2, "q", "g") == []


def test_tail_that_no_broker_takes_at_once_does_not_keep_a_dead_letter_from_being_filed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = make_batch("a", "a", delivery_attempt=2)
    monkeypatch.setattr(batch_module, "TAIL_BYTES_MAX", 10)
    assert batch.tail_operations(0, "q", "g") == []
