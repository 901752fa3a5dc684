"""Chains and batches under lost answers and killed workers: none is lost, none counts twice."""

from __future__ import annotations

from typing import Any

import pytest

from .machine_broker import QUEUE, Asked, Fault, MachineBroker
from .test_worker_crash import hand_back, kill
from .worker_process import Bench

NAMESPACE = "atleastonce-batches"


def link(name: str, job: str = "work") -> dict[str, Any]:
    body = {"job": job, "id": name, "partition": "p-0005", "data": None}
    return {"queue": QUEUE, "partition": "p-0005", "id": name, "body": body}


def chain(*names: str, catch: str | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"id": "c", "links": [link(name) for name in names]}
    if catch is not None:
        made["catch"] = link(catch)
    return made


def make_batch(broker: MachineBroker, total: int, **own: Any) -> None:
    row = {"v": 1, "id": "b", "total": total, "pending": total, "created_at": 1.0, **own}
    operation = {"op": "put", "ns": NAMESPACE, "key": "b", "value": row, "forever": True}
    broker.ask("POST", "/api/v1/kv", {"operations": [operation]})


def batch(broker: MachineBroker) -> dict[str, Any]:
    operation = {"op": "get", "ns": NAMESPACE, "key": "b"}
    found = broker.ask("POST", "/api/v1/kv", {"operations": [operation]})
    value: dict[str, Any] = found["results"][0]["value"]
    return value


