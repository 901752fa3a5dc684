"""A leader that cannot lead gives way, and one that is merely hindered goes on by itself."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from atleastonce.system.raft.events import Refused, Role

from .virtual_nodes import VirtualCluster, read, run_virtual, stored, until_agreed


def test_a_leader_that_hears_nobody_steps_down_and_others_serve() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        old = await cluster.leader()
        others = await cluster.followers()
        assert (await others[0].push("q", "before"))[0] == 201
        cluster.deaf.add(old.name)
        began = trio.current_time()
        status, _ = await others[0].push("q", "after")
        assert status == 201
        assert trio.current_time() - began < 4.0
        with trio.fail_after(3):
            while old.node.leadership.role is Role.LEADER:
                await trio.sleep(0.01)
        assert [line["reason"] for line in old.lines if line["event"] == "step-down"] == [
            "no quorum has answered in time"
        ]
        status, body = await old.push("q", "lost", **{"x-deadline-ms": "500"})
        assert (status, body["code"]) == (503, "no_leader")
        assert "connection" in body["error"]
        new = await cluster.leader()
        assert new is not old
        cluster.deaf.clear()
        await until_agreed(cluster)
        assert stored(old, "q")[:2] == ["before", "after"]
        assert (await old.push("q", "again"))[0] == 201

    run_virtual(scenario)


@pytest.mark.parametrize("seed", range(5))
def test_a_deaf_leader_does_not_keep_the_others_from_a_leader_of_their_own(seed: int) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        old = await cluster.leader()
        follower = (await cluster.followers())[0]
        cluster.deaf.add(old.name)
        for number in range(10):
            began = trio.current_time()
            assert (await follower.push("q", f"m{number}"))[0] == 201
            assert trio.current_time() - began < 4.5
            await trio.sleep(0.5)
        assert cluster.nodes[old.name].node.leadership.role is not Role.LEADER

    run_virtual(scenario, seed=seed)


def test_writes_go_on_after_the_leader_was_cut_off_and_healed() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        statuses: list[int] = []

        async def push(name: str) -> None:
            node = cluster.nodes["n1"]
            statuses.append((await node.push("q", name, **{"x-deadline-ms": "20000"}))[0])

        for cut_s in (0.3, 0.7, 1.2, 2.4, 5.0):
            leader = await cluster.leader()
            async with trio.open_nursery() as nursery:
                cluster.cut_off(leader.name)
                for number in range(5):
                    nursery.start_soon(push, f"cut{cut_s}-{number}")
                await trio.sleep(cut_s)
                cluster.heal()
                nursery.start_soon(push, f"healed{cut_s}")
        assert statuses == [201] * 30
        await until_agreed(cluster)
        messages = stored(cluster.nodes["n2"], "q")
        assert len(messages) == len(set(messages)) == 30

    run_virtual(scenario)


def test_a_write_that_the_core_refuses_wedges_nothing() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        node = leader.node
        appended = node.appended
        refusals = 7

        def refuse(effect: Any) -> None:
            nonlocal refusals
            if refusals:
                refusals -= 1
                node.refused(Refused(effect.proposal, None))
            else:
                appended(effect)

        # As if the core had refused: the entry is in the log, but nobody is told so.
        node.appended = refuse  # type: ignore[method-assign]
        for number in range(5):
            status, items = await leader.push("q", f"m{number}")
            assert (status, items[0]["offset"]) == (201, number)
        assert node.proposals.in_flight == 0
        assert refusals == 0
        status, popped = await leader.pop("q", batch=10)
        assert len(popped["messages"]) == 5
        assert read(await leader.call("GET", "/health"))[0] == 200

    run_virtual(scenario)
