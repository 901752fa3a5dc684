"""Every answer that the document states for an operation is given, in the form that it states."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import jsonschema_rs
import pytest

from atleastonce.system.http.openapi import OPERATIONS, document

from .wire import Json, Wire

DOCUMENT: dict[str, Any] = json.loads(document("0"))
REFUSALS = {400, 401, 403, 408, 413, 429, 431, 503, 507}
EMPTY = b""

Say = Callable[..., Any]


def operation_of(method: str, path: str) -> str:
    """The template of the described operation that a path belongs to; literal parts first."""
    parts = path.split("/")
    fitting = []
    for operation in OPERATIONS:
        own = operation.path.split("/")
        given = parts
        if own[-1] == "{key}":
            given = [*parts[: len(own) - 1], "/".join(parts[len(own) - 1 :])]
        if operation.method == method and len(own) == len(given):
            pairs = list(zip(own, given, strict=True))
            if all(mine.startswith("{") or mine == theirs for mine, theirs in pairs):
                fitting.append((sum(mine.startswith("{") for mine in own), operation.path))
    return min(fitting)[1]


def undescribed(schema: dict[str, Any], value: Any, where: str = "") -> list[str]:
    """Fields of an answer that its schema, or the fitting one of several, does not name."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return undescribed(DOCUMENT["components"]["schemas"][name], value, where)
    if "anyOf" in schema:
        return min((undescribed(each, value, where) for each in schema["anyOf"]), key=len)
    found: list[str] = []
    if isinstance(value, list):
        for item in value if "items" in schema else []:
            found += undescribed(schema["items"], item, f"{where}[]")
    elif isinstance(value, dict) and "properties" in schema:
        for name, item in value.items():
            if name in schema["properties"]:
                found += undescribed(schema["properties"][name], item, f"{where}.{name}")
            else:
                found.append(f"{where}.{name}")
    elif isinstance(value, dict) and isinstance(schema.get("additionalProperties"), dict):
        for name, item in value.items():
            found += undescribed(schema["additionalProperties"], item, f"{where}.{name}")
    return found


