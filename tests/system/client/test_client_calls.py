"""Routes as values."""

from __future__ import annotations

import base64
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest

from atleastonce.system.client import BrokerError, FetchFrom, calls, fetching, keyvalue
from atleastonce.system.client.wire import Response


def answer(value: object, status: int = 200) -> Response:
    return Response(status, msgspec.json.encode(value))


def test_pop_asks_for_its_batch_and_lease() -> None:
    call = calls.pop("a b", group="g", batch=4, partitions=16, lease_s=8.0, wait_s=2.0)
    parts = urlsplit(call.target)
    assert parts.path == "/api/v1/pop/queue/a%20b"
    assert {k: v[0] for k, v in parse_qs(parts.query).items()} == {
        "consumerGroup": "g",
        "subscriptionMode": "all",
        "batch": "4",
        "partitions": "16",
        "wait": "true",
        "timeout": "2000",
        "leaseSeconds": "8",
    }
    assert call.wait_s == 2.0


def test_pop_of_one_partition_names_it_in_the_path() -> None:
    call = calls.pop("q", group="g", partition="a/b")
    assert urlsplit(call.target).path == "/api/v1/pop/queue/q/partition/a%2Fb"


def test_fetch_names_where_to_read_on_and_reads_what_came() -> None:
    call = fetching.fetch([FetchFrom("q", "p", 3, 512)], wait_s=0.1)
    assert msgspec.json.decode(call.body) == {
        "entries": [{"queue": "q", "partition": "p", "offset": 3, "maxBytes": 512}],
        "maxWaitMs": 100,
    }
    assert call.wait_s == 0.1
    record = {"offset": 3, "transactionId": "t", "payload": {"v": 1}, "ts": "now"}
    body = {"queue": "q", "partition": "p", "records": [record], "highWatermark": 4}
    [entry] = call.read(answer({"entries": [{**body, "logStartOffset": 0}]})).entries
    assert (entry.high_watermark, entry.error) == (4, "")
    assert (entry.records[0].transaction_id, bytes(entry.records[0].payload)) == ("t", b'{"v":1}')


def test_fetch_that_is_refused_or_garbled_is_an_error() -> None:
    call = fetching.fetch([])
    for status, body, definite in ((400, b'{"error":"no"}', True), (200, b"{}", False)):
        with pytest.raises(BrokerError) as caught:
            call.read(Response(status, body))
        assert caught.value.definite is definite


def test_key_value_operations_go_as_they_are_and_results_keep_their_values() -> None:
    operation = {"op": "putIfAbsent", "ns": "n", "key": "k", "value": "mine", "forever": True}
    call = keyvalue.kv([operation])
    assert (call.method, call.target) == ("POST", "/api/v1/kv")
    assert msgspec.json.decode(call.body) == {"operations": [operation]}
    result = {"index": 0, "op": "putIfAbsent", "key": "k", "applied": False, "version": 3}
    body = {"results": [{**result, "value": "theirs", "expiresAt": None, "reason": "exists"}]}
    [read] = call.read(answer(body))
    assert (read.applied, read.version, read.reason) == (False, 3, "exists")
    assert bytes(read.value) == b'"theirs"'
    with pytest.raises(BrokerError) as caught:
        call.read(answer({"error": "Not Found", "code": "no_such_route"}, 404))
    assert caught.value.definite


def test_a_list_of_keys_is_read_in_its_order() -> None:
    call = keyvalue.kv([{"op": "getPrefix", "ns": "n", "prefix": "k", "keysOnly": True}])
    row = {"version": 2, "expiresAt": None, "updatedAt": "2027-01-15T08:00:00.000000Z"}
    rows = [{"key": "k1", **row}, {"key": "k2", **row}]
    body = {"results": [{"index": 0, "op": "getPrefix", "rows": rows, "truncated": True}]}
    [read] = call.read(answer(body))
    assert [(row.key, row.version, bytes(row.value)) for row in read.rows] == [
        ("k1", 2, b"null"),
        ("k2", 2, b"null"),
    ]
    assert read.truncated


