"""Parked pops, claims that nobody received, and what time alone makes ready."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from atleastonce.system.broker.commands import Pop, TakeBack
from atleastonce.system.http.server import Delivery
from atleastonce.system.node.receipts import read_receipt, receipt

from .virtual_nodes import HangingUp, VirtualCluster, VirtualNode, read, run_virtual


def test_a_parked_pop_gets_what_is_pushed_elsewhere() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        popped: list[Any] = []

        async def wait(node: VirtualNode) -> None:
            popped.append((await node.pop("q", wait="true", timeout=30000))[1])

        async with trio.open_nursery() as nursery:
            for node in cluster.nodes.values():
                nursery.start_soon(wait, node)
            await trio.sleep(1)
            for at, node in enumerate(cluster.nodes.values()):
                items = {"queue": "q", "partition": f"p{at}", "payload": at}
                await node.call("POST", "/api/v1/push", {"items": [items]})
        assert sorted(each["messages"][0]["data"] for each in popped) == [0, 1, 2]
        counters = (await cluster.leader()).counters
        assert counters.commands <= 12, "parked pops entered the log for nothing"

    run_virtual(scenario)


def test_a_pop_that_finds_nothing_is_204_at_the_end_of_its_wait() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        for node in cluster.nodes.values():
            began = trio.current_time()
            status, body = await node.pop("q", wait="true", timeout=2000)
            assert (status, body) == (204, None)
            assert 1.9 < trio.current_time() - began < 2.1

    run_virtual(scenario)


def test_a_parked_pop_survives_a_lost_leader() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        waiter, pusher = await cluster.followers()
        popped: list[Any] = []

        async def wait() -> None:
            popped.append(await waiter.pop("q", wait="true", timeout=30000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.5)
            leader.stop()
            await pusher.push("q", "x")
        assert popped[0][0] == 200

    run_virtual(scenario)


async def hang_up_while_parked(cluster: VirtualCluster, node: VirtualNode) -> None:
    client = HangingUp()
    done: list[int] = []

    async def wait() -> None:
        done.append((await node.pop("q", client, wait="true", timeout=30000))[0])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.sleep(0.5)
        client.gone.set()
        with trio.fail_after(0.5):
            while not done:
                await trio.sleep(0.01)
    await trio.sleep(0.1)
    leader = await cluster.leader()
    assert len(leader.node.desk.lot) == 0
    await node.push("q", f"for {node.name}")
    await trio.sleep(0.1)
    status, popped = await node.pop("q", batch=1)
    assert status == 200
    assert popped["messages"][0]["deliveryAttempt"] == 1
    ack = {"transactionId": f"for {node.name}", "partitionId": popped["partitionId"]}
    await node.call("POST", "/api/v1/ack", ack)


def test_a_client_that_hangs_up_while_parked_leaves_no_claim() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        for node in cluster.nodes.values():
            await hang_up_while_parked(cluster, node)

    run_virtual(scenario)


def test_a_claim_whose_client_is_gone_is_taken_back_with_its_attempt() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in [leader, *await cluster.followers()]:
            await node.push("q", f"for {node.name}")
            delivery = await node.call("GET", "/api/v1/pop/queue/q?batch=1")
            assert read(delivery)[0] == 200
            assert delivery.on_lost is not None
            delivery.on_lost()
            await trio.sleep(0.1)
            status, popped = await node.pop("q", batch=1)
            assert status == 200
            assert popped["messages"][0]["deliveryAttempt"] == 1
            ack = {"transactionId": f"for {node.name}", "partitionId": popped["partitionId"]}
            await node.call("POST", "/api/v1/ack", ack)
        assert leader.counters.take_backs == 3

    run_virtual(scenario)


@pytest.mark.parametrize("own_id", [True, False])
def test_a_claim_that_two_leaders_answered_goes_back_when_its_client_is_gone(own_id: bool) -> None:
    """The first leader dies between the claim's commit and its answer's way to the client."""

    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        waiter, other = await cluster.followers()
        await other.push("q", "x")
        # The answer of the first leader is made, and never leaves it.
        leader.node.proposals.applied = lambda *_: None  # type: ignore[method-assign]
        deliveries: list[Delivery] = []
        headers = {"x-request-id": "mine"} if own_id else {}

        async def ask() -> None:
            target = "/api/v1/pop/queue/q?batch=1&leaseSeconds=60&wait=true&timeout=20000"
            deliveries.append(await waiter.call("GET", target, headers=headers))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask)
            with trio.fail_after(2):
                while await held(other) == 0:
                    await trio.sleep(0.01)
            leader.stop()
        (delivery,) = deliveries
        assert read(delivery)[0] == 200
        assert delivery.on_lost is not None
        delivery.on_lost()
        await trio.sleep(0.2)
        status, popped = await other.pop("q", batch=1)
        assert status == 200
        assert popped["messages"][0]["deliveryAttempt"] == 1

    run_virtual(scenario)


def test_an_ack_that_is_refused_only_as_a_repeat_has_an_unknown_outcome() -> None:
    """Its first try was carried out and not answered, and another lease was released since."""

    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        asker, other = await cluster.followers()
        await other.push("q", "x", "y")
        _, popped = await asker.pop("q", batch=1)
        answers: list[tuple[int, Any]] = []

        async def acknowledge() -> None:
            answers.append(await acked(asker, popped))

        leader.node.proposals.applied = lambda *_: None  # type: ignore[method-assign]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(acknowledge)
            with trio.fail_after(2):
                while await held(leader):
                    await trio.sleep(0.01)
            del leader.node.proposals.applied
            cluster.cut_off(asker.name)
            _, rest = await other.pop("q", batch=1)
            assert (await acked(other, rest))[1][0]["success"] is True
            cluster.heal()
        ((status, body),) = answers
        assert (status, body["code"]) == (503, "outcome_unknown")
        # A client that never asked before is told the truth as before.
        status, (item,) = await acked(asker, popped)
        assert (status, item["success"]) == (200, False)

    run_virtual(scenario)


async def acked(node: VirtualNode, popped: Any) -> tuple[int, Any]:
    """Acknowledge everything that a pop brought."""
    acks = [
        {name: message[name] for name in ("transactionId", "partitionId", "leaseId")}
        for message in popped["messages"]
    ]
    return read(await node.call("POST", "/api/v1/ack/batch", {"acknowledgments": acks}))


async def held(node: VirtualNode) -> int:
    """How many claims a node's copy of the state knows."""
    await trio.lowlevel.checkpoint()
    return len(node.node.machine._state.claims.summary())


