"""What a client may name, and how long; what is longer is refused before it is remembered."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .wire import Json, Wire

LONG = "é" * 512
TOO_LONG = LONG + "x"


def push(**fields: Json) -> Json:
    return {"items": [{"queue": "q", "payload": 1, **fields}]}


def timer(**fields: Json) -> Json:
    schedule: dict[str, Json] = {
        "op": "schedule", "queue": "q", "timerKey": "k", "delayMs": 1, "txn": "t",
        "payload": "MQ==",
    }  # fmt: skip
    return {"operations": [{**schedule, **fields}]}


def bundle(**fields: Json) -> Json:
    push_one: dict[str, Json] = {"type": "push", "queue": "q", "payload": 1}
    return {"operations": [{**push_one, **fields}]}


def cycle(**fields: Json) -> Json:
    return {"query_id": "1", "partition_id": "1", **fields}


def trace(**fields: Json) -> Json:
    return {"transactionId": "t", "partitionId": "1", **fields}


def named(name: str) -> dict[str, tuple[str, Json]]:
    """Requests with a name in each place where the broker would keep it."""
    item: Json = {"queue": "q", "payload": 1, "transactionId": name}
    operation: Json = {"type": "upsert", "key": name, "value": 1}
    return {
        "transaction id": ("push", push(transactionId=name)),
        "transaction id in a bundle": ("transaction", bundle(transactionId=name)),
        "trace id in a bundle": ("transaction", bundle(traceId=name)),
        "timer key": ("timers", timer(timerKey=name)),
        "timer's transaction id": ("timers", timer(txn=name)),
        "namespace": ("configure", {"queue": "q", "namespace": name}),
        "task": ("configure", {"queue": "q", "task": name}),
        "trace's name": ("traces", trace(traceNames=["short", name])),
        "trace's type": ("traces", trace(eventType=name)),
        "query": ("/streams/v1/queries", {"name": name, "config_hash": "h"}),
        "query's hash": ("/streams/v1/queries", {"name": "n", "config_hash": name}),
        "state's key": ("/streams/v1/cycle", cycle(state_ops=[operation])),
        "pushed by a cycle": ("/streams/v1/cycle", cycle(push_items=[item])),
    }


def send(route: str, body: Json) -> tuple[int, Any]:
    target = route if route.startswith("/") else f"/api/v1/{route}"
    answer = Wire().send("POST", target, body)
    return answer.status, json.loads(answer.body)


@pytest.mark.parametrize("place", named(""))
def test_an_id_of_1024_bytes_is_taken_and_a_longer_one_is_413(place: str) -> None:
    route, body = named(LONG)[place]
    assert send(route, body)[0] in (200, 201)
    route, body = named(TOO_LONG)[place]
    status, said = send(route, body)
    assert (status, said["code"]) == (413, "name_too_long")
    assert "takes 1025 bytes; at most 1024" in said["error"]
    assert TOO_LONG not in said["error"]


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/api/v1/push", push(partition="p" * 411)),
        ("GET", f"/api/v1/pop/queue/{'q' * 412}", b""),
        ("GET", f"/api/v1/pop/queue/q/partition/{'p' * 411}", b""),
        ("GET", f"/api/v1/pop/queue/q?consumerGroup={'g' * 411}", b""),
        ("POST", "/api/v1/configure", {"queue": "q" * 412}),
        ("POST", "/api/v1/timers", timer(partition="p" * 411)),
        ("POST", f"/api/v1/consumer-groups/{'g' * 411}/queues/q/seek", {"toEnd": True}),
    ],
)
def test_queue_and_partition_or_group_share_411_bytes(
    method: str, target: str, body: Json | bytes
) -> None:
    answer = Wire().send(method, target, body)
    assert answer.status == 413
    assert json.loads(answer.body)["code"] == "name_too_long"


def test_a_dead_letters_error_is_cut() -> None:
    wire = Wire()
    wire.push("a")
    popped: Any = wire.record("GET", "/api/v1/pop/queue/q")
    message = popped["messages"][0]
    ids = {key: message[key] for key in ("transactionId", "partitionId", "leaseId")}
    wire.json("POST", "/api/v1/ack", {**ids, "status": "dlq", "error": "x" * 100_000})
    letters: Any = wire.record("GET", "/api/v1/dlq?queue=q")["messages"]
    assert letters[0]["errorMessage"] == "x" * 8192
