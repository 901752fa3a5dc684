"""A full disk anywhere refuses pushes everywhere, and nothing that makes room."""

from __future__ import annotations

from typing import Any

import trio

from atleastonce.system.node.gauge import Space
from atleastonce.system.node.limits import NodeLimits

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual, stored

SMALL = NodeLimits(disk_enough_bytes=1000)
FULL, BETWEEN, FREE = Space(90, 10), Space(82, 18), Space(50, 50)


def bundle(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"operations": list(operations)}


async def expect_full(node: VirtualNode, full: str) -> None:
    status, body = await node.push("q", "refused")
    assert (status, body["code"]) == (507, "storage_full")
    assert full in body["error"]


async def serves_what_makes_room(node: VirtualNode) -> None:
    """Pop, extend, ack and delete, all while pushes are refused."""
    status, popped = await node.pop("q", batch=1)
    assert status == 200
    lease = popped["leaseId"]
    status, _ = read(await node.call("POST", f"/api/v1/lease/{lease}/extend", {"seconds": 30}))
    assert status == 200
    message = popped["messages"][0]
    ack = {key: message[key] for key in ("transactionId", "partitionId")} | {"leaseId": lease}
    answer = read(await node.call("POST", "/api/v1/ack/batch", {"acknowledgments": [ack]}))
    assert answer[1][0]["success"] is True
    status, _ = read(await node.call("DELETE", "/api/v1/resources/queues/other"))
    assert status == 200


def test_a_full_leader_refuses_pushes_until_it_is_below_its_low_mark() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower, _ = await cluster.followers()
        await follower.push("q", "m0", "m1")
        await follower.push("other", "m")
        leader.space = FULL
        await trio.sleep(1.1)
        await expect_full(leader, leader.name)
        await expect_full(follower, leader.name)
        await serves_what_makes_room(follower)
        leader.space = BETWEEN
        await trio.sleep(1.1)
        await expect_full(follower, leader.name)
        leader.space = FREE
        await trio.sleep(1.1)
        assert (await follower.push("q", "m2"))[0] == 201
        assert stored(leader, "q") == ["m0", "m1", "m2"]
        events = [line["event"] for line in leader.lines]
        assert [event for event in events if event.startswith("disk-")] == [
            "disk-full",
            "disk-free",
        ]
        health = read(await leader.call("GET", "/health"))[1]
        assert health["disk"]["state"] == "ok"

    run_virtual(scenario, limits=SMALL)


def test_a_full_follower_refuses_pushes_too() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        full, other = await cluster.followers()
        await leader.push("q", "m0")
        await leader.push("other", "m")
        full.space = FULL
        await trio.sleep(2.1)
        for node in (leader, full, other):
            await expect_full(node, full.name)
        await serves_what_makes_room(full)
        item = {"queue": "q", "partition": "p", "transactionId": "t", "payload": 1}
        body = bundle({"type": "push", "items": [item]})
        status, refused = read(await other.call("POST", "/api/v1/transaction", body))
        assert (status, refused["code"]) == (507, "storage_full")
        health = read(await leader.call("GET", "/health"))
        assert health[0] == 200
        assert health[1]["disk"]["fullNode"] == full.name
        full.space = FREE
        await trio.sleep(2.1)
        assert (await other.push("q", "m1"))[0] == 201

    run_virtual(scenario, limits=SMALL)


def test_a_full_follower_that_dies_stops_nobodys_pushes() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        full, other = await cluster.followers()
        full.space = FULL
        await trio.sleep(2.1)
        await expect_full(other, full.name)
        full.stop()
        await full.ended.wait()
        await trio.sleep(0.1)
        assert (await other.push("q", "m0"))[0] == 201
        assert stored(leader, "q") == ["m0"]

    run_virtual(scenario, limits=SMALL)


def test_a_new_leader_knows_who_is_full() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        full, other = await cluster.followers()
        full.space = FULL
        await trio.sleep(2.1)
        leader.stop()
        await cluster.leader()
        await expect_full(other, full.name)

    run_virtual(scenario, limits=SMALL)
