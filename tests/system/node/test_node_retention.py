"""Retention by time on whole nodes: proposed by whoever leads, the same on every replica."""

from __future__ import annotations

import trio

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual, stored, until_agreed


async def configure(node: VirtualNode, queue: str, **options: int | bool) -> None:
    body = {"queue": queue, "options": options}
    status, _ = read(await node.call("POST", "/api/v1/configure", body))
    assert status == 200


async def gone(node: VirtualNode, queue: str) -> None:
    with trio.fail_after(20):
        while stored(node, queue):
            await trio.sleep(0.1)


def test_old_messages_go_on_every_replica() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, "q", maxWaitTimeSeconds=3)
        await leader.push("q", "a", "b")
        await leader.push("kept", "a")
        began = trio.current_time()
        await gone(leader, "q")
        assert 2.5 < trio.current_time() - began < 5
        await until_agreed(cluster)
        for node in cluster.nodes.values():
            assert (stored(node, "q"), stored(node, "kept")) == ([], ["a"])

    run_virtual(scenario)


def test_the_next_leader_goes_on_where_the_last_one_died() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, "q", maxWaitTimeSeconds=5)
        await leader.push("q", "a")
        leader.stop()
        await gone(await cluster.leader(), "q")

    run_virtual(scenario)


def test_a_reader_that_waits_is_told_when_its_place_is_gone() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, "q", maxWaitTimeSeconds=3)
        await leader.push("q", "a")
        entry = {"queue": "q", "partition": "p", "offset": 1}
        began = trio.current_time()
        entries: list[dict[str, object]] = [entry, entry | {"offset": 0}]
        body = {"entries": entries, "maxWaitMs": 20_000, "minBytes": 100}
        status, answer = read(await leader.call("POST", "/api/v1/fetch", body))
        assert (status, answer["entries"][1]["error"]) == (200, "OFFSET_OUT_OF_RANGE")
        assert trio.current_time() - began < 6

    run_virtual(scenario, size=1)


def test_a_quiet_leader_proposes_nothing() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await configure(leader, "q", retentionEnabled=True, retentionSeconds=3600)
        await leader.push("q", "a")
        before = leader.counters.proposals
        await trio.sleep(60)
        assert leader.counters.proposals == before

    run_virtual(scenario, size=1)
