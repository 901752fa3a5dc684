"""Back-pressure: what finds no room is refused at once, whole, and says so."""

from __future__ import annotations

from typing import Any

import trio

from atleastonce.system.broker.commands import (
    Ack,
    AckItem,
    CancelTimer,
    Push,
    PushItem,
    ScheduleTimer,
    Timers,
    Transaction,
    TransactionAck,
    TransactionPush,
)
from atleastonce.system.node.admission import Admission, grows
from atleastonce.system.node.counters import Counters
from atleastonce.system.node.gauge import Space
from atleastonce.system.node.limits import NodeLimits

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual, stored

FEW = NodeLimits(waiting_requests_max=10)


async def push_many(
    node: VirtualNode, names: list[str], answers: dict[str, tuple[int, float, Any]]
) -> None:
    """Push all at once; the status, the time it took and the headers, by name."""

    async def push(name: str) -> None:
        began = trio.current_time()
        items = [{"queue": "q", "partition": "p", "transactionId": name, "payload": name}]
        delivery = await node.call("POST", "/api/v1/push", {"items": items})
        took_s = trio.current_time() - began
        answers[name] = (delivery.answer.status, took_s, dict(delivery.answer.headers))

    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(push, name)


def test_what_finds_no_room_is_refused_at_once_and_not_stored() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in cluster.nodes.values():
            node.sync_s = 0.1
        answers: dict[str, tuple[int, float, Any]] = {}
        names = [f"m{number}" for number in range(200)]
        await push_many(leader, names, answers)
        accepted = {name for name, (status, _, _) in answers.items() if status == 201}
        refused = {name for name, (status, _, _) in answers.items() if status == 429}
        assert accepted | refused == set(names)
        assert len(accepted) == 10
        assert max(answers[name][1] for name in refused) == 0
        assert {answers[name][2]["Retry-After"] for name in refused} == {"1"}
        assert max(answers[name][1] for name in accepted) < 1.0
        assert set(stored(leader, "q")) == accepted
        assert leader.counters.refused_overload == len(refused)
        assert (await leader.push("q", "later"))[0] == 201

    run_virtual(scenario, limits=FEW)


def test_a_leaders_refusal_reaches_the_clients_of_its_followers() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        followers = await cluster.followers()
        for node in cluster.nodes.values():
            node.sync_s = 0.1
        answers: dict[str, tuple[int, float, Any]] = {}
        async with trio.open_nursery() as nursery:
            for node in followers:
                names = [f"{node.name}-{number}" for number in range(9)]
                nursery.start_soon(push_many, node, names, answers)
        statuses = [status for status, _, _ in answers.values()]
        assert sorted(set(statuses)) == [201, 429]
        accepted = {name for name, (status, _, _) in answers.items() if status == 201}
        assert set(stored(leader, "q")) == accepted
        assert leader.counters.refused_overload == statuses.count(429)
        assert {headers.get("Retry-After") for s, _, headers in answers.values() if s == 429} == {
            "1"
        }

    run_virtual(scenario, limits=FEW)


def test_acks_are_taken_while_pushes_are_refused() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "m0")
        _, popped = await leader.pop("q", batch=1)
        for node in cluster.nodes.values():
            node.sync_s = 0.2
        answers: dict[str, tuple[int, float, Any]] = {}
        async with trio.open_nursery() as nursery:
            nursery.start_soon(push_many, leader, [f"x{n}" for n in range(50)], answers)
            await trio.sleep(0.01)
            ack = {key: popped["messages"][0][key] for key in ("transactionId", "partitionId")}
            ack["leaseId"] = popped["leaseId"]
            answer = await leader.call("POST", "/api/v1/ack/batch", {"acknowledgments": [ack]})
            assert read(answer)[1][0]["success"] is True
        assert 429 in [status for status, _, _ in answers.values()]

    run_virtual(scenario, limits=FEW)


def test_a_request_that_may_be_in_the_log_is_never_told_that_nothing_was_applied() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        others = await cluster.followers()
        outcome: list[tuple[int, Any]] = []

        async def push() -> None:
            outcome.append(await others[0].push("q", "mine", **{"x-deadline-ms": "6000"}))

        async with trio.open_nursery() as nursery:
            # It replicates, but cannot apply what is not durable here.
            leader.sync_s = 60.0
            nursery.start_soon(push)
            await trio.sleep(0.01)
            for node in others:
                node.space = Space(99, 1)
            await trio.sleep(1.5)
            leader.stop()
            new = await cluster.leader()
            refused = await new.push("q", "other")
            assert (refused[0], refused[1]["code"]) == (507, "storage_full")
        assert stored(await cluster.leader(), "q") == ["mine"]
        status, body = outcome[0]
        assert (status, body["code"]) == (503, "outcome_unknown")

    run_virtual(scenario, limits=NodeLimits(disk_enough_bytes=50))


def test_bytes_bound_what_waits_but_one_request_always_has_room() -> None:
    admission = Admission(NodeLimits(waiting_bytes_max=100), Counters())
    with admission.place(1000, may_grow=True) as first:
        assert first
        with admission.place(1, may_grow=True) as second:
            assert not second
        with admission.place(1, may_grow=False) as third:
            assert not third
    with admission.place(60, may_grow=True), admission.place(60, may_grow=False) as fourth:
        assert fourth
    assert (admission.requests, admission.bytes) == (0, 0)


def test_only_what_stores_payloads_counts_as_growth() -> None:
    item = PushItem("q", "p", "t", b"1")
    ack = TransactionAck(AckItem("1", "t"), "g")
    schedule = ScheduleTimer("q", "k", 1, "t", b"1")
    assert grows(Push("r", (item,)))
    assert grows(Transaction("r", (ack, TransactionPush(item))))
    assert grows(Transaction("r", (ack,), timers=(schedule,)))
    assert grows(Timers("r", (CancelTimer("q", "k"), schedule)))
    assert not grows(Transaction("r", (ack,), timers=(CancelTimer("q", "k"),)))
    assert not grows(Timers("r", (CancelTimer("q", "k"),)))
    assert not grows(Ack("r", "g", (AckItem("1", "t"),)))
