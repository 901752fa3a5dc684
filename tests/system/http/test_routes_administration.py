"""Groups, dead letters, messages, traces, queues and discovery on the wire."""

from __future__ import annotations

import json

import pytest

from .wire import Json, Wire, objects

GROUP = "/api/v1/consumer-groups/g"


def dead_letter(wire: Wire, name: str = "a") -> dict[str, Json]:
    """Push a message and let a consumer give up on it; its row in the list."""
    wire.push(name)
    (message,) = wire.pop()
    wire.ack(message, status="dlq", error="poison")
    return wire.records_of_dlq()[0]


def test_deleting_a_group_answers_what_went(wire: Wire) -> None:
    wire.push("a")
    wire.pop(consumerGroup="g", subscriptionMode="all")
    assert wire.record("DELETE", f"{GROUP}/queues/q?deleteMetadata=false") == {
        "success": True,
        "consumerGroup": "g",
        "deletedPartitions": 1,
        "metadataDeleted": False,
        "queueName": "q",
    }
    assert wire.record("DELETE", f"{GROUP}?deleteMetadata=true")["metadataDeleted"] is True
    assert wire.record("DELETE", f"{GROUP}?deleteMetadata=true") == {
        "success": True,
        "consumerGroup": "g",
        "deletedPartitions": 0,
        "metadataDeleted": False,
    }


def test_seek_moves_to_an_instant_or_to_the_end(wire: Wire) -> None:
    wire.push("a")
    target = f"{GROUP}/queues/q/seek"
    assert wire.record("POST", target, {"toEnd": True}) == {
        "success": True,
        "consumerGroup": "g",
        "queueName": "q",
        "seekToEnd": True,
        "targetTimestamp": None,
        "partitionsUpdated": 1,
    }
    assert wire.pop(consumerGroup="g") == []
    back = wire.record("POST", target, {"timestamp": "2020-01-01T00:00:00Z"})
    assert (back["seekToEnd"], back["partitionsUpdated"]) == (False, 1)
    assert len(wire.pop(consumerGroup="g")) == 1


def test_seek_of_one_partition_needs_no_body(wire: Wire) -> None:
    wire.push("a")
    single = wire.record("POST", f"{GROUP}/queues/q/partitions/p/seek")
    assert (single["updated"], single["partition"], single["seekToEnd"]) == (True, "p", True)


@pytest.mark.parametrize("body", [b"", {}, {"toEnd": False}, {"timestamp": "yesterday"}])
def test_seek_without_a_place_is_400(wire: Wire, body: Json | bytes) -> None:
    assert wire.send("POST", f"{GROUP}/queues/q/seek", body).status == 400


def test_seek_where_nothing_is_is_404(wire: Wire) -> None:
    for target in (f"{GROUP}/queues/q/seek", f"{GROUP}/queues/q/partitions/p/seek"):
        assert wire.record("POST", target, {"toEnd": True}, 404)["code"] == "not_found"


def test_a_subscription_is_moved_to_an_instant(wire: Wire) -> None:
    wire.push("a")
    wire.pop(consumerGroup="g")
    body: Json = {"subscriptionTimestamp": "2020-01-01T00:00:00Z"}
    assert wire.record("POST", f"{GROUP}/subscription", body) == {
        "success": True,
        "consumerGroup": "g",
        "newTimestamp": "2020-01-01T00:00:00.000000Z",
        "rowsUpdated": 1,
    }
    assert len(wire.pop(consumerGroup="g")) == 1
    assert wire.send("POST", f"{GROUP}/subscription", {}).status == 400


def test_groups_are_listed_shown_and_found_when_they_lag(wire: Wire) -> None:
    wire.push("a", "b")
    wire.pop(consumerGroup="g", subscriptionMode="all", batch=1)
    wire.clock_us += 90_000_000
    (listed,) = wire.records("GET", "/api/v1/consumer-groups")
    assert (listed["name"], listed["totalLag"], listed["maxTimeLag"]) == ("g", 2, 90)
    shown = wire.record("GET", GROUP)["q"]
    assert shown == listed
    (lagging,) = wire.records("GET", "/api/v1/consumer-groups/lagging?minLagSeconds=90")
    assert (lagging["consumer_group"], lagging["lag_seconds"]) == ("g", 90)
    assert wire.records("GET", "/api/v1/consumer-groups/lagging?minLagSeconds=91") == []
    assert wire.send("GET", "/api/v1/consumer-groups/h").status == 404