class Conversation:
    """Sends requests and holds the answers against the document."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.seen: set[tuple[str, str, int]] = set()
        self.said: list[tuple[str, str, Json | bytes]] = []

    def say(self, method: str, target: str, body: Json | bytes = EMPTY, status: int = 200) -> Any:
        """The parsed answer, which must have this status and the form that is stated for it."""
        path = operation_of(method, target.partition("?")[0])
        self.said.append((method, target, body))
        answer = self.wire.send(method, target, body)
        assert answer.status == status, (method, target, answer)
        stated = DOCUMENT["paths"][path][method.lower()]["responses"][str(status)]
        self.seen.add((method, path, status))
        if "content" not in stated:
            assert answer.body == b""
            return None
        parsed = json.loads(answer.body)
        schema = stated["content"][answer.content_type]["schema"]
        jsonschema_rs.validate({**schema, "components": DOCUMENT["components"]}, parsed)
        assert undescribed(schema, parsed) == [], f"{method} {path} answers more than is stated"
        return parsed


def messages(say: Say) -> None:
    items: list[Json] = [{"queue": "q", "payload": n, "transactionId": f"t{n}"} for n in range(6)]
    say("POST", "/api/v1/push", {"items": items}, 201)
    popped = say("GET", "/api/v1/pop/queue/q?batch=2&consumerGroup=g&subscriptionMode=all")
    lease = popped["leaseId"]
    first, second = popped["messages"]
    address = {"partitionId": first["partitionId"], "leaseId": lease}
    say("POST", f"/api/v1/lease/{lease}/extend", {"seconds": 20})
    say("POST", "/api/v1/lease/none/extend")
    ack = {**address, "transactionId": first["transactionId"], "consumerGroup": "g"}
    say("POST", "/api/v1/ack", ack)
    dead = {**address, "transactionId": second["transactionId"], "status": "dlq", "error": "bad"}
    say("POST", "/api/v1/ack/batch", {"consumerGroup": "g", "acknowledgments": [dead]})
    say("GET", "/api/v1/pop/queue/q/partition/Default?consumerGroup=g&autoAck=true&batch=1")
    say("GET", "/api/v1/pop/queue/q/partition/none", status=204)
    say("GET", "/api/v1/pop/queue/void", status=204)
    say(
        "POST", "/api/v1/configure", {"queue": "a.b", "namespace": "a", "options": {"leaseTime": 9}}
    )
    say("POST", "/api/v1/push", {"items": [{"queue": "a.b", "payload": None}]}, 201)
    say("GET", "/api/v1/pop?namespace=a&autopilot=true")
    say("GET", "/api/v1/pop?namespace=a", status=204)
    say("GET", "/api/v1/pop", status=400)
    entries: list[Json] = [{"queue": "q", "offset": 0}, {"queue": "none"}]
    say("POST", "/api/v1/fetch", {"entries": entries})
    say("POST", "/api/v1/partitions/changed", {"entries": [{"queue": "q"}, {"queue": "none"}]})


def bundles(say: Say) -> None:
    schedule: dict[str, Json] = {
        "op": "schedule", "queue": "q", "timerKey": "a/b", "delayMs": 1000, "txn": "x",
        "payload": "MQ==",
    }  # fmt: skip
    put: Json = {"op": "put", "ns": "n", "key": "k", "value": 1, "forever": True}
    push: Json = {"type": "push", "items": [{"queue": "q", "payload": 1, "transactionId": "u"}]}
    get: Json = {"op": "get", "ns": "n", "key": "k"}
    position: Json = {"queue": "q", "consumerGroup": "p", "offset": 1, "metadata": "mine"}
    body: Json = {"operations": [push], "kv": [put, get], "timers": [schedule]}
    say("POST", "/api/v1/transaction", {"positions": [position]})
    conflated = say("GET", "/api/v1/pop/queue/q?consumerGroup=c&conflation=true")
    assert conflated["conflation"]
    say("POST", "/api/v1/transaction", body)
    assert not say("POST", "/api/v1/transaction", {"operations": [push]})["success"]
    check: Json = {"op": "check", "ns": "n", "key": "k", "expect": 77, "required": True}
    assert say("POST", "/api/v1/transaction", {"operations": [], "kv": [check]})["ok"] is False
    say("POST", "/api/v1/timers", {"operations": [{**schedule, "timerKey": "c"}]})
    say("GET", "/api/v1/timers/q")
    say("GET", "/api/v1/timers/q?mode=count")
    assert say("GET", "/api/v1/timers/q/a/b")["found"]
    assert not say("GET", "/api/v1/timers/q/none")["found"]
    say("DELETE", "/api/v1/timers/q/a/b")
    say("DELETE", "/api/v1/timers/q/none")


def state(say: Say) -> None:
    at: dict[str, Json] = {"ns": "n", "key": "k"}
    kv: list[Json] = [
        {"op": "put", **at, "value": 1, "ttlSeconds": 9},
        {"op": "putIfAbsent", **at, "value": 1, "forever": True},
        {"op": "incr", **at, "delta": 2, "forever": True},
        {"op": "get", **at},
        {"op": "getMany", "ns": "n", "keys": ["k", "none"]},
        {"op": "getPrefix", "ns": "n", "prefix": "k", "limit": 1},
        {"op": "check", **at, "expect": 1},
        {"op": "delete", **at},
    ]
    say("POST", "/api/v1/kv", {"operations": kv})
    lost: list[Json] = [{"op": "check", **at, "expect": 77, "required": True}]
    assert say("POST", "/api/v1/kv", {"operations": lost})["ok"] is False
    say("PUT", "/api/v1/kv/n/a/b", {"value": {"x": 1}, "forever": True})
    say("GET", "/api/v1/kv/n/a/b")
    say("DELETE", "/api/v1/kv/n/a/b?expect=1")
    acquire: dict[str, Json] = {"op": "acquire", "name": "l", "ttlSeconds": 9, "owner": "o"}
    permit = say("POST", "/api/v1/locks", {"operations": [acquire]})["results"][0]
    locks: list[Json] = [
        {**acquire, "owner": "other"},
        {"op": "renew", "name": "l", "token": permit["token"], "ttlSeconds": 9},
        {"op": "get", "name": "l"},
        {"op": "release", "name": "l", "token": permit["token"]},
    ]
    say("POST", "/api/v1/locks", {"operations": locks})
    query: dict[str, Json] = {"name": "s", "config_hash": "h"}
    registered = say("POST", "/streams/v1/queries", query)
    say("POST", "/streams/v1/queries", {**query, "config_hash": "i"}, 409)
    where: dict[str, Json] = {"query_id": registered["query_id"], "partition_id": "1"}
    upsert: Json = {"type": "upsert", "key": "k", "value": 1}
    assert say("POST", "/streams/v1/cycle", {**where, "state_ops": [upsert]})["success"]
    assert not say("POST", "/streams/v1/cycle", {**where, "query_id": "none"})["success"]
    say("POST", "/streams/v1/state/get", where)


def inspection(say: Say) -> None:
    for path in ("resources/queues", "status/queues"):
        say("GET", f"/api/v1/{path}?namespace=a")
        say("GET", f"/api/v1/{path}/q")
        say("GET", f"/api/v1/{path}/none", status=404)
    say("GET", "/api/v1/resources/queues/q/depth?group=g")
    say("GET", "/api/v1/resources/queues/none/depth", status=404)
    say("GET", "/api/v1/resources/namespaces")
    say("GET", "/api/v1/resources/tasks")
    say("POST", "/api/v1/stats/refresh")
    groups = "/api/v1/consumer-groups"
    for path in ("", "/g", "/lagging?minLagSeconds=1"):
        say("GET", f"{groups}{path}")
    say("GET", f"{groups}/none", status=404)
    say("POST", f"{groups}/positions", {"consumerGroup": "g"})
    letter = say("GET", "/api/v1/dlq?queue=q")["messages"][0]
    at = f"/api/v1/messages/{letter['partitionId']}"
    say("GET", "/api/v1/messages?queue=q")
    say("GET", f"{at}/t1")
    say("GET", f"{at}/none", status=404)
    trace = {"transactionId": "t1", "partitionId": letter["partitionId"], "traceNames": ["n"]}
    say("POST", "/api/v1/traces", trace, 201)
    for path in ("names", "by-name/n", f"{letter['partitionId']}/t1"):
        say("GET", f"/api/v1/traces/{path}")
    say("POST", f"{at}/t1/retry")
    say("POST", f"{at}/t1/retry", status=404)
    say("POST", "/api/v1/dlq/none/replay", status=404)
    say("DELETE", f"{at}/none", status=404)


def removal(say: Say) -> None:
    for name in ("v1", "v2", "v3"):
        say("POST", "/api/v1/push", {"items": [{"queue": "r", "payload": name}]}, 201)
        message = say("GET", "/api/v1/pop/queue/r")["messages"][0]
        ids = {key: message[key] for key in ("transactionId", "partitionId", "leaseId")}
        say("POST", "/api/v1/ack", {**ids, "status": "dlq"})
    letters = say("GET", "/api/v1/dlq?queue=r")["messages"]
    say("POST", f"/api/v1/dlq/{letters[0]['id']}/replay", {})
    say("DELETE", f"/api/v1/messages/{letters[1]['partitionId']}/{letters[1]['transactionId']}")
    say("DELETE", "/api/v1/dlq?queue=r")
    groups = "/api/v1/consumer-groups/g"
    say("POST", f"{groups}/subscription", {"subscriptionTimestamp": "2026-01-01T00:00:00Z"})
    say("POST", f"{groups}/queues/q/seek", {"toEnd": True})
    say("POST", f"{groups}/queues/q/seek", {"timestamp": "2026-01-01T00:00:00Z"})
    say("POST", f"{groups}/queues/none/seek", {"toEnd": True}, 404)
    say("POST", f"{groups}/queues/q/partitions/Default/seek")
    say("POST", f"{groups}/queues/q/partitions/none/seek", status=404)
    say("DELETE", f"{groups}/queues/q")
    say("DELETE", f"{groups}?deleteMetadata=true")
    say("DELETE", "/api/v1/resources/queues/q")
    say("DELETE", "/api/v1/resources/queues/none")


def reports(say: Say) -> None:
    entries: list[Json] = [{"queue": "q", "partition": "Default", "timestamp": 0}]
    say("POST", "/api/v1/fetch/offsets", {"entries": [*entries, {"queue": "none", "timestamp": 0}]})
    for path in ("overview", "partitions?queue=q&limit=2"):
        say("GET", f"/api/v1/resources/{path}")
    for path in ("status", "status/analytics?interval=minute"):
        say("GET", f"/api/v1/{path}")
    for name in ("queue-lag", "queue-ops", "queue-parked-replicas", "retention", "workload"):
        say("GET", f"/api/v1/analytics/{name}?queue=q")
    for name in ("dlq-signatures?queue=q", "partition-liveness", "system-metrics"):
        say("GET", f"/api/v1/analytics/{name}")
    say("GET", "/api/v1/analytics/worker-metrics?from=2026-01-01T00:00:00Z")


def ephemeral(say: Say) -> None:
    base = "/api/v1/ephemeral"
    window: Json = {"ms": 5, "count": 2}
    options: Json = {"maxLength": 9, "policy": "dropOldest", "windowBuffer": window}
    say("POST", f"{base}/configure", {"queue": "e", "options": options}, 201)
    say("POST", f"{base}/push", {"queue": "e", "messages": [{"payload": {"n": 1}}]}, 201)
    message = say("GET", f"{base}/pop?queue=e&group=g")["messages"][0]
    acks: list[Json] = [{"id": message["id"], "status": "retry"}, {"id": "e:old:p:0"}]
    say("POST", f"{base}/ack", {"queue": "e", "group": "g", "acks": acks})
    say("GET", f"{base}/queues")
    say("GET", f"{base}/queues/e/depth?group=g")
    say("GET", f"{base}/queues/none/depth", status=404)
    say("POST", f"{base}/reset", {"queue": "e"})
    say("DELETE", f"{base}/queue/e")


CHAPTERS = (messages, bundles, state, inspection, reports, ephemeral, removal)


@pytest.fixture(scope="module")
def conversation() -> Conversation:
    held = Conversation()
    for chapter in CHAPTERS:
        chapter(held.say)
    return held


def stated_answers() -> Iterator[tuple[str, str, int]]:
    """Every answer of a leader's state machine that is no plain refusal."""
    for operation in OPERATIONS:
        # What concerns the cluster is answered by its consensus, which only real nodes have.
        if operation.reach == "leader" and not operation.path.startswith("/api/v1/cluster/"):
            for status in operation.answers:
                if status not in REFUSALS:
                    yield operation.method, operation.path, status


@pytest.mark.parametrize(("method", "path", "status"), list(stated_answers()))
def test_a_stated_answer_is_given_in_its_form(
    conversation: Conversation, method: str, path: str, status: int
) -> None:
    assert (method, path, status) in conversation.seen
