"""Configure, deletions, depth, dead letters, fetch and unknown routes on the wire."""

from __future__ import annotations

import json

import pytest

from atleastonce.system.http.routes import (
    Answer,
    FetchRequest,
    Local,
    empty_pop_answer,
    error_answer,
    route,
)
from atleastonce.system.http.timestamps import parse_rfc3339, rfc3339

from .wire import Json, Wire, objects

FAR = 2**62 - 1


def configure(wire: Wire, **body: Json) -> dict[str, Json]:
    return wire.record("POST", "/api/v1/configure", {"queue": "q", **body})


def fetch(wire: Wire, *entries: Json, **fields: Json) -> list[dict[str, Json]]:
    body: Json = {"entries": [*entries], **fields}
    return objects(wire.record("POST", "/api/v1/fetch", body)["entries"])


def test_configure_answers_all_effective_options(wire: Wire) -> None:
    body = configure(wire, options={"leaseTime": 5, "color": "red", "priority": 2, "maxSize": 9})
    options = body.pop("options")
    assert isinstance(options, dict)
    assert (options["leaseTime"], options["priority"], options["maxSize"]) == (5, 2, 9)
    assert (options["retryLimit"], options["deadLetterQueue"], len(options)) == (3, True, 17)
    assert "color" not in options
    assert body.pop("queueId")
    assert body == {
        "configured": True,
        "partitionId": None,
        "queue": "q",
        "namespace": "",
        "task": "",
        "storage": "segments",
    }


def test_options_may_stand_beside_the_queue(wire: Wire) -> None:
    options = configure(wire, leaseTime=7.0, namespace="n", task=None)["options"]
    assert isinstance(options, dict)
    assert options["leaseTime"] == 7


def test_replace_mode_and_nulls_restore_defaults(wire: Wire) -> None:
    configure(wire, options={"priority": 5, "maxSize": 5})
    kept = configure(wire, options={"priority": None})["options"]
    replaced = configure(wire, options={"priority": 1}, mode="replace")["options"]
    assert isinstance(kept, dict)
    assert isinstance(replaced, dict)
    assert (kept["priority"], kept["maxSize"]) == (0, 5)
    assert (replaced["priority"], replaced["maxSize"]) == (1, 0)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"queue": ""},
        {"queue": 7},
        {"queue": "q", "options": [1]},
        {"queue": "q", "mode": "mangle"},
        {"queue": "q", "leaseTime": -1},
        {"queue": "q", "leaseTime": "5"},
        {"queue": "q", "leaseTime": True},
        {"queue": "q", "leaseTime": 1.5},
        {"queue": "q", "leaseTime": 10**30},
        {"queue": "q", "retentionEnabled": 1},
        {"queue": "q", "namespace": 1},
    ],
)
def test_a_bad_configure_is_400_and_names_the_value(wire: Wire, body: Json) -> None:
    record = wire.record("POST", "/api/v1/configure", body, 400)
    assert record["code"] == "bad_request"


def test_deleting_a_queue_tells_whether_it_existed(wire: Wire) -> None:
    wire.push("a")
    path = "/api/v1/resources/queues/q"
    assert wire.json("DELETE", path) == {"deleted": True, "queue": "q", "existed": True}
    again = wire.record("DELETE", path)
    assert (again["deleted"], again["existed"]) == (False, False)
    assert again["message"]


def test_depth_answers_integers_for_queue_and_partitions(wire: Wire) -> None:
    wire.push("a", "b", "c")
    wire.push("d", partition="r")
    wire.pop(batch=2, consumerGroup="g", subscriptionMode="all")
    assert wire.json("GET", "/api/v1/resources/queues/q/depth?group=g") == {
        "queue": "q",
        "group": "g",
        "pending": 4,
        "processing": 2,
        "ready": 2,
        "partitionsPending": 2,
        "partitionsReady": 2,
        "conflation": False,
        "effectivePending": 4,
        "effectiveReady": 2,
        "partitions": [
            {"partition": "p", "pending": 3, "processing": 2, "ready": 1},
            {"partition": "r", "pending": 1, "processing": 0, "ready": 1},
        ],
    }


def test_depth_of_an_unknown_queue_is_404_with_another_code_than_no_such_route(wire: Wire) -> None:
    record = wire.record("GET", "/api/v1/resources/queues/none/depth", b"", 404)
    assert record["error"] == "Queue not found"
    assert record["code"] != "no_such_route"


