"""Streaming queries on the wire: registration, state, and cycles that commit whole or not."""

from __future__ import annotations

import pytest

from atleastonce.system.broker.commands import Pop
from atleastonce.system.http.routes import PopRequest, route

from .wire import Json, Wire, objects

LEASED = {"consumerGroup": "g", "subscriptionMode": "all"}


def register(wire: Wire, config_hash: str = "h1", reset: bool = False, status: int = 200) -> Json:
    body: Json = {
        "name": "query",
        "source_queue": "q",
        "sink_queue": None,
        "config_hash": config_hash,
        "reset": reset,
    }
    return wire.record("POST", "/streams/v1/queries", body, status)


def query_id(wire: Wire) -> Json:
    answer = register(wire)
    assert isinstance(answer, dict)
    return answer["query_id"]


def cycle(wire: Wire, query: Json, **fields: Json) -> dict[str, Json]:
    body: Json = {
        "query_id": query,
        "partition_id": "1",
        "consumer_group": "g",
        "state_ops": [],
        "push_items": [],
        "ack": None,
        "release_lease": True,
        **fields,
    }
    return wire.record("POST", "/streams/v1/cycle", body)


def rows(wire: Wire, query: Json, **fields: Json) -> dict[str, Json]:
    body: Json = {"query_id": query, "partition_id": "1", "keys": [], **fields}
    found = objects(wire.record("POST", "/streams/v1/state/get", body)["rows"])
    return {str(row["key"]): row["value"] for row in found}


def upsert(key: str, value: Json) -> Json:
    return {"type": "upsert", "key": key, "value": value}


def ack_of(message: dict[str, Json], **fields: Json) -> Json:
    return {
        "transactionId": message["transactionId"],
        "leaseId": message["leaseId"],
        "status": "completed",
        **fields,
    }


def test_a_query_is_fresh_once_and_then_found_again(wire: Wire) -> None:
    first, again = register(wire), register(wire)
    assert isinstance(first, dict)
    assert isinstance(again, dict)
    assert (first["fresh"], again["fresh"], again["reset"]) == (True, False, False)
    assert first["query_id"] == again["query_id"]
    assert set(first) == {"success", "query_id", "name", "config_hash", "fresh", "reset"}


def test_another_configuration_is_a_conflict_until_it_resets_the_state(wire: Wire) -> None:
    query = query_id(wire)
    cycle(wire, query, state_ops=[upsert("k", 1)])
    refused = register(wire, "h2", status=409)
    assert isinstance(refused, dict)
    assert "config_hash mismatch" in str(refused["error"])
    assert rows(wire, query) == {"k": 1}
    taken = register(wire, "h2", reset=True)
    assert isinstance(taken, dict)
    assert (taken["query_id"], taken["reset"]) == (query, True)
    assert rows(wire, query) == {}
    register(wire, "h2")


def test_state_is_read_by_key_prefix_and_ripeness(wire: Wire) -> None:
    query = query_id(wire)
    operations: list[Json] = [
        upsert("w:1", {"windowEnd": 10}),
        upsert("w:2", {"windowEnd": 20}),
        upsert("w:3", {"windowEnd": "soon"}),
        upsert("other", None),
        upsert("gone", 1),
        {"type": "delete", "key": "gone"},
    ]
    unreadable = b'{"query_id":"%s","partition_id":"1","state_ops":' % str(query).encode()
    unreadable += b'[{"type":"upsert","key":"w:4","value":{"windowEnd":1e400}}]}'
    assert wire.send("POST", "/streams/v1/cycle", unreadable).status == 200
    assert rows(wire, query, ripe_at_or_before=10) == {}
    cycle(wire, query, state_ops=[{"type": "delete", "key": "w:4"}])
    cycle(wire, query, state_ops=operations)
    assert list(rows(wire, query)) == ["other", "w:1", "w:2", "w:3"]
    assert rows(wire, query, keys=["other", "x"]) == {"other": None}
    assert list(rows(wire, query, key_prefix="w:")) == ["w:1", "w:2", "w:3"]
    assert list(rows(wire, query, key_prefix="w:", ripe_at_or_before=10)) == ["w:1"]
    assert rows(wire, query, partition_id="2") == {}


