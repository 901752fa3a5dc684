"""Consume rules that only whole nodes can break: repeats at the next leader, fences, wakes."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual

Message = dict[str, Any]


async def configure(node: VirtualNode, **options: int | bool) -> None:
    body = {"queue": "q", "options": options}
    assert read(await node.call("POST", "/api/v1/configure", body))[0] == 200


async def claim(node: VirtualNode, batch: int = 10) -> list[Message]:
    status, body = await node.pop("q", None, batch=batch)
    assert status == 200
    messages: list[Message] = body["messages"]
    return messages


async def ack(
    node: VirtualNode, *messages: Message, status: str = "completed", **headers: str
) -> list[Message]:
    names = ("transactionId", "partitionId", "leaseId")
    items = [{name: message[name] for name in names} | {"status": status} for message in messages]
    body = {"acknowledgments": items}
    answer = await node.call("POST", "/api/v1/ack/batch", body, headers)
    found: list[Message] = read(answer)[1]
    return found


async def waits_for(
    node: VirtualNode, cause: Any, within_s: float, after_s: float = 0.0, **parameters: object
) -> Message:
    """Have a pop wait, then let something happen; returns the message that it gets."""
    found: list[Any] = []

    async def wait() -> None:
        found.append(await node.pop("q", None, wait="true", timeout=30_000, **parameters))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(0.5)
        began = trio.current_time()
        await cause()
    assert after_s <= trio.current_time() - began <= within_s
    message: Message = found[0][1]["messages"][0]
    return message


def test_a_completing_ack_sent_again_to_the_next_leader_succeeds_again() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "a", "b")
        messages = await claim(leader)
        assert all(answer["success"] for answer in await ack(leader, *messages))
        leader.stop()
        follower = await cluster.leader()
        again = await ack(follower, *messages)
        assert [(answer["success"], answer["error"]) for answer in again] == [(True, None)] * 2

    run_virtual(scenario)


def test_a_failed_ack_sent_again_to_the_next_leader_is_charged_once() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, retryLimit=1)
        await leader.push("q", "a")
        (message,) = await claim(leader)
        (first,) = await ack(leader, message, status="failed")
        leader.stop()
        follower = await cluster.leader()
        (again,) = await ack(follower, message, status="failed")
        assert (again["success"], again["dlq"]) == (first["success"], first["dlq"]) == (True, False)
        (message,) = await claim(follower)
        assert message["deliveryAttempt"] == 2
        (last,) = await ack(follower, message, status="failed")
        assert last["dlq"] is True

    run_virtual(scenario)


def test_deliveries_are_counted_over_leaders() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, leaseTime=2)
        await leader.push("q", "a")
        assert (await claim(leader))[0]["deliveryAttempt"] == 1
        leader.stop()
        follower = await cluster.leader()
        _, body = await follower.pop("q", None, wait="true", timeout=20_000)
        assert body["messages"][0]["deliveryAttempt"] == 2

    run_virtual(scenario)


def test_a_stale_fence_rolls_back_the_whole_bundle_also_at_the_next_leader() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "a")
        (message,) = await claim(leader)
        await ack(leader, message, status="retry")
        leader.stop()
        follower = await cluster.leader()
        names = ("transactionId", "partitionId", "leaseId")
        operations = [
            {"type": "ack", **{name: message[name] for name in names}},
            {"type": "push", "queue": "r", "payload": 1, "transactionId": "copy"},
        ]
        body = {"operations": operations, "requiredLeases": [message["leaseId"]]}
        status, done = read(await follower.call("POST", "/api/v1/transaction", body))
        assert (status, done["success"], done["reason"]) == (200, False, "rejected_ack")
        assert "rolled back" in done["error"]
        assert (await follower.pop("r", None))[0] == 204

    run_virtual(scenario)


@pytest.mark.parametrize(("option", "hold_s"), [("delayedProcessing", 3.0), ("windowBuffer", 3.0)])
def test_the_end_of_a_hold_wakes_a_waiting_pop(option: str, hold_s: float) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await configure(await cluster.leader(), **{option: int(hold_s)})
        follower = (await cluster.followers())[0]
        message = await waits_for(
            follower, lambda: follower.push("q", "a"), hold_s + 0.2, after_s=hold_s - 0.1
        )
        assert message["data"] == "a"

    run_virtual(scenario)


def test_a_lease_that_is_given_back_wakes_a_waiting_pop() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "a", "b")
        (message,) = await claim(leader, 1)
        again = await waits_for(leader, lambda: ack(leader, message, status="retry"), 0.2)
        assert (again["data"], again["deliveryAttempt"]) == ("a", 2)
        rest = await waits_for(leader, lambda: ack(leader, again), 0.2, batch=1)
        assert rest["data"] == "b"

    run_virtual(scenario, size=1)


def test_appends_that_serve_nobody_plan_no_pop_again() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, leaseTime=300)
        await leader.push("q", "first")
        await claim(leader, 1)
        async with trio.open_nursery() as nursery:
            for number in range(200):
                target = f"/api/v1/pop/queue/q/partition/p{number}?wait=true&timeout=60000"
                nursery.start_soon(leader.call, "GET", target)
                nursery.start_soon(lambda: leader.pop("q", None, wait="true", timeout=60_000))
            await trio.sleep(1)
            before = leader.counters.commands
            for number in range(50):
                await leader.push("q", f"more{number}")
            await trio.sleep(1)
            assert leader.counters.commands - before == 50
            nursery.cancel_scope.cancel()

    run_virtual(scenario, size=1)


def test_one_message_wakes_a_few_of_many_that_wait() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "first")
        await ack(leader, *await claim(leader))
        async with trio.open_nursery() as nursery:
            for _ in range(200):
                nursery.start_soon(lambda: leader.pop("q", None, wait="true", timeout=60_000))
            await trio.sleep(1)
            before = leader.counters.commands
            await leader.push("q", "one")
            await trio.sleep(1)
            assert leader.counters.commands - before <= 4
            nursery.cancel_scope.cancel()

    run_virtual(scenario, size=1)