def test_pop_that_does_not_wait_names_no_timeout() -> None:
    query = parse_qs(urlsplit(calls.pop("q", group="g").target).query)
    assert query["wait"] == ["false"]
    assert "timeout" not in query


def test_empty_pop_is_a_batch_without_messages() -> None:
    assert calls.pop("q", group="g").read(Response(204, b"")).messages == ()


def test_delivered_payload_stays_the_bytes_it_was() -> None:
    body = (
        b'{"success":true,"leaseId":"L","messages":[{"id":"i","transactionId":"t","traceId":null,'
        b'"data":{"b": 1,  "a":2},"partitionId":"7","partition":"p-0001","leaseId":"L",'
        b'"deliveryAttempt":2,"offset":5,"createdAt":"2026"}]}'
    )
    popped = calls.pop("q", group="g").read(Response(200, body))
    assert popped.lease_id == "L"
    (message,) = popped.messages
    assert bytes(message.data) == b'{"b": 1,  "a":2}'
    assert (message.delivery_attempt, message.offset, message.partition_id) == (2, 5, "7")


def test_push_reads_results_in_order() -> None:
    call = calls.push([{"queue": "q", "payload": None}])
    rows = [{"index": 0, "status": "duplicate", "message_id": "m", "offset": 3, "queueName": "q"}]
    (result,) = call.read(answer(rows, 201))
    assert (result.status, result.offset) == ("duplicate", 3)


def test_refused_ack_carries_its_error() -> None:
    call = calls.ack("t", "7", group="g", lease="L")
    row = {"index": 0, "transactionId": "t", "success": False, "error": "invalid or expired lease"}
    (result,) = call.read(answer([row]))
    assert not result.success
    assert result.error == "invalid or expired lease"


def test_rolled_back_transaction_carries_its_reason() -> None:
    result = calls.transaction({"operations": []}).read(
        answer({"transactionId": "x", "success": False, "reason": "duplicate", "results": []})
    )
    assert (result.success, result.reason) == (False, "duplicate")


def test_timer_payload_travels_in_base64() -> None:
    operation = calls.schedule_operation(
        "q", "delay:1", delay_s=1.5, txn="1", partition="p", payload=b'{"x":1}'
    )
    assert operation["delayMs"] == 1500
    assert base64.b64decode(str(operation["payload"])) == b'{"x":1}'


def test_depth_of_a_queue_that_does_not_exist_is_zero() -> None:
    found = calls.depth("q", "g").read(answer({"error": "Queue not found"}, 404))
    assert found.pending == 0


def test_depth_route_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(BrokerError, match="no_such_route"):
        calls.depth("q", "g").read(answer({"error": "Not Found", "code": "no_such_route"}, 404))


def test_dead_letter_that_is_gone_counts_as_deleted_before() -> None:
    call = calls.delete_dead_letter("7", "a/b")
    assert call.target == "/api/v1/messages/7/a%2Fb"
    assert not call.read(answer({"error": "not found"}, 404))
    assert call.read(answer({"success": True}))


def test_health_of_a_node_without_leader_is_an_answer() -> None:
    raft = {"role": "follower", "leader": None, "term": 3, "quorumAckMs": 1.5}
    found = calls.health().read(answer({"status": "settling", "node": "n1", "raft": raft}, 503))
    assert (found.status, found.raft.term, found.raft.quorum_ack_ms) == ("settling", 3, 1.5)


def test_refusal_is_definite_and_names_its_code() -> None:
    with pytest.raises(BrokerError) as caught:
        calls.push([]).read(answer({"error": "items missing", "code": "bad_request"}, 400))
    assert caught.value.definite
    assert (caught.value.status, caught.value.code) == (400, "bad_request")


def test_refusal_in_plain_text_is_quoted() -> None:
    with pytest.raises(BrokerError, match="too big"):
        calls.push([]).read(Response(413, b"too big"))


def test_answer_that_is_not_json_is_not_definite() -> None:
    with pytest.raises(BrokerError) as caught:
        calls.push([]).read(Response(201, b"<html>"))
    assert not caught.value.definite
    assert caught.value.code == "malformed_answer"