def test_a_replay_moves_a_dead_letter_to_the_tail(wire: Wire) -> None:
    letter = dead_letter(wire)
    body = wire.record("POST", f"/api/v1/dlq/{letter['id']}/replay")
    pushed = body.pop("replayedAs")
    assert isinstance(pushed, dict)
    assert (pushed["transaction_id"], pushed["status"]) == (f"dlq:{letter['id']}", "queued")
    assert body == {
        "success": True,
        "result": "moved",
        "queue": "q",
        "partition": "p",
        "consumerGroup": "__QUEUE_MODE__",
        "dlqId": letter["id"],
        "originalTransactionId": "a",
        "dlqRowRemoved": True,
    }
    assert len(wire.pop()) == 1
    gone = wire.record("POST", f"/api/v1/dlq/{letter['id']}/replay", {}, 404)
    assert gone["result"] == "gone"


def test_a_retry_by_address_is_the_replay_of_its_newest_dead_letter(wire: Wire) -> None:
    letter = dead_letter(wire)
    target = f"/api/v1/messages/{letter['partitionId']}/a/retry"
    assert wire.record("POST", target)["dlqId"] == letter["id"]
    assert wire.send("POST", target).status == 404


def test_a_purge_needs_a_queue_and_counts(wire: Wire) -> None:
    dead_letter(wire)
    assert wire.send("DELETE", "/api/v1/dlq").status == 400
    assert wire.record("DELETE", "/api/v1/dlq?queue=q&consumerGroup=g")["deleted"] == 0
    assert wire.record("DELETE", "/api/v1/dlq?queue=q") == {
        "success": True,
        "deleted": 1,
        "queue": "q",
        "consumerGroup": None,
    }


def test_a_message_is_shown_with_what_each_group_did(wire: Wire) -> None:
    (pushed,) = wire.push("a")
    (message,) = wire.pop(consumerGroup="g", subscriptionMode="all", autoAck="true")
    shown = wire.record("GET", f"/api/v1/messages/{message['partitionId']}/a")
    assert shown["consumerGroups"] == [
        {"name": "g", "group": "g", "consumed": True, "leaseExpiresAt": None}
    ]
    assert (shown["id"], shown["status"], shown["queue"]) == (
        pushed["message_id"],
        "completed",
        "q",
    )
    assert shown["data"] == shown["payload"] == {"n": "a"}
    assert wire.send("GET", "/api/v1/messages/1/x").status == 404


def test_a_dead_letter_is_shown_with_its_error(wire: Wire) -> None:
    letter = dead_letter(wire)
    shown = wire.record("GET", f"/api/v1/messages/{letter['partitionId']}/a")
    assert (shown["status"], shown["errorMessage"]) == ("dead_letter", "poison")


def test_messages_are_listed_by_page(wire: Wire) -> None:
    wire.push("a", "b", "c")
    page = wire.record("GET", "/api/v1/messages?queue=q&limit=2&offset=1")
    assert [row["transactionId"] for row in objects(page["messages"])] == ["b", "a"]
    assert page["pagination"] == {"limit": 2, "offset": 1}
    assert wire.send("GET", "/api/v1/messages?from=soon").status == 400


def test_a_trace_is_kept_and_found(wire: Wire) -> None:
    body: dict[str, Json] = {
        "transactionId": "a",
        "partitionId": "1",
        "consumerGroup": None,
        "traceNames": ["one", "two"],
        "eventType": "info",
        "data": {"x": 1},
    }
    added = wire.record("POST", "/api/v1/traces", body, 201)
    for target in ("/api/v1/traces/1/a", "/api/v1/traces/by-name/two"):
        (row,) = objects(wire.record("GET", target)["traces"])
        assert (row["id"], row["data"]) == (added["traceId"], {"x": 1})
    names = objects(wire.record("GET", "/api/v1/traces/names")["traceNames"])
    assert [name["traceName"] for name in names] == ["one", "two"]
    assert wire.send("POST", "/api/v1/traces", {"data": 1}).status == 400