def test_a_receipt_names_what_is_to_be_undone_and_garbage_names_nothing() -> None:
    pop = Pop(request_id="r", queue="q", asking="node 1-ab-7", trial=3)
    assert read_receipt(receipt("lease", pop)) == TakeBack("lease", "node 1-ab-7", 3)
    for garbage in ("", " ", "lease", "lease a", "lease a -1", "lease a \u0663"):
        assert read_receipt(garbage).trial == 0


def test_a_vanished_follower_leaves_no_claim() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower, other = await cluster.followers()

        async def wait() -> None:
            await follower.pop("q", wait="true", timeout=30000)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.5)
            assert len(leader.node.desk.lot) == 1
            follower.stop()
            nursery.cancel_scope.cancel()
        await trio.sleep(0.1)
        assert len(leader.node.desk.lot) == 0
        await other.push("q", "x")
        status, popped = await other.pop("q")
        assert (status, popped["messages"][0]["deliveryAttempt"]) == (200, 1)

    run_virtual(scenario)


def test_timers_fire_within_a_tick() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower = (await cluster.followers())[0]
        for delay_ms in (0, 700):
            timer = {
                "op": "schedule",
                "queue": "q",
                "timerKey": "k",
                "delayMs": delay_ms,
                "txn": f"t{delay_ms}",
                "payload": "MQ==",
            }
            began = trio.current_time()
            await follower.call("POST", "/api/v1/timers", {"operations": [timer]})
            status, popped = await follower.pop("q", wait="true", timeout=5000)
            took = trio.current_time() - began
            assert (status, popped["messages"][0]["transactionId"]) == (200, f"t{delay_ms}")
            assert delay_ms / 1000 <= took < delay_ms / 1000 + 0.06
            ack = {"transactionId": f"t{delay_ms}", "partitionId": popped["partitionId"]}
            await leader.call("POST", "/api/v1/ack", ack)

    run_virtual(scenario)


def test_an_expired_lease_wakes_a_parked_pop() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        follower = (await cluster.followers())[0]
        await follower.push("q", "x")
        await follower.pop("q", leaseSeconds=2)
        began = trio.current_time()
        status, popped = await follower.pop("q", wait="true", timeout=30000)
        assert (status, popped["messages"][0]["deliveryAttempt"]) == (200, 2)
        assert 1.9 < trio.current_time() - began < 2.1

    run_virtual(scenario)


def test_a_push_and_the_claim_of_what_it_stores_are_one_entry() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        popped: list[Any] = []

        async def wait() -> None:
            popped.append((await leader.pop("q", wait="true", timeout=30000))[1])

        await leader.pop("q")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(wait)
            await trio.sleep(1)
            before = leader.counters.proposals
            for at in range(3):
                items = {"queue": "q", "partition": f"p{at}", "payload": at}
                await leader.call("POST", "/api/v1/push", {"items": [items]})
        assert sorted(each["messages"][0]["data"] for each in popped) == [0, 1, 2]
        assert leader.counters.proposals - before == 3

    run_virtual(scenario)
