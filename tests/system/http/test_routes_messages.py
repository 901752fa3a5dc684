"""Push, pop, ack and extend on the wire."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.broker.commands import Extend, Pop
from atleastonce.system.http.routes import Answer, PopRequest, Write, route

from .wire import Json, Wire

TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")


def pop_command(query: str) -> PopRequest:
    request = route("GET", f"/api/v1/pop/queue/q?{query}", {}, b"", "id")
    assert isinstance(request, PopRequest), request
    return request


def extend_seconds(body: bytes) -> int:
    request = route("POST", "/api/v1/lease/abc/extend", {}, body, "id")
    assert isinstance(request, Write)
    assert isinstance(request.command, Extend)
    assert request.command.lease_id == "abc"
    return request.command.seconds


def test_push_answers_201_with_results_in_request_order(wire: Wire) -> None:
    first, second = wire.push("a", "b")
    assert list(first) == [
        "index",
        "message_id",
        "transaction_id",
        "queueName",
        "status",
        "offset",
    ]
    assert (first["index"], first["status"], first["offset"]) == (0, "queued", 0)
    assert (second["transaction_id"], second["queueName"]) == ("b", "q")
    (again,) = wire.push("a")
    assert (again["status"], again["message_id"]) == ("duplicate", first["message_id"])


def test_push_of_no_items_is_an_empty_201(wire: Wire) -> None:
    answer = wire.send("POST", "/api/v1/push", {"items": []})
    assert (answer.status, answer.body) == (201, b"[]")


def test_push_takes_null_for_absent_and_ignores_unknown_keys(wire: Wire) -> None:
    item: Json = {
        "queue": "q",
        "partition": None,
        "transactionId": None,
        "traceId": None,
        "payload": None,
        "color": "red",
    }
    wire.records("POST", "/api/v1/push", {"items": [item], "more": 1}, 201)
    (message,) = wire.pop()
    assert (message["partition"], message["data"]) == ("Default", None)
    assert message["transactionId"] == message["id"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"items":null}',
        b'{"items":[{"queue":"q"}]}',
        b'{"items":[{"payload":1}]}',
        b'{"items":[{"queue":"","payload":1}]}',
        b'{"items":[{"queue":1,"payload":1}]}',
        b'{"items":[{"queue":"q","payload":{"a":tru}}]}',
        b'{"items":[{"queue":"q","payload":"\xff"}]}',
    ],
)
def test_a_bad_push_is_400_bad_request(wire: Wire, body: bytes) -> None:
    record = wire.record("POST", "/api/v1/push", body, 400)
    assert record["code"] == "bad_request"
    assert record["error"]


@pytest.mark.parametrize("kind", ["application/x-queen-push", "application/x-queen-transaction"])
def test_binary_bodies_are_refused(wire: Wire, kind: str) -> None:
    for path in ("/api/v1/push", "/api/v1/transaction"):
        assert wire.send("POST", path, b"QPB1", content_type=kind).status == 400


def test_names_that_are_too_long_together_are_413(wire: Wire) -> None:
    item: Json = {"queue": "q" * 400, "partition": "p" * 12, "payload": 1}
    record = wire.record("POST", "/api/v1/push", {"items": [item]}, 413)
    assert record["code"] == "name_too_long"
    fitting: Json = {"queue": "q" * 400, "partition": "p" * 11, "payload": 1}
    assert wire.send("POST", "/api/v1/push", {"items": [fitting]}).status == 201
    wide: Json = {"queue": "ö" * 201, "partition": "p" * 10, "payload": 1}
    assert wire.send("POST", "/api/v1/push", {"items": [wide]}).status == 413
    assert wire.send("GET", "/api/v1/pop/queue/q?consumerGroup=" + "g" * 411).status == 413


def test_pop_answers_204_without_a_body_when_empty(wire: Wire) -> None:
    answer = wire.send("GET", "/api/v1/pop/queue/q")
    assert (answer.status, answer.body) == (204, b"")


def test_pop_answers_the_documented_shape(wire: Wire) -> None:
    wire.push("a")
    body = wire.record("GET", "/api/v1/pop/queue/q?leaseSeconds=9&color=red")
    assert list(body) == [
        "success",
        "queue",
        "partition",
        "partitionId",
        "leaseId",
        "consumerGroup",
        "messages",
        "partitionsClaimed",
    ]
    assert (body["success"], body["queue"], body["partition"]) == (True, "q", "p")
    assert (body["consumerGroup"], body["partitionsClaimed"]) == ("__QUEUE_MODE__", 1)
    messages = body["messages"]
    assert isinstance(messages, list)
    (message,) = messages
    assert isinstance(message, dict)
    assert set(message) == {
        "id",
        "transactionId",
        "traceId",
        "data",
        "producerSub",
        "createdAt",
        "partitionId",
        "partition",
        "queue",
        "leaseId",
        "consumerGroup",
        "deliveryAttempt",
        "offset",
    }
    assert (message["deliveryAttempt"], message["offset"], message["traceId"]) == (1, 0, None)
    assert message["leaseId"] == body["leaseId"]
    assert str(message["partitionId"]).isdigit()
    assert TIME.fullmatch(str(message["createdAt"]))
    assert message["data"] == {"n": "a"}


def test_auto_ack_answers_an_empty_lease(wire: Wire) -> None:
    wire.push("a")
    wire.push("b")
    (one, two) = wire.pop(commitOnDelivery="true")
    assert (one["leaseId"], two["leaseId"]) == ("", "")
    assert wire.pop(autoAck="true") == []


def test_a_pinned_pop_names_queue_and_partition_percent_encoded(wire: Wire) -> None:
    wire.push("a", queue="my queue/ü", partition="p/1")
    target = "/api/v1/pop/queue/my%20queue%2F%C3%BC/partition/p%2F1"
    body = wire.record("GET", target)
    assert (body["queue"], body["partition"]) == ("my queue/ü", "p/1")
    assert wire.send("GET", "/api/v1/pop/queue/q/partition/").status == 400


def test_pop_defaults_are_the_documented_ones() -> None:
    request = pop_command("")
    assert request.wait_ms == 0
    assert request.command == Pop(request_id="id", queue="q", batch=200, partitions=1)
    assert pop_command("wait=true").wait_ms == 30_000
    assert pop_command("wait=true&timeout=90000").wait_ms == 60_000
    assert pop_command("timeout=5000").wait_ms == 0


def test_pop_reads_its_parameters() -> None:
    command = pop_command("batch=7&partitions=0&leaseSeconds=5&consumerGroup=a%20b+c").command
    assert (command.batch, command.partitions, command.lease_s) == (7, 0, 5)
    assert command.group == "a b c"
    assert pop_command("partitions=-3").command.partitions == 0
    assert pop_command("leaseSeconds=0").command.lease_s is None
    assert pop_command("batch=0").command.batch == 200
    assert pop_command("batch=nonsense&consumerGroup=").command.batch == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", ("new", 0)),
        ("subscriptionMode=new-only", ("new", 0)),
        ("subscriptionMode=all", ("all", 0)),
        ("subscriptionMode=from_beginning", ("all", 0)),
        ("subscriptionFrom=now&subscriptionMode=all", ("new", 0)),
        ("subscriptionFrom=1970-01-01T00:00:01.5Z", ("from", 1_500_000)),
        ("subscriptionFrom=1970-01-01T01:00:01+01:00", ("from", 1_000_000)),
        ("subscriptionFrom=soon&subscriptionMode=all", ("all", 0)),
    ],
)
def test_pop_reads_where_a_new_group_begins(query: str, expected: tuple[str, int]) -> None:
    command = pop_command(query).command
    assert (command.subscribe, command.subscribe_from_us) == expected


@pytest.mark.parametrize(
    ("query", "knobs"),
    [
        ("autopilot=true", "both"),
        ("autopilot=true&batch=5", "partitions"),
        ("autopilot=true&partitions=5", "batch"),
        ("autopilot=true&partitions=5&batch=5", ""),
        ("autopilot=false", ""),
    ],
)
def test_autopilot_takes_only_the_knobs_that_were_not_sent(query: str, knobs: str) -> None:
    assert pop_command(query).command.autopilot == knobs


def test_autopilot_is_echoed_only_when_engaged(wire: Wire) -> None:
    wire.push("a")
    body = wire.record("GET", "/api/v1/pop/queue/q?autopilot=true&batch=3")
    assert body["autopilot"] == {"partitions": 1, "batch": 3, "waitMs": 100}


def test_ack_answers_an_array_even_for_one(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop()
    assert wire.ack(message) == {
        "index": 0,
        "transactionId": "a",
        "success": True,
        "error": None,
        "leaseReleased": True,
        "dlq": False,
        "noop": False,
    }


@pytest.mark.parametrize("status", [None, "completed", "success", "acked", "ok"])
def test_these_statuses_complete(wire: Wire, status: str | None) -> None:
    wire.push("a")
    (message,) = wire.pop()
    wire.ack(message, status=status)
    assert wire.pop() == []


@pytest.mark.parametrize("status", ["failed", "error", "COMPLETED", "retry"])
def test_any_other_status_delivers_again(wire: Wire, status: str) -> None:
    wire.push("a")
    (message,) = wire.pop()
    assert wire.ack(message, status=status, error="boom")["success"] is True
    (again,) = wire.pop()
    assert again["deliveryAttempt"] == 2


def test_ack_batch_answers_in_order_and_takes_its_group_at_the_top(wire: Wire) -> None:
    wire.push("a", "b")
    one, two = wire.pop(consumerGroup="g", subscriptionMode="all")
    acks: list[Json] = [
        {"transactionId": m["transactionId"], "partitionId": m["partitionId"], "status": s}
        for m, s in ((two, "completed"), (one, None))
    ]
    body: Json = {"consumerGroup": "g", "acknowledgments": acks}
    answers = wire.records("POST", "/api/v1/ack/batch", body)
    assert [answer["transactionId"] for answer in answers] == ["b", "a"]
    assert [answer["index"] for answer in answers] == [0, 1]
    assert all(answer["success"] for answer in answers)
    empty = wire.send("POST", "/api/v1/ack/batch", {"acknowledgments": []})
    assert (empty.status, empty.body) == (200, b"[]")


def test_refused_acks_are_200_with_texts_that_clients_match(wire: Wire) -> None:
    wire.push("a", "b")
    message, _ = wire.pop()
    stale = wire.ack(message, leaseId="stale")
    assert (stale["success"], "lease" in str(stale["error"])) == (False, True)
    assert "unresolv" in str(wire.ack(message, transactionId="ghost")["error"])
    assert "consumer not found" in str(wire.ack(message, consumerGroup="other")["error"])
    wire.ack(message)
    assert "committed" in str(wire.ack(message, status="failed")["error"])
    assert "consumer not found" in str(wire.ack({**message, "partitionId": None})["error"])


@pytest.mark.parametrize("path", ["/api/v1/ack", "/api/v1/ack/batch"])
def test_an_ack_that_is_no_json_is_400(wire: Wire, path: str) -> None:
    assert wire.record("POST", path, b"{", 400)["code"] == "bad_request"


def test_an_error_that_is_no_text_is_kept_as_json(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop()
    wire.ack(message, status="dlq", error={"code": 7})
    (letter,) = wire.records_of_dlq()
    assert letter["errorMessage"] == '{"code":7}'


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        (b"", 60),
        (b"{}", 60),
        (b"not json", 60),
        (b'{"seconds":null}', 60),
        (b'{"seconds":"9"}', 60),
        (b'{"seconds":true}', 60),
        (b"[]", 60),
        (b'{"seconds":9}', 9),
        (b'{"seconds":9.9}', 9),
        (b'{"seconds":-1}', 1),
        (b'{"seconds":1e300}', 1 << 31),
    ],
)
def test_extend_takes_any_body(body: bytes, seconds: int) -> None:
    assert extend_seconds(body) == seconds


def test_extend_answers_three_equal_deadlines_or_nulls(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop(leaseSeconds=1)
    lease = message["leaseId"]
    live = wire.record("POST", f"/api/v1/lease/{lease}/extend")
    assert (live["leaseId"], live["success"], live["renewed"]) == (lease, True, 1)
    deadlines = {live[key] for key in ("newExpiresAt", "expiresAt", "lease_expires_at")}
    assert len(deadlines) == 1
    assert TIME.fullmatch(str(deadlines.pop()))
    wire.ack(message)
    gone = wire.record("POST", f"/api/v1/lease/{lease}/extend")
    assert (gone["success"], gone["renewed"], gone["newExpiresAt"]) == (False, 0, None)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.booleans(), st.text(min_size=1, max_size=20))
def test_payloads_are_spliced_byte_for_byte(value: object, ascii_only: bool, name: str) -> None:
    wire = Wire()
    payload = json.dumps(value, ensure_ascii=ascii_only).encode()
    head = json.dumps({"queue": "q", "transactionId": name}, ensure_ascii=ascii_only)
    body = b'{"items":[' + head[:-1].encode() + b',"payload": %b }]}' % payload
    answer = wire.send("POST", "/api/v1/push", body)
    popped = wire.send("GET", "/api/v1/pop/queue/q")
    assert answer.status == 201
    assert b'"data":%b,' % payload in popped.body
    (message,) = json.loads(popped.body)["messages"]
    assert (message["data"], message["transactionId"]) == (json.loads(payload), name)


def test_a_request_that_is_too_large_is_413_plain_text() -> None:
    answer = route("POST", "/api/v1/push", {}, bytes((64 << 20) + 1), "id")
    assert isinstance(answer, Answer)
    assert (answer.status, answer.content_type.split(";")[0]) == (413, "text/plain")


def test_a_pop_that_is_asked_for_again_is_another_request() -> None:
    """The same URL is read once; what is not in the URL is each request's own."""
    target = "/api/v1/pop/queue/q?batch=7&wait=true&timeout=1500"
    modes = {
        name: route("GET", target, {}, b"", name, None, mode)
        for name, mode in (("one", "new"), ("two", "new"), ("three", "all"))
    }
    for name, found in modes.items():
        assert isinstance(found, PopRequest)
        assert (found.command.request_id, found.command.batch) == (name, 7)
        assert found.wait_ms == 1500
        assert found.command.subscribe == ("all" if name == "three" else "new")