def test_queues_are_listed_and_shown(wire: Wire) -> None:
    body: Json = {"queue": "q", "namespace": "shop", "task": "mail", "options": {"leaseTime": 9}}
    wire.record("POST", "/api/v1/configure", body)
    wire.push("a", "b")
    wire.pop(batch=1)
    for target in ("/api/v1/resources/queues", "/api/v1/status/queues?namespace=shop"):
        (row,) = objects(wire.record("GET", target)["queues"])
        assert (row["name"], row["namespace"], row["partitions"]) == ("q", "shop", 1)
        counts = {"total": 2, "pending": 2, "processing": 1, "completed": 0, "deadLetter": 0}
        assert row["messages"] == counts
    assert wire.record("GET", "/api/v1/resources/queues?task=x")["queues"] == []
    for target in ("/api/v1/resources/queues/q", "/api/v1/status/queues/q"):
        shown = wire.record("GET", target)
        (partition,) = objects(shown["partitions"])
        assert partition["oldestMessage"] == "2027-01-15T08:00:00.000001Z"
        assert isinstance(shown["options"], dict)
        assert shown["options"]["leaseTime"] == 9
    assert wire.send("GET", "/api/v1/status/queues/x").status == 404
    labelled: dict[str, Json] = {
        "queues": 1,
        "partitions": 1,
        "messages": {"total": 2, "pending": 2},
    }
    assert wire.record("GET", "/api/v1/resources/namespaces") == {
        "namespaces": [{"namespace": "shop", "name": "shop", **labelled}]
    }
    assert wire.record("GET", "/api/v1/resources/tasks") == {
        "tasks": [{"task": "mail", "name": "mail", **labelled}]
    }


def test_discovery_names_each_messages_queue_and_never_waits(wire: Wire) -> None:
    wire.push("a", queue="shop.orders")
    wire.push("b", queue="shop.mail")
    answer = wire.send("GET", "/api/v1/pop?namespace=shop&partitions=0&wait=true&timeout=9")
    body = json.loads(answer.body)
    assert body["queue"] == ""
    assert [row["queue"] for row in body["messages"]] == ["shop.orders", "shop.mail"]
    assert wire.send("GET", "/api/v1/pop?namespace=shop&wait=true").status == 204
    assert wire.record("GET", "/api/v1/pop", b"", 400) == {
        "success": False,
        "error": "namespace or task is required",
        "messages": [],
    }


def test_changed_partitions_are_listed_with_where_to_go_on(wire: Wire) -> None:
    for name in "abc":
        wire.push("m", partition=name)
    entry: dict[str, Json] = {"queue": "q", "limit": 2, "since": None}
    body = wire.record("POST", "/api/v1/partitions/changed", {"entries": [entry]})
    (first,) = objects(body["entries"])
    assert first["next"] == "2"
    assert objects(first["partitions"])[0] == {
        "name": "a",
        "id": "1",
        "lastOffset": 0,
        "logStart": 0,
        "lastWriteAt": "2027-01-15T08:00:00.000000Z",
    }
    again: Json = {"entries": [{**entry, "after": "2", "since": body["safeTime"]}, {"queue": "x"}]}
    rest, unknown = objects(wire.record("POST", "/api/v1/partitions/changed", again)["entries"])
    assert ([row["name"] for row in objects(rest["partitions"])], rest["next"]) == (["c"], None)
    assert unknown["error"] == "UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    "entry", [{}, {"queue": "q", "since": "soon"}, {"queue": "q", "after": "x"}]
)
def test_a_malformed_question_about_changes_is_400(wire: Wire, entry: Json) -> None:
    body: Json = {"entries": [entry]}
    assert wire.send("POST", "/api/v1/partitions/changed", body).status == 400
    assert (
        wire.send("POST", "/api/v1/partitions/changed", {"entries": [entry] * 1025}).status == 400
    )


def test_refreshing_counts_is_a_formality(wire: Wire) -> None:
    assert wire.record("POST", "/api/v1/stats/refresh") == {"success": True}
