"""Random kills, cuts and planned stops on virtual time: what was answered stays true."""

from __future__ import annotations

import random
from typing import Any

import pytest
import trio

from atleastonce.system.broker.queries import Fetch, FetchEntry
from atleastonce.system.broker.replies import FetchReply
from atleastonce.system.node.shutdown import stop_gracefully

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual

TROUBLE_S = 10.0


class Producer:
    """Pushes through random nodes; what got no clear answer is pushed again with the same id."""

    def __init__(self, cluster: VirtualCluster, name: str, draw: random.Random) -> None:
        self.acknowledged: dict[str, int] = {}
        self._cluster = cluster
        self._name = name
        self._draw = draw

    async def run(self, stop: trio.Event) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            await self._push(f"{self._name}-{number}")
            await trio.sleep(self._draw.random() * 0.1)

    async def _push(self, name: str) -> None:
        while True:
            node = self._draw.choice(list(self._cluster.nodes.values()))
            answer = await ask(node, name)
            if answer is not None and answer[0] == 201:
                self.acknowledged[name] = answer[1][0]["offset"]
                return
            await trio.sleep(0.05)


async def ask(node: VirtualNode, name: str) -> tuple[int, Any] | None:
    """Push through a node; None when the node dies meanwhile, as its clients would see it."""
    if not node.is_up:
        return None
    answer: list[tuple[int, Any]] = []
    async with trio.open_nursery() as nursery:

        async def push() -> None:
            answer.append(await node.push("q", name))
            nursery.cancel_scope.cancel()

        async def watch() -> None:
            await node.ended.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(push)
        nursery.start_soon(watch)
    return answer[0] if answer else None


async def consume(cluster: VirtualCluster, draw: random.Random, done: list[str]) -> None:
    """Pop through random nodes and acknowledge, until cancelled."""
    while True:
        node = draw.choice(list(cluster.nodes.values()))
        if not node.is_up:
            await trio.sleep(0.05)
            continue
        with trio.move_on_after(8):
            status, popped = await node.pop(
                "q", wait="true", timeout=1000, batch=5, leaseSeconds=2, subscriptionMode="all"
            )
            if status != 200:
                continue
            acks = [
                {
                    "transactionId": message["transactionId"],
                    "partitionId": message["partitionId"],
                    "leaseId": message["leaseId"],
                }
                for message in popped["messages"]
            ]
            answer = await node.call("POST", "/api/v1/ack/batch", {"acknowledgments": acks})
            status, results = read(answer)
            if status == 200:
                done += [result["transactionId"] for result in results if result["success"]]


async def make_trouble(cluster: VirtualCluster, draw: random.Random) -> None:
    """One fault at a time, so that a majority is always left."""
    ends = trio.current_time() + TROUBLE_S
    while trio.current_time() < ends:
        await trio.sleep(0.3 + draw.random())
        victim = draw.choice(list(cluster.nodes.values()))
        if draw.random() < 0.5:
            victim = await cluster.leader()
        kind = draw.choice(["kill", "cut", "stop"])
        if kind == "kill":
            victim.stop()
        elif kind == "cut":
            cluster.cut_off(victim.name)
        else:
            await stop_gracefully(victim.node, True, lambda: None, victim.node.logbook)
            victim.stop()
        await trio.sleep(0.2 + draw.random() * 2)
        if kind == "cut":
            cluster.heal()
        else:
            await victim.ended.wait()
            await cluster.start(victim.name)


async def agreed_state(cluster: VirtualCluster) -> list[str]:
    """Wait until all nodes agree; the payloads of the queue, in order."""
    with trio.fail_after(30):
        while True:
            nodes = [node.node for node in cluster.nodes.values()]
            if len({(n.applier.applied_index, n.machine.digest()) for n in nodes}) == 1:
                break
            await trio.sleep(0.05)
    node = nodes[0]
    reply = node.machine.read(Fetch((FetchEntry("q", "p", 0),)), node.desk.stamp_us())
    assert isinstance(reply, FetchReply)
    return [record.payload.decode().strip('"') for record in reply.entries[0].records]


@pytest.mark.parametrize("seed", range(6))
def test_acknowledged_pushes_survive_any_single_trouble(seed: int) -> None:
    draw = random.Random(seed)

    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        producers = [Producer(cluster, f"c{at}", random.Random(f"{seed} {at}")) for at in range(3)]
        settled: list[str] = []
        stop = trio.Event()
        async with trio.open_nursery() as consumers:
            consumers.start_soon(consume, cluster, random.Random(seed + 1000), settled)
            async with trio.open_nursery() as nursery:
                for producer in producers:
                    nursery.start_soon(producer.run, stop)
                await make_trouble(cluster, draw)
                stop.set()
            with trio.fail_after(60):
                while True:
                    leader = await cluster.leader()
                    target = "/api/v1/resources/queues/q/depth"
                    status, depth = read(await leader.call("GET", target))
                    if status == 200 and depth["pending"] == 0:
                        break
                    await trio.sleep(0.2)
            consumers.cancel_scope.cancel()
        stored = await agreed_state(cluster)
        assert len(stored) == len(set(stored)), "a push was stored twice"
        for producer in producers:
            for name, offset in producer.acknowledged.items():
                assert stored[offset] == name
        assert set(settled) <= set(stored)
        assert sum(len(producer.acknowledged) for producer in producers) > 100

    run_virtual(scenario, seed=seed)
