"""Planned stops, which clients of other nodes must not notice."""

from __future__ import annotations

from typing import Any

import trio

from atleastonce.system.node.node import Node
from atleastonce.system.node.shutdown import ALONE_S, stop_gracefully
from atleastonce.system.raft.events import Event, Role, TransferDone, TransferLeadership

from .virtual_nodes import VirtualCluster, VirtualNode, run_virtual, stored, until_agreed


async def stop(node: VirtualNode) -> None:
    """A planned stop, as the process does it."""
    running: Node = node.node
    await stop_gracefully(running, True, lambda: None, running.logbook)
    node.stop()


def told(node: VirtualNode, stage: str) -> dict[str, Any]:
    """What a stopping node logged of one stage."""
    return next(
        line for line in node.lines if line["event"] == "stopping" and line["stage"] == stage
    )


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


def test_the_last_node_does_not_wait_for_a_successor_that_is_gone() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in await cluster.followers():
            node.stop()
            await node.ended.wait()
        cluster.cut_off(leader.name)
        began = trio.current_time()
        await stop(leader)
        assert trio.current_time() - began < ALONE_S + 0.1

    run_virtual(scenario)


def test_a_transfer_that_is_refused_at_once_is_asked_for_again_and_stops_nothing_else() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        step, refusals = leader.node.driver.step, [20]

        def refuse(event: Event) -> None:
            if isinstance(event, TransferLeadership) and refusals[0]:
                refusals[0] -= 1
                leader.node.transfer_done(TransferDone(False))
            else:
                step(event)

        # As the core does while no follower was heard of lately.
        leader.node.driver.step = refuse  # type: ignore[method-assign]
        began = trio.current_time()
        await stop(leader)
        assert refusals == [0]
        assert trio.current_time() - began < 0.3
        assert told(leader, "leadership")["leader"] not in (None, leader.name)

    run_virtual(scenario)


def test_leadership_goes_to_the_only_follower_that_is_left() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        gone, left = await cluster.followers()
        gone.stop()
        await gone.ended.wait()
        began = trio.current_time()
        await stop(leader)
        assert left.node.leadership.role is Role.LEADER
        assert trio.current_time() - began < 0.1
        assert told(leader, "leadership")["leader"] == left.name

    run_virtual(scenario)


def test_a_connection_that_is_lost_for_a_moment_does_not_end_the_transfer() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        cluster.cut_off(leader.name)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop, leader)
            await trio.sleep(0.2)
            cluster.heal()
        assert told(leader, "leadership")["leader"] not in (None, leader.name)
        assert (await cluster.leader()) is not leader

    run_virtual(scenario)


def test_leadership_goes_to_the_most_caught_up_voter() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        slow, quick = await cluster.followers()
        slow.sync_s = 0.3
        for number in range(3):
            assert (await leader.push("q", f"m{number}"))[0] == 201
        await stop(leader)
        assert quick.node.leadership.role is Role.LEADER

    run_virtual(scenario)