def once(kind: str, fault: Fault) -> Any:
    met: list[Asked] = []

    def chosen(asked: Asked) -> Fault | None:
        if asked.kind != kind or met:
            return None
        met.append(asked)
        return fault

    return chosen


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER, Fault.REFUSE])
def test_ack_of_a_link_that_is_repeated_pushes_the_next_once(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    broker.fault = once("transaction", fault)
    broker.push_job("a", chain=chain("b", "c"))
    bench.start(prefetch=2)
    bench.wait_for(lambda: broker.pending() == 0 and len(bench.records("AttemptAcked")) == 3)
    assert bench.records("worked") == ["a", "b", "c"]


def test_link_that_is_there_already_is_acked_without_being_pushed_again(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("b", partition="p-0005")
    assert broker.pop_all() == [("b", 1)]
    broker.push_job("a", chain=chain("b"))
    bench.start()
    bench.wait_for(lambda: len(bench.records("AttemptAcked")) == 1)
    assert bench.records("worked") == ["a"]
    assert broker.kinds() == ["transaction", "transaction"]
    assert broker.pending() == 1


@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_ANSWER])
def test_worker_killed_with_the_ack_of_a_link_on_the_wire_neither_loses_nor_doubles_the_next(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    broker.fault = lambda asked: fault if asked.kind == "transaction" else None
    broker.push_job("a", chain=chain("next"))
    broker.push_job("behind")
    pid = bench.start(prefetch=2)
    bench.wait_for(lambda: broker.kinds() == ["transaction"])
    kill(bench, pid)
    broker.fault = lambda asked: None
    assert hand_back(bench, pid)["success"]
    broker.release()
    assert sorted(broker.pop_all()) == [("behind", 1), ("next", 1)]
    broker.expire_leases()
    assert sorted(broker.pop_all()) == [("behind", 2), ("next", 2)]


def test_worker_killed_with_a_link_alone_on_the_wire_runs_it_again(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.fault = lambda asked: Fault.HOLD if asked.kind == "transaction" else None
    broker.push_job("a", chain=chain("next"))
    pid = bench.start()
    bench.wait_for(lambda: broker.kinds() == ["transaction"])
    kill(bench, pid)
    broker.fault = lambda asked: None
    broker.expire_leases()
    assert broker.pop_all() == [("a", 2)]


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_dead_letter_of_a_link_that_is_repeated_is_caught_once(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    broker.fault = once("transaction", fault)
    broker.push_job("a", "throws", data="no", tries=1, chain=chain("never", catch="sorry"))
    bench.start()
    bench.wait_for(lambda: broker.pending() == 0 and len(bench.records("worked")) == 1)
    assert bench.records("worked") == ["sorry"]
    assert [txn for txn, _ in broker.dead_letters()] == ["a"]
    assert len(bench.records("JobGaveUp")) == 1


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_ANSWER])
def test_member_whose_ack_is_repeated_counts_once(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    make_batch(broker, 2, callbacks={"then": link("then")})
    broker.fault = once("transaction", fault)
    for name in "ab":
        broker.push_job(name, batch="b")
    bench.start(prefetch=2)
    bench.wait_for(lambda: broker.pending() == 0 and len(bench.records("AttemptAcked")) == 3)
    assert bench.records("worked") == ["a", "b", "then"]
    assert batch(broker)["pending"] == 0


@pytest.mark.parametrize("fault", [Fault.HOLD, Fault.HOLD_ANSWER])
def test_member_whose_worker_is_killed_with_its_ack_on_the_wire_counts_once(
    bench: Bench, broker: MachineBroker, fault: Fault
) -> None:
    make_batch(broker, 2, callbacks={"then": link("then")})
    broker.fault = lambda asked: fault if asked.kind == "transaction" else None
    broker.push_job("a", batch="b")
    broker.push_job("b", batch="b")
    pid = bench.start(prefetch=2)
    bench.wait_for(lambda: "transaction" in broker.kinds())
    kill(bench, pid)
    broker.fault = lambda asked: None
    assert hand_back(bench, pid)["success"]
    broker.release()
    bench.start(prefetch=2)
    bench.wait_for(lambda: "then" in bench.records("worked") and broker.pending() == 0)
    runs = bench.records("worked")
    # What had arrived is not run again; what had not is, and both count once.
    assert sorted(runs) == ["a", "a", "b", "then"] if fault is Fault.HOLD else ["a", "b", "then"]
    assert batch(broker)["pending"] == 0


def test_member_that_two_messages_carry_counts_once(bench: Bench, broker: MachineBroker) -> None:
    make_batch(broker, 2, callbacks={"then": link("then"), "finally": link("finally")})
    broker.push_job("a", batch="b")
    copy = {"job": "work", "id": "a", "partition": "p-0001", "data": None, "batch": "b"}
    broker.push_raw("a.copy", {"_job": copy}, "p-0001")
    pid = bench.start()
    bench.wait_for(lambda: len(bench.records("AttemptAcked")) == 2)
    assert batch(broker)["pending"] == 1
    broker.push_job("b", batch="b")
    bench.wait_for(lambda: len(bench.records("AttemptAcked")) == 5)
    assert bench.stop(pid) == 0
    assert bench.records("worked") == ["a", "a", "b", "then", "finally"]


def test_member_of_a_batch_that_is_not_known_any_more_is_acked(
    bench: Bench, broker: MachineBroker
) -> None:
    broker.push_job("a", batch="gone")
    bench.start()
    bench.wait_for(lambda: len(bench.records("AttemptAcked")) == 1)
    assert broker.pending() == 0


def test_member_whose_retries_cross_a_crash_fails_once(bench: Bench, broker: MachineBroker) -> None:
    make_batch(broker, 1, callbacks={"catch": link("catch"), "finally": link("finally")})
    broker.fault = once("transaction", Fault.HOLD)
    broker.push_job("a", "throws", data="no", tries=1, batch="b")
    pid = bench.start()
    bench.wait_for(lambda: "transaction" in broker.kinds())
    kill(bench, pid)
    broker.expire_leases()
    bench.start()
    bench.wait_for(lambda: len(bench.records("worked")) == 2)
    broker.release()
    assert sorted(bench.records("worked")) == ["catch", "finally"]
    state = batch(broker)
    assert (state["failed"], state["pending"], state["cancelled"]) == (1, 1, True)
    (gave_up,) = bench.records("JobGaveUp")
    assert (gave_up["cause"], gave_up["ran"]) == ("max_attempts", False)