def test_dead_letters_answer_the_documented_shape(wire: Wire) -> None:
    wire.push("a", "b")
    for name in ("a", "b"):
        (message,) = wire.pop(batch=1)
        assert wire.ack(message, status="dlq", error=f"bad {name}")["dlq"] is True
    body = wire.record("GET", "/api/v1/dlq?queue=q&limit=1&offset=0")
    assert (body["pagination"], body["total"]) == ({"limit": 1, "offset": 0}, 1)
    (letter,) = objects(body["messages"])
    assert set(letter) == {
        "id",
        "transactionId",
        "partitionId",
        "queue",
        "partition",
        "consumerGroup",
        "errorMessage",
        "retryCount",
        "data",
        "producerSub",
        "createdAt",
        "failedAt",
    }
    assert (letter["transactionId"], letter["errorMessage"]) == ("b", "bad b")
    assert (letter["data"], letter["consumerGroup"]) == ({"n": "b"}, "__QUEUE_MODE__")
    assert wire.records_of_dlq("queue=other") == []
    assert len(wire.records_of_dlq()) == 2
    assert wire.records_of_dlq("from=2999-01-01T00:00:00Z") == []


def test_a_dead_letter_is_deleted_by_its_address_once(wire: Wire) -> None:
    wire.push("a/b")
    (message,) = wire.pop()
    wire.ack(message, status="dlq")
    path = f"/api/v1/messages/{message['partitionId']}/a%2Fb"
    assert wire.record("DELETE", path)["success"] is True
    assert wire.record("DELETE", path, b"", 404)["error"]
    assert wire.records_of_dlq() == []


def test_fetch_answers_records_and_bounds(wire: Wire) -> None:
    wire.push("a", "b")
    (entry,) = fetch(wire, {"queue": "q", "partition": "p", "offset": 1, "maxBytes": None})
    (record,) = objects(entry["records"])
    assert (record["offset"], record["transactionId"], record["payload"]) == (1, "b", {"n": "b"})
    assert str(record["ts"]).endswith("Z")
    assert (entry["highWatermark"], entry["logStartOffset"], "error" in entry) == (2, 0, False)


def test_fetch_errors_come_with_their_entry(wire: Wire) -> None:
    wire.push("a")
    above, missing, unwritten = fetch(
        wire,
        {"queue": "q", "partition": "p", "offset": FAR},
        {"queue": "none", "offset": 0},
        {"queue": "q", "partition": "unwritten", "offset": FAR},
    )
    assert (above["error"], above["highWatermark"]) == ("OFFSET_OUT_OF_RANGE", 1)
    assert (missing["error"], missing["partition"]) == ("UNKNOWN_TOPIC_OR_PARTITION", "Default")
    assert "error" not in unwritten


def test_fetch_is_a_local_read_with_a_bounded_wait() -> None:
    body = json.dumps({"entries": [], "maxWaitMs": 10**9, "maxBytes": 10**12}).encode()
    request = route("POST", "/api/v1/fetch", {}, body, "id")
    assert isinstance(request, FetchRequest)
    assert (request.max_wait_ms, request.query.max_bytes) == (30_000, 8 << 20)


def test_fetch_takes_at_most_1024_entries(wire: Wire) -> None:
    entries: list[Json] = [{"queue": "q", "offset": 0}] * 1025
    assert wire.send("POST", "/api/v1/fetch", {"entries": entries}).status == 400
    assert wire.send("POST", "/api/v1/fetch", {"entries": entries[1:]}).status == 200


def offsets(wire: Wire, *entries: Json) -> list[dict[str, Json]]:
    body: Json = {"entries": [*entries]}
    return objects(wire.record("POST", "/api/v1/fetch/offsets", body)["entries"])


