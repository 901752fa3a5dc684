"""Whole nodes on virtual time: leadership, forwarding, waiting, retrying, local reads."""

from __future__ import annotations

from typing import Any

import trio

from .virtual_nodes import VirtualCluster, read, run_virtual, stored, until_agreed


def test_every_node_serves_every_client() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        for at, node in enumerate(cluster.nodes.values()):
            status, items = await node.push("q", f"m{at}")
            assert (status, items[0]["offset"]) == (201, at)
        for node in cluster.nodes.values():
            status, popped = await node.pop("q", batch=1)
            assert status == 200
            acks = [
                {key: popped["messages"][0][key] for key in ("transactionId", "partitionId")}
                | {"leaseId": popped["leaseId"]}
            ]
            answer = await node.call("POST", "/api/v1/ack/batch", {"acknowledgments": acks})
            assert read(answer)[1][0]["success"] is True
        await until_agreed(cluster)

    run_virtual(scenario)


def test_a_request_waits_through_an_election() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower = (await cluster.followers())[0]
        await follower.push("q", "before")
        leader.stop()
        began = trio.current_time()
        status, items = await follower.push("q", "after")
        assert status == 201
        assert items[0]["offset"] == 1
        assert trio.current_time() - began < 2.0
        assert stored(await cluster.leader(), "q") == ["before", "after"]

    run_virtual(scenario)


def test_without_a_majority_a_write_is_refused_at_its_own_deadline() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in await cluster.followers():
            node.stop()
        await trio.sleep(2)
        began = trio.current_time()
        status, body = await leader.push("q", "x", **{"x-deadline-ms": "700"})
        assert (status, body["code"]) == (503, "no_leader")
        assert "connection" in body["error"]
        assert 0.69 < trio.current_time() - began < 0.8
        status, _ = await leader.pop("q", wait="true", timeout=300)
        assert status == 204
        health = read(await leader.call("GET", "/health"))
        assert (health[0], health[1]["status"]) == (503, "settling")

    run_virtual(scenario)


def test_a_write_that_may_be_in_the_log_is_outcome_unknown() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for node in await cluster.followers():
            node.stop()
        await trio.lowlevel.checkpoint()
        status, body = await leader.push("q", "x", **{"x-deadline-ms": "2000"})
        assert (status, body["code"]) == (503, "outcome_unknown")

    run_virtual(scenario)


def test_deadlines_out_of_bounds_are_refused() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for given in ("0", "-1", "60001", "soon", ""):
            status, body = await leader.push("q", "x", **{"x-deadline-ms": given})
            assert (status, body["code"]) == (400, "bad_request")
            assert repr(given) in body["error"]

    run_virtual(scenario, size=1)


def cut_leader_with_a_push_in_flight(bugs: frozenset[str]) -> tuple[int, list[Any]]:
    """A leader appends a push, alone, and another leader fills that slot.

    Returns the push's status, and what is stored in the end.
    """
    outcome: list[Any] = []

    async def scenario(cluster: VirtualCluster) -> None:
        old = await cluster.leader()
        others = await cluster.followers()
        cluster.cut_off(old.name)

        async def push_alone() -> None:
            outcome.append((await old.push("q", "mine", **{"x-deadline-ms": "20000"}))[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(push_alone)
            for number in range(3):
                status, _ = await others[0].push("q", f"other{number}")
                assert status == 201
            cluster.heal()
        await until_agreed(cluster)
        outcome.append(stored(old, "q"))

    run_virtual(scenario, bugs=bugs)
    return outcome[0], outcome[1]


def test_a_deposed_leader_does_not_answer_for_another_leaders_entry() -> None:
    status, messages = cut_leader_with_a_push_in_flight(frozenset())
    assert status == 201
    assert sorted(messages) == ["mine", "other0", "other1", "other2"]


def test_the_planted_defect_acknowledges_a_lost_push() -> None:
    status, messages = cut_leader_with_a_push_in_flight(frozenset({"answer-by-log-index"}))
    assert status == 201
    assert messages == ["other0", "other1", "other2"]


def test_a_restarted_node_serves_no_old_local_read() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        follower, other = await cluster.followers()
        for number in range(30):
            await follower.push("q", f"m{number}")
        await until_agreed(cluster)
        cluster.cut_off(follower.name)
        follower.stop()
        await trio.sleep(0.1)
        await cluster.start(follower.name)
        fetch = {"entries": [{"queue": "q", "partition": "p", "offset": 0}]}
        short = {"x-deadline-ms": "200"}
        answer = read(await follower.call("POST", "/api/v1/fetch", fetch, short))
        assert answer[0] == 503
        cluster.heal()
        status, body = read(await follower.call("POST", "/api/v1/fetch", fetch))
        assert status == 200
        assert len(body["entries"][0]["records"]) == 30
        status, body = read(await other.call("POST", "/api/v1/fetch", fetch))
        assert len(body["entries"][0]["records"]) == 30

    run_virtual(scenario)


def test_a_waiting_fetch_is_woken_on_any_node() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        follower, other = await cluster.followers()
        await follower.push("q", "m0")
        await until_agreed(cluster)
        fetch = {"entries": [{"queue": "q", "partition": "p", "offset": 1}], "maxWaitMs": 20000}
        found: list[Any] = []

        async def wait() -> None:
            found.append(read(await follower.call("POST", "/api/v1/fetch", fetch)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            assert not found
            await other.push("q", "m1")
        assert found[0][1]["entries"][0]["records"][0]["payload"] == "m1"

    run_virtual(scenario)
