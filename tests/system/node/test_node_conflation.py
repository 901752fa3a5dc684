"""Last-value delivery through whole nodes: whoever asks for it is always told whether it has it."""

from __future__ import annotations

from typing import Any

import trio

from .virtual_nodes import VirtualCluster, run_virtual

WISH = {"consumerGroup": "g", "conflation": "true"}


def test_a_waiting_pop_gets_the_newest_message_or_is_told_at_its_end() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        follower = (await cluster.followers())[0]
        status, body = await follower.pop("q", None, **WISH, wait="true", timeout=500)
        assert (status, body["messages"], body["conflation"]) == (200, [], True)
        found: list[Any] = []

        async def wait() -> None:
            found.append(await follower.pop("q", None, **WISH, wait="true", timeout=20_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(0.5)
            await follower.push("q", "a", "b", "c")
        assert [message["data"] for message in found[0][1]["messages"]] == ["c"]

    run_virtual(scenario)


def test_without_a_leader_a_waiting_pop_is_still_told() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in await cluster.followers():
            node.stop()
        await trio.sleep(3)
        status, body = await leader.pop("q", None, **WISH, wait="true", timeout=500)
        assert (status, body["messages"], body["conflation"]) == (200, [], True)
        status, body = await leader.pop("q", wait="true", timeout=500)
        assert (status, body) == (204, None)

    run_virtual(scenario)


def test_the_policy_survives_its_leader() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.pop("q", None, **WISH)
        leader.stop()
        follower = await cluster.leader()
        await follower.push("q", "a", "b")
        status, body = await follower.pop("q", consumerGroup="g", batch=10)
        assert (status, body["conflation"]) == (200, True)
        assert [message["data"] for message in body["messages"]] == ["b"]

    run_virtual(scenario)
