"""Status and analytics: what a leader has done, minute by minute, and how its queues stand."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from atleastonce.system.broker.commands import Push, PushItem
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.replies import PushedItem, PushReply
from atleastonce.system.node.activity import MINUTE_US, MINUTES_MAX, ROWS_MAX, Activity
from atleastonce.system.node.reports import folded

from .virtual_nodes import VirtualCluster, VirtualNode, read, run_virtual


async def get(node: VirtualNode, target: str, status: int = 200) -> Any:
    found, body = read(await node.call("GET", f"/api/v1/{target}"))
    assert found == status, body
    return body


async def some_traffic(node: VirtualNode) -> None:
    """Two queues; of `shop.mail` three messages are pushed, two delivered, one done, one filed."""
    await node.push("shop.mail", "a", "b", "c")
    await node.push("other", "x")
    await trio.sleep(2)
    _, popped = await node.pop("shop.mail", batch=2)
    for message, status in zip(popped["messages"], ("completed", "dlq"), strict=True):
        body = {key: message[key] for key in ("transactionId", "partitionId", "leaseId")}
        body |= {"status": status, "error": f"job {message['id']} failed 3 times"}
        await node.call("POST", "/api/v1/ack", body)
    await node.pop("other", batch=1, consumerGroup="g")
    await node.pop("other", batch=1, consumerGroup="g")


def test_any_node_shows_what_the_leader_has_done() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        await cluster.leader()
        follower = (await cluster.followers())[0]
        await some_traffic(follower)
        ops = await get(follower, "analytics/queue-ops")
        assert (ops["bucketMinutes"], ops["queues"]) == (1, ["other", "shop.mail"])
        (row,) = [row for row in ops["series"] if row["queueName"] == "shop.mail"]
        assert (row["pushRequests"], row["pushMessages"], row["popMessages"]) == (1, 3, 2)
        assert (row["ackRequests"], row["ackSuccess"], row["ackFailed"]) == (2, 1, 1)
        assert 2000 <= row["avgLagMs"] <= row["maxLagMs"] < 2500
        (only,) = (await get(follower, "analytics/queue-ops?queue=other"))["series"]
        assert (only["popMessages"], only["popEmpty"], only["maxLagMs"]) == (0, 2, None)
        lag = await get(follower, "analytics/queue-lag")
        assert [(point["queueName"], point["popCount"]) for point in lag] == [
            ("other", 0),
            ("shop.mail", 2),
        ]

    run_virtual(scenario)


def test_the_status_and_the_overview_add_up_the_queues() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await some_traffic(leader)
        status = await get(leader, "status")
        assert status["messages"] == {
            "total": 4,
            "pending": 1,
            "processing": 0,
            "completed": 3,
            "failed": None,
            "deadLetter": 1,
        }
        assert status["throughput"][0]["ingested"] == 4
        assert (await get(leader, "status?namespace=shop"))["messages"]["total"] == 3
        overview = await get(leader, "resources/overview")
        assert (overview["queues"], overview["partitions"], overview["namespaces"]) == (2, 2, 1)
        assert overview["throughput"]["ingestedPerSecond"] == round(4 / 300, 2)
        volume = await get(leader, "status/analytics?interval=minute&queue=other")
        assert [point["messages"] for point in volume["dataPoints"]] == [1]
        assert (await get(leader, "status/buffers"))["pending"] == 0
        paged = await get(leader, "status/queues?limit=1&offset=1")
        assert [row["name"] for row in paged["queues"]] == ["other"]
        assert paged["pagination"] == {"limit": 1, "offset": 1}
        assert read(await leader.call("GET", "/status"))[1]["status"] == "ok"

    run_virtual(scenario, size=1)


def test_partitions_are_listed_in_pages() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        items = [
            {"queue": queue, "partition": f"p{at}", "payload": 1}
            for queue in ("q", "r")
            for at in range(3)
        ]
        await leader.call("POST", "/api/v1/push", {"items": items})
        page = await get(leader, "resources/partitions?limit=2&offset=2")
        assert [(row["queue"], row["name"]) for row in page["partitions"]] == [
            ("q", "p2"),
            ("r", "p0"),
        ]
        assert page["total"] == 6
        assert len((await get(leader, "resources/partitions?queue=r"))["partitions"]) == 3

    run_virtual(scenario, size=1)


def test_the_workload_is_grouped_by_label_beside_the_whole() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await some_traffic(leader)
        work = await get(leader, "analytics/workload?namespace=shop")
        (row,) = work["rows"]
        assert (row["key"], row["queues"], row["window"]["pushMessages"]) == ("shop", 1, 3)
        assert row["now"]["pending"] == 1
        assert len(row["series"]["push"]) == len(work["buckets"]) == 61
        assert row["series"]["push"][0] is None
        assert work["tenant"]["window"]["pushMessages"] == 4
        by_queue = await get(leader, "analytics/workload?groupBy=queue&namespace=")
        assert [(row["key"], row["task"]) for row in by_queue["rows"]] == [("other", "")]
        await get(leader, "analytics/workload?groupBy=color", 400)
        workers = await get(leader, "analytics/worker-metrics")
        assert (workers["summary"]["pushMessages"], workers["timeSeries"][0]["dlqCount"]) == (4, 1)
        system = await get(leader, "analytics/system-metrics")
        assert system["replicas"][0]["timeSeries"][0]["metrics"]["memory"]["rss_bytes_max"]["last"]

    run_virtual(scenario, size=1)


def test_dead_letters_are_counted_by_what_they_have_in_common() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await some_traffic(leader)
        body = await get(leader, "analytics/dlq-signatures?queue=shop.mail")
        assert (body["rowsNow"], body["sample"], body["groups"]) == (1, 1, ["__QUEUE_MODE__"])
        signature = {"text": "job <id> failed <n> times", "n": 1, "share": 1.0}
        assert body["signatures"] == [signature]
        await get(leader, "analytics/dlq-signatures", 400)
        live = await get(leader, "analytics/partition-liveness")
        assert [(row["queue"], row["live1h"]) for row in live["rows"]] == [
            ("other", 1),
            ("shop.mail", 1),
        ]

    run_virtual(scenario, size=1)


def test_what_retention_took_is_counted_by_rule() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        options = {"queue": "q", "options": {"maxWaitTimeSeconds": 1}}
        await leader.call("POST", "/api/v1/configure", options)
        await leader.push("q", "a", "b")
        await trio.sleep(4)
        body = await get(leader, "analytics/retention?groupBy=queue")
        assert (body["totals"]["evictionMsgs"], body["totals"]["totalMsgs"]) == (2, 2)
        assert [(row["key"], row["queues"]) for row in body["rows"]] == [("q", ["q"])]

    run_virtual(scenario, size=1)


def test_waiting_pops_are_a_gauge() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await leader.push("q", "a")
        await leader.pop("q")
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(lambda: leader.pop("q", wait="true", timeout=9000))
            await trio.sleep(8)
            body = await get(leader, "analytics/queue-parked-replicas")
            assert 2 <= body["series"][-1]["parkedCount"] <= 3
            assert body["replicas"] == [{"hostname": leader.name, "workerId": 0}]
            nursery.cancel_scope.cancel()

    run_virtual(scenario, size=1)


def test_a_new_leader_counts_from_nothing() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        await some_traffic(leader)
        leader.stop()
        follower = await cluster.leader()
        assert (await get(follower, "analytics/queue-ops"))["series"] == []
        assert (await get(follower, "status"))["messages"]["total"] == 4

    run_virtual(scenario)


def test_an_unreadable_window_is_refused() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        for target in ("status?from=soon", "analytics/queue-ops?to=x"):
            assert (await get(leader, target, 400))["code"] == "bad_request"
        await get(leader, "analytics/postgres-stats", 404)
        turned = await get(leader, "analytics/workload?from=2100-01-01T00:00:00Z")
        assert len(turned["buckets"]) == 1
        long = await get(leader, "analytics/workload?from=1970-01-01T00:00:00Z")
        assert long["bucketMinutes"] == 360

    run_virtual(scenario, size=1)


def test_minutes_are_kept_for_a_day_and_within_a_number_of_rows() -> None:
    activity = Activity(Machine())
    for minute in range(MINUTES_MAX + 100):
        activity.tally("q", minute * MINUTE_US)
    kept = list(activity.between(0, 1 << 62))
    assert len(kept) == MINUTES_MAX
    for queue in range(60_000):
        activity.tally(f"q{queue}", (MINUTES_MAX + 100 + queue // 20_000) * MINUTE_US)
    activity.tally("q", (MINUTES_MAX + 200) * MINUTE_US)
    assert len(list(activity.between(0, 1 << 62))) <= ROWS_MAX


def test_a_push_of_several_queues_counts_each_once() -> None:
    activity = Activity(Machine())
    items = tuple(PushedItem("i", "t", queue, "queued", 0) for queue in ("a", "b", "a"))
    command = Push("", (PushItem("a", "p", "t", b"1"),))
    activity.note(command, PushReply(items), 0)
    counts = {queue: (t.push_requests, t.push_messages) for _, queue, t in activity.between(0, 1)}
    assert counts == {"a": (1, 2), "b": (1, 1)}


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("connection 3f2a11b2c3d4e5f6 unresolvable", "connection <id> unresolvable"),
        ("at 2026-09-02T12:32:01.813Z and 2026-09-02", "at <date> and <date>"),
        ("tried 3 of 10 times", "tried <n> of <n> times"),
        ("  a\n b  ", "a b"),
        ("x" * 200, "x" * 120),
    ],
)
def test_error_texts_are_folded(text: str, signature: str) -> None:
    assert folded(text) == signature
