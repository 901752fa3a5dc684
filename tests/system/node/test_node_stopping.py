"""Planned stops, which clients of other nodes must not notice."""

from __future__ import annotations

from typing import Any

import trio

from atleastonce.system.node.node import Node
from atleastonce.system.node.shutdown import stop_gracefully

from .virtual_nodes import VirtualCluster, VirtualNode, run_virtual, stored, until_agreed


async def stop(node: VirtualNode) -> None:
    """A planned stop, as the process does it."""
    running: Node = node.node
    await stop_gracefully(running, True, lambda: None, running.logbook)
    node.stop()


def test_a_planned_stop_of_the_leader_fails_no_request() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        statuses: list[int] = []
        slowest = [0.0]
        stopped = trio.Event()

        async def push_on(node: VirtualNode) -> None:
            number = 0
            while not stopped.is_set():
                number += 1
                began = trio.current_time()
                status, _ = await node.push("q", f"{node.name}-{number}")
                slowest[0] = max(slowest[0], trio.current_time() - began)
                statuses.append(status)

        async with trio.open_nursery() as nursery:
            for node in await cluster.followers():
                nursery.start_soon(push_on, node)
            await trio.sleep(0.3)
            await stop(leader)
            await trio.sleep(0.3)
            stopped.set()
        assert set(statuses) == {201}
        assert slowest[0] < 0.33
        await until_agreed(cluster)
        assert len(stored(await cluster.leader(), "q")) == len(statuses)

    run_virtual(scenario)


def test_a_planned_stop_answers_own_parked_pops_empty_and_keeps_those_of_others() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower, other = await cluster.followers()
        found: dict[str, tuple[int, Any]] = {}

        async def wait(node: VirtualNode) -> None:
            found[node.name] = await node.pop("q", wait="true", timeout=30000)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait, leader)
            nursery.start_soon(wait, follower)
            await trio.sleep(0.5)
            await stop(leader)
            assert found == {leader.name: (204, None)}
            await other.push("q", "x")
        assert found[follower.name][0] == 200

    run_virtual(scenario)


def test_a_planned_stop_of_a_follower_answers_its_parked_pops_empty() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower, other = await cluster.followers()
        found: list[int] = []

        async def wait() -> None:
            found.append((await follower.pop("q", wait="true", timeout=30000))[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.5)
            await stop(follower)
            await trio.sleep(0.1)
            assert found == [204]
        assert len(leader.node.desk.lot) == 0
        await other.push("q", "x")
        status, popped = await other.pop("q")
        assert (status, popped["messages"][0]["deliveryAttempt"]) == (200, 1)

    run_virtual(scenario)


def test_a_single_node_stops_with_its_gathered_writes_answered() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        statuses: list[int] = []

        async def push(number: int) -> None:
            statuses.append((await leader.push("q", f"m{number}"))[0])

        async with trio.open_nursery() as nursery:
            for number in range(5):
                nursery.start_soon(push, number)
            await trio.sleep(0.001)
            await stop_gracefully(leader.node, False, lambda: None, leader.node.logbook)
        assert statuses == [201] * 5

    run_virtual(scenario, size=1)