def test_a_cycle_commits_state_pushes_and_the_whole_batch(wire: Wire) -> None:
    wire.push("a", "b")
    messages = wire.pop(**LEASED)
    push: Json = {"queue": "sink", "partition": "p", "payload": {"n": 1}}
    done = cycle(
        wire,
        query_id(wire),
        state_ops=[upsert("k", 1)],
        push_items=[push],
        ack=ack_of(messages[1], count=2),
    )
    assert done == {"success": True, "pushed": 1, "lease_released": True}
    assert [message["data"] for message in wire.pop("sink")] == [{"n": 1}]
    assert wire.pop(**LEASED) == []


def test_a_cycle_that_keeps_the_lease_settles_what_it_counted(wire: Wire) -> None:
    wire.push("a", "b", "c")
    messages = wire.pop(**LEASED)
    query = query_id(wire)
    partly = cycle(wire, query, ack=ack_of(messages[0], count=1), release_lease=False)
    assert partly["lease_released"] is False
    wire.clock_us += 3600 * 1_000_000
    assert [message["transactionId"] for message in wire.pop(**LEASED)] == ["b", "c"]


def test_a_count_beyond_the_batch_settles_the_batch(wire: Wire) -> None:
    wire.push("a", "b")
    messages = wire.pop(**LEASED)
    ack = ack_of(messages[0], count=10**30)
    assert cycle(wire, query_id(wire), ack=ack, release_lease=False)["lease_released"] is True


def test_a_failed_cycle_gives_the_batch_back(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop(**LEASED)
    done = cycle(wire, query_id(wire), ack=ack_of(message, status="failed"))
    assert (done["success"], done["lease_released"]) == (True, True)
    assert len(wire.pop(**LEASED)) == 1


@pytest.mark.parametrize("lease", [None, "", "another"])
def test_a_cycle_without_the_live_lease_leaves_nothing(wire: Wire, lease: Json) -> None:
    wire.push("a")
    (message,) = wire.pop(**LEASED)
    query = query_id(wire)
    push: Json = {"queue": "sink", "payload": 1}
    refused = cycle(
        wire,
        query,
        state_ops=[upsert("k", 1)],
        push_items=[push],
        ack=ack_of(message, leaseId=lease),
    )
    assert (refused["success"], refused["error"]) == (False, "invalid or expired lease")
    assert rows(wire, query) == {}
    assert wire.pop("sink") == []


def test_an_unknown_query_or_consumer_is_refused_by_name(wire: Wire) -> None:
    assert cycle(wire, "nobody")["error"] == "unknown query_id"
    wire.push("a")
    ack: Json = {"transactionId": "a", "leaseId": "x", "status": "completed", "count": 1}
    assert cycle(wire, query_id(wire), ack=ack)["error"] == "consumer not found"


def test_a_repeated_cycle_gets_its_first_answer(wire: Wire) -> None:
    query = query_id(wire)
    body: Json = {
        "query_id": query,
        "partition_id": 1,
        "push_items": [{"queue": "sink", "payload": 1}],
    }
    first = wire.send("POST", "/streams/v1/cycle", body, request_id="same")
    assert wire.send("POST", "/streams/v1/cycle", body, request_id="same") == first
    assert len(wire.pop("sink")) == 1


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("queries", {"name": "", "config_hash": "h"}),
        ("queries", {"name": "n"}),
        ("state/get", {"query_id": "x"}),
        ("cycle", {"query_id": "x"}),
        ("cycle", {"query_id": "x", "partition_id": "1", "state_ops": [{"type": "y", "key": "k"}]}),
        ("cycle", {"query_id": "x", "partition_id": "1", "push_items": [{"queue": "q"}]}),
    ],
)
def test_a_malformed_streams_request_is_400(wire: Wire, target: str, body: Json) -> None:
    assert wire.send("POST", f"/streams/v1/{target}", body).status == 400


@pytest.mark.parametrize(
    ("query", "mode", "expected"),
    [("", "all", "all"), ("", "new", "new"), ("?subscriptionMode=new", "all", "new")],
)
def test_a_group_that_does_not_say_begins_where_the_node_says(
    query: str, mode: str, expected: str
) -> None:
    request = route("GET", f"/api/v1/pop/queue/q{query}", {}, b"", "id", None, mode)
    assert isinstance(request, PopRequest)
    assert isinstance(request.command, Pop)
    assert request.command.subscribe == expected