def test_a_time_finds_the_first_offset_stored_at_or_after_it(wire: Wire) -> None:
    wire.push("a")
    stamp_us = wire.machine.now_us
    wire.clock_us += 10_000_000
    wire.push("b")
    at, between, text, never, ancient, unwritten, missing = offsets(
        wire,
        {"queue": "q", "partition": "p", "timestamp": stamp_us // 1000},
        {"queue": "q", "partition": "p", "timestamp": stamp_us // 1000 + 1},
        {"queue": "q", "partition": "p", "timestamp": "2027-01-15T08:00:05Z"},
        {"queue": "q", "partition": "p", "timestamp": "2999-01-01T00:00:00Z"},
        {"queue": "q", "partition": "p", "timestamp": 0},
        {"queue": "q", "partition": 7, "timestamp": 0},
        {"queue": "none", "timestamp": 0},
    )
    assert at == {
        "queue": "q",
        "partition": "p",
        "offset": 0,
        "ts": "2027-01-15T08:00:00.000000Z",
        "highWatermark": 2,
        "logStartOffset": 0,
    }
    assert (between["offset"], text["offset"], ancient["offset"]) == (1, 1, 0)
    assert (never["offset"], never["ts"], never["highWatermark"]) == (None, None, 2)
    assert (unwritten["partition"], unwritten["offset"], "error" in unwritten) == ("7", None, False)
    assert (missing["error"], missing["partition"]) == ("UNKNOWN_TOPIC_OR_PARTITION", "Default")


@pytest.mark.parametrize("timestamp", [-1, 1.5, True, None, "soon", 10**15])
def test_a_timestamp_that_is_none_refuses_the_request_as_a_whole(
    wire: Wire, timestamp: Json
) -> None:
    entries: list[Json] = [{"queue": "q", "timestamp": timestamp}]
    record = wire.record("POST", "/api/v1/fetch/offsets", {"entries": entries}, 400)
    assert "timestamp" in str(record["error"])


def test_a_negative_offset_is_refused(wire: Wire) -> None:
    entries: list[Json] = [{"queue": "q", "offset": -1}]
    assert wire.send("POST", "/api/v1/fetch", {"entries": entries}).status == 400


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/api/v1/pop?namespace=n"),
        ("GET", "/api/v1/kv"),
        ("GET", "/api/v1/locks"),
        ("GET", "/api/v1/kv/ns"),
        ("GET", "/api/v1/traces"),
        ("POST", "/api/v1/messages/1/a"),
        ("GET", "/api/v1/ephemeral/push"),
        ("GET", "/streams/v1/queries"),
        ("GET", "/api/v1/push"),
        ("POST", "/api/v1/pop/queue/q"),
        ("DELETE", "/api/v1/timers/q"),
        ("GET", "/api/v1/pop/queue/q/partition"),
        ("POST", "/"),
        ("GET", "/api/v2/dlq"),
    ],
)
def test_what_is_not_served_is_404_no_such_route(wire: Wire, method: str, target: str) -> None:
    record = wire.record(method, target, b"", 404)
    assert record == {"error": "Not Found", "code": "no_such_route"}


@pytest.mark.parametrize("name", ["health", "metrics"])
def test_health_and_metrics_are_answered_by_the_node(name: str) -> None:
    assert route("GET", f"/{name}?x=1", {}, b"", "id") == Local(name)


def test_a_target_or_request_id_beyond_ascii_is_400() -> None:
    for target, request_id in (
        ("/api/v1/pop/queue/ü", "id"),
        ("/health", "ü"),
        ("/health", "x" * 201),
    ):
        answer = route("GET", target, {}, b"", request_id)
        assert isinstance(answer, Answer)
        assert answer.status == 400


def test_error_answers_carry_code_and_retry_after() -> None:
    answer = error_answer(503, "no_leader", "connection lost: no leader", retry_after_s=1)
    assert json.loads(answer.body) == {"error": "connection lost: no leader", "code": "no_leader"}
    assert answer.headers == (("Retry-After", "1"),)
    assert error_answer(400, "bad_request", "x").headers == ()


def test_an_empty_pop_is_204() -> None:
    assert empty_pop_answer() == Answer(204, b"")


@pytest.mark.parametrize("instant_us", [0, 1, 999_999, 1_000_000, 1_800_000_000_123_456])
def test_times_are_written_and_read_back(instant_us: int) -> None:
    text = rfc3339(instant_us)
    assert (len(text), text[-1]) == (27, "Z")
    assert parse_rfc3339(text) == instant_us


def test_times_sort_as_texts() -> None:
    instants = [0, 9, 10, 1_000_000, 86_400_000_000, 1_800_000_000_000_000]
    assert sorted(map(rfc3339, instants)) == list(map(rfc3339, instants))


def test_what_is_no_time_is_none() -> None:
    assert parse_rfc3339("yesterday") is None
    assert parse_rfc3339("1900-01-01T00:00:00Z") == 0


def test_a_body_that_is_nested_too_deep_is_400(wire: Wire) -> None:
    deep = b'{"items":[{"queue":"q","payload":' + b"[" * 50_000 + b"]" * 50_000 + b"}]}"
    assert wire.send("POST", "/api/v1/push", deep).status == 400


def test_an_instant_beyond_the_last_year_is_the_last_that_can_be_written(wire: Wire) -> None:
    wire.push("a")
    far = "9999-12-31T23:59:59-23:59"
    assert rfc3339(parse_rfc3339(far) or 0) == "9999-12-31T23:59:59.999999Z"
    wire.pop(consumerGroup="g", subscriptionFrom=far)
    (group,) = wire.records("GET", "/api/v1/consumer-groups")
    assert group["subscriptionTimestamp"] == "9999-12-31T23:59:59.999999Z"
