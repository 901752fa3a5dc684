"""Ephemeral queues through whole nodes: any node serves them, the leader holds them."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from .virtual_nodes import HangingUp, VirtualCluster, VirtualNode, read, run_virtual

BASE = "/api/v1/ephemeral"


async def push(node: VirtualNode, *payloads: object, queue: str = "q", **more: str) -> Any:
    body = {"queue": queue, "messages": [{"payload": each} for each in payloads], **more}
    return read(await node.call("POST", f"{BASE}/push", body))


async def pop(node: VirtualNode, client: HangingUp | None = None, **parameters: object) -> Any:
    query = "&".join(f"{name}={value}" for name, value in ({"queue": "q"} | parameters).items())
    return read(await node.call("GET", f"{BASE}/pop?{query}", client=client))


async def ack(node: VirtualNode, *acks: dict[str, str], **more: str) -> list[str]:
    body = {"queue": "q", "acks": list(acks), **more}
    status, answer = read(await node.call("POST", f"{BASE}/ack", body))
    assert status == 200
    return [result["outcome"] for result in answer["results"]]


def test_every_node_serves_what_any_node_took() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        one, two = await cluster.followers()
        assert await push(one, {"n": 1}, None, partition="room-7") == (201, {"pushed": 2})
        status, popped = await pop(two, batch=10, group="g")
        assert (status, popped["queue"]) == (200, "q")
        first, second = popped["messages"]
        assert {key: first[key] for key in ("partition", "attempts", "payload")} == {
            "partition": "room-7",
            "attempts": 0,
            "payload": {"n": 1},
        }
        assert second["payload"] is None
        acks = {"id": first["id"]}, {"id": second["id"], "status": "retry"}
        assert await ack(leader, *acks, group="g") == ["acked", "redelivered"]
        status, popped = await pop(one, batch=10, group="g")
        assert [message["attempts"] for message in popped["messages"]] == [1]

    run_virtual(scenario)


def test_an_empty_pop_is_200_and_a_waiting_one_is_woken_by_a_push() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        one, two = await cluster.followers()
        assert await pop(one) == (200, {"queue": "q", "messages": []})
        began = trio.current_time()
        assert await pop(one, wait="true", timeout=700) == (200, {"queue": "q", "messages": []})
        assert 0.6 < trio.current_time() - began < 1.0
        found: list[Any] = []

        async def wait() -> None:
            found.append(await pop(one, wait="true", timeout=20_000))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(1)
            began = trio.current_time()
            await push(two, "x")
        assert trio.current_time() - began < 0.1
        assert found[0][1]["messages"][0]["payload"] == "x"

    run_virtual(scenario)


def test_a_waiting_pop_is_woken_by_a_lease_that_runs_out() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        body = {"queue": "q", "options": {"leaseSeconds": 3}}
        assert read(await leader.call("POST", f"{BASE}/configure", body)) == (201, body)
        await push(leader, "x")
        await pop(leader)
        began = trio.current_time()
        _, popped = await pop(leader, wait="true", timeout=20_000)
        assert popped["messages"][0]["attempts"] == 1
        assert 2.9 < trio.current_time() - began < 3.2

    run_virtual(scenario, size=1)


def test_a_window_lets_a_waiting_pop_fatten_its_batch() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        options = {"windowBuffer": {"ms": 500, "count": 3}}
        await leader.call("POST", f"{BASE}/configure", {"queue": "q", "options": options})
        sizes: list[int] = []

        async def wait() -> None:
            _, popped = await pop(leader, wait="true", timeout=20_000, batch=10, autoAck="true")
            sizes.append(len(popped["messages"]))

        for pushes in (2, 4):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(wait)
                for number in range(pushes):
                    await trio.sleep(0.1)
                    await push(leader, number)
        assert sizes == [2, 3]

    run_virtual(scenario, size=1)


def test_a_new_leader_begins_empty_and_acks_of_old_messages_are_stale() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        follower = (await cluster.followers())[0]
        body = {"queue": "q", "options": {"maxLength": 7}}
        await leader.call("POST", f"{BASE}/configure", body)
        await push(leader, "x", "y")
        _, popped = await pop(leader)
        found: list[Any] = []

        async def wait() -> None:
            found.append(await pop(follower, wait="true", timeout=10_000, group="g", batch=5))

        leader.stop()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(3)
            assert await push(follower, "new") == (201, {"pushed": 1})
        assert [message["payload"] for message in found[0][1]["messages"]] == ["new"]
        assert await ack(follower, {"id": popped["messages"][0]["id"]}) == ["stale"]
        status, depth = read(await follower.call("GET", f"{BASE}/queues/q/depth"))
        assert (status, depth["tier"], depth["options"]["maxLength"]) == (200, "declared", 7)

    run_virtual(scenario)


def test_a_deposed_leader_serves_nobody_from_its_memory() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await push(leader, "x")
        cluster.cut_off(leader.name)
        await trio.sleep(3)
        waited: list[Any] = []

        async def wait() -> None:
            waited.append(await pop(leader, wait="true", timeout=10_000, group="g"))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.sleep(5)
            cluster.heal()
        assert waited == [(200, {"queue": "q", "messages": []})]

    run_virtual(scenario)


def test_a_client_that_hangs_up_takes_nothing() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader, client = await cluster.leader(), HangingUp()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: pop(leader, client, wait="true", timeout=20_000))
            await trio.sleep(0.1)
            client.gone.set()
        await push(leader, "x")
        _, popped = await pop(leader)
        assert popped["messages"][0]["attempts"] == 0

    run_virtual(scenario, size=1)


def test_reset_and_delete_answer_200_whatever_there_is() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        node = (await cluster.followers())[0]
        await push(node, "x", "y")
        reset = await node.call("POST", f"{BASE}/reset", {"queue": "q"})
        assert read(reset) == (200, {"queue": "q", "dropped": 2})
        await node.call("POST", f"{BASE}/configure", {"queue": "q"})
        for expected in ((True, True), (False, False)):
            status, answer = read(await node.call("DELETE", f"{BASE}/queue/q"))
            assert (status, answer["deleted"], answer["declared"]) == (200, *expected)
        status, answer = read(await node.call("GET", f"{BASE}/queues/q/depth"))
        assert (status, answer["code"]) == (404, "ephemeral_queue_not_found")

    run_virtual(scenario)


def test_the_list_and_the_depth_show_the_gauges() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await push(leader, "xx", queue="in box")
        await push(leader, "y", queue="in box", partition="p")
        await pop(leader, queue="in%20box", partition="p", group="g")
        status, listed = read(await leader.call("GET", f"{BASE}/queues"))
        (row,) = listed["queues"]
        assert (status, listed["count"], listed["cellBytes"]) == (200, 1, 7)
        assert (row["queue"], row["tier"], row["depth"], row["partitions"], row["groups"]) == (
            "in box",
            "implicit",
            2,
            2,
            1,
        )
        assert row["drops"] == {"bounds": 0, "ttl": 0, "retry": 0}
        _, depth = read(await leader.call("GET", f"{BASE}/queues/in%20box/depth?group=g"))
        assert (depth["pending"], depth["partitionsPending"]) == (2, 2)
        assert depth["groups"] == [{"group": "g", "pending": 1, "skipped": 0}]

    run_virtual(scenario, size=1)


def test_a_full_queue_is_429_with_retry_after() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        body = {"queue": "q", "options": {"maxLength": 1}}
        await leader.call("POST", f"{BASE}/configure", body)
        await push(leader, "x")
        pushed = {"queue": "q", "messages": [{"payload": 1}]}
        answer = (await leader.call("POST", f"{BASE}/push", pushed)).answer
        assert (answer.status, answer.headers) == (429, (("Retry-After", "1"),))
        assert b'"queue_full"' in answer.body

    run_virtual(scenario, size=1)


@pytest.mark.parametrize(
    ("path", "body", "word"),
    [
        ("push", {"messages": []}, "queue"),
        ("push", {"queue": "", "messages": []}, "queue"),
        ("push", {"queue": "q"}, "messages"),
        ("push", {"queue": "q", "messages": [{}]}, "payload"),
        ("push", {"queue": "a\nb", "messages": []}, "control"),
        ("push", {"queue": "q" * 513, "messages": []}, "512"),
        ("push", {"queue": "q", "messages": [{"payload": 1}] * 10_001}, "10000"),
        ("configure", {"queue": "q", "options": {"ttlSecond": 1}}, "ttlSecond"),
        ("configure", {"queue": "q", "options": {"ttlSeconds": 1.5}}, "ttlSeconds"),
        ("configure", {"queue": "q", "options": {"maxLength": -1}}, "maxLength"),
        ("configure", {"queue": "q", "options": {"policy": "drop"}}, "policy"),
        ("configure", {"queue": "q", "options": {"windowBuffer": 3}}, "windowBuffer"),
        ("ack", {"queue": "q", "acks": [{}]}, "id"),
        ("reset", {}, "queue"),
    ],
)
def test_bad_requests_are_named(path: str, body: object, word: str) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        status, answer = read(await leader.call("POST", f"{BASE}/{path}", body))
        assert (status, answer["code"]) == (400, "ephemeral_bad_request")
        assert word in answer["error"]

    run_virtual(scenario, size=1)
