"""Transactions and timers on the wire."""

from __future__ import annotations

import base64

import pytest

from .wire import Json, Wire, objects

DAY_MS = 86_400_000


def operation(key: str = "k", **fields: Json) -> dict[str, Json]:
    """A schedule; a field of `...` is left out."""
    made: dict[str, Json] = {
        "op": "schedule",
        "queue": "q",
        "timerKey": key,
        "delayMs": 5000,
        "txn": f"txn-{key}",
        "payload": base64.b64encode(b'{"v":1}').decode(),
        **fields,
    }
    return made


def timers(wire: Wire, *operations: dict[str, Json]) -> list[dict[str, Json]]:
    body: Json = {"operations": [*operations]}
    return objects(wire.record("POST", "/api/v1/timers", body)["results"])


def transact(
    wire: Wire, operations: list[Json], status: int = 200, **fields: Json
) -> dict[str, Json]:
    body: Json = {"operations": operations, **fields}
    return wire.record("POST", "/api/v1/transaction", body, status)


def ack_of(message: dict[str, Json], **fields: Json) -> dict[str, Json]:
    return {
        "type": "ack",
        "transactionId": message["transactionId"],
        "partitionId": message["partitionId"],
        **fields,
    }


def push_of(*names: str) -> dict[str, Json]:
    items: list[Json] = [{"queue": "q", "transactionId": name, "payload": 1} for name in names]
    return {"type": "push", "items": items}


def test_a_transaction_numbers_acks_items_and_timers_in_one_space(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop()
    lease = message["leaseId"]
    inline: Json = {"type": "push", "queue": "q", "transactionId": "y", "payload": None}
    body = transact(
        wire,
        [push_of("w", "x"), ack_of(message, leaseId=lease, consumerGroup=None), inline],
        requiredLeases=[lease, None],
        kv=None,
        positions=[],
        timers=[operation()],
    )
    assert (body["success"], "reason" in body, "error" in body) == (True, False, False)
    results = objects(body["results"])
    assert [result["index"] for result in results] == [0, 1, 2, 3, 4]
    assert [result["type"] for result in results] == ["push", "push", "ack", "push", "timer"]
    assert set(results[0]) == {
        "index",
        "type",
        "success",
        "transactionId",
        "messageId",
        "queueName",
    }
    assert results[2] == {
        "index": 2,
        "type": "ack",
        "success": True,
        "transactionId": "a",
        "error": None,
        "dlq": False,
    }
    assert (results[4]["opIndex"], results[4]["status"]) == (0, "scheduled")


def test_a_repeat_inside_a_transaction_is_marked(wire: Wire) -> None:
    first, second = objects(transact(wire, [push_of("a"), push_of("a")])["results"])
    assert ("duplicate" in first, second["duplicate"]) == (False, True)


def test_a_rollback_is_200_with_reason_and_text(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop()
    body = transact(wire, [ack_of(message, leaseId="stale"), push_of("b")])
    assert (body["success"], body["reason"], body["results"]) == (False, "rejected_ack", [])
    assert "rolled back" in str(body["error"])
    assert transact(wire, [push_of("a")])["success"] is True  # another partition
    assert transact(wire, [push_of("a")])["reason"] == "duplicate"


def test_an_unknown_status_in_a_transaction_completes(wire: Wire) -> None:
    wire.push("a")
    (message,) = wire.pop()
    transact(wire, [ack_of(message, leaseId=message["leaseId"], status="whatever")])
    assert wire.pop() == []


def test_a_failed_ack_in_a_transaction_files(wire: Wire) -> None:
    wire.json("POST", "/api/v1/configure", {"queue": "q", "options": {"retryLimit": 0}})
    wire.push("a")
    (message,) = wire.pop()
    body = transact(wire, [ack_of(message, status="failed", error="boom")])
    assert objects(body["results"])[0]["dlq"] is True


def test_traces_survive_in_transactions_only(wire: Wire) -> None:
    for name, path in (("a", "/api/v1/push"), ("b", "/api/v1/transaction")):
        item: dict[str, Json] = {
            "queue": "q",
            "transactionId": name,
            "traceId": "t",
            "payload": 1,
        }
        body: Json = {"items": [item], "operations": [{"type": "push", **item}]}
        assert wire.send("POST", path, body).status in (200, 201)
    assert [message["traceId"] for message in wire.pop()] == [None, "t"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"operations": []},
        {"operations": None, "timers": []},
        {"operations": [{"type": "push", "items": []}]},
        {"operations": [{"type": "dance"}]},
        {"operations": [{}]},
        {"operations": [{"type": "push", "queue": "q"}]},
        {"operations": [], "positions": [{}]},
        {"positions": [{"queue": "q", "consumerGroup": "g"}]},
        {"positions": [{"queue": "q", "consumerGroup": "g", "offset": -1}]},
        {"positions": [{"queue": "q", "consumerGroup": "", "offset": 1}]},
    ],
)
def test_a_malformed_transaction_is_400(wire: Wire, body: Json) -> None:
    record = wire.record("POST", "/api/v1/transaction", body, 400)
    assert record["code"] == "bad_request"


def test_a_repeated_request_id_gets_the_first_answer(wire: Wire) -> None:
    body: Json = {"operations": [push_of("a")]}
    first = wire.send("POST", "/api/v1/transaction", body, request_id="same")
    assert wire.send("POST", "/api/v1/transaction", body, request_id="same") == first


def test_timers_answer_the_documented_shape(wire: Wire) -> None:
    (result,) = timers(wire, operation())
    assert list(result) == [
        "ok",
        "status",
        "queue",
        "timerKey",
        "txn",
        "messageId",
        "deliverAt",
    ]
    assert (result["ok"], result["status"], result["txn"]) == (True, "scheduled", "txn-k")
    (again,) = timers(wire, operation(op="reschedule", delayMs=10))
    assert again["status"] == "rescheduled"
    assert str(again["deliverAt"]) < str(result["deliverAt"])


def test_a_timer_is_cancelled_by_its_route_once(wire: Wire) -> None:
    timers(wire, operation("a/b"))
    gone = wire.record("DELETE", "/api/v1/timers/q/a/b?txn=mine")
    assert (gone["ok"], gone["status"], gone["txn"]) == (True, "cancelled", "txn-a/b")
    absent = wire.record("DELETE", "/api/v1/timers/q/a%2Fb?txn=mine")
    assert (absent["ok"], absent["status"], absent["txn"]) == (False, "absent", "mine")


def test_one_timer_is_read_with_its_payload(wire: Wire) -> None:
    timers(wire, operation("a/b", partition="p7"))
    row = wire.record("GET", "/api/v1/timers/q/a/b")
    assert (row["found"], row["timerKey"], row["partition"]) == (True, "a/b", "p7")
    assert base64.b64decode(str(row["payload"])) == b'{"v":1}'
    assert wire.record("GET", "/api/v1/timers/q/none") == {
        "found": False,
        "queue": "q",
        "timerKey": "none",
    }


def test_timers_are_listed_and_counted(wire: Wire) -> None:
    timers(wire, *(operation(f"laravel:{number}") for number in range(3)), operation("other"))
    page = wire.record("GET", "/api/v1/timers/q?limit=2")
    assert [row["timerKey"] for row in objects(page["rows"])] == ["laravel:0", "laravel:1"]
    assert (page["truncated"], page["nextAfter"]) == (True, "laravel:1")
    rest = wire.record("GET", "/api/v1/timers/q?after=laravel:1&limit=5")
    assert (len(objects(rest["rows"])), rest["truncated"], rest["nextAfter"]) == (2, False, None)
    assert wire.json("GET", "/api/v1/timers/q?mode=count&prefix=laravel:") == {"count": 3}
    assert wire.json("GET", "/api/v1/timers/none?mode=count") == {"count": 0}


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({"op": "sing"}, 400, "timers_bad_request"),
        ({"queue": None}, 400, "timers_bad_request"),
        ({"timerKey": ""}, 400, "timers_bad_request"),
        ({"txn": None}, 400, "timers_bad_request"),
        ({"txn": 7}, 400, "timers_bad_request"),
        ({"delayMs": "5"}, 400, "timers_bad_request"),
        ({"delayMs": None}, 400, "timers_bad_request"),
        ({"payload": None}, 400, "timers_bad_request"),
        ({"payload": "%%%"}, 400, "timers_bad_request"),
        ({"payload": base64.b64encode(b"{").decode()}, 400, "timers_bad_request"),
        ({"messageId": "m"}, 400, "timers_bad_request"),
        ({"_claim": 1}, 400, "timers_bad_request"),
        ({"delayMs": 90 * DAY_MS + 1}, 403, "timer_horizon_exceeded"),
        ({"payload": base64.b64encode(b"1" * (1 << 20) + b"1").decode()}, 413, None),
        ({"queue": "q" * 411}, 413, None),
    ],
)
def test_bad_timers_are_refused(
    wire: Wire, fields: dict[str, Json], status: int, code: str | None
) -> None:
    record = wire.record(
        "POST", "/api/v1/timers", {"operations": [{**operation(), **fields}]}, status
    )
    if code is not None:
        assert record["error"] == code
        assert record["reason"]
        assert record["detail"]
    assert wire.json("GET", "/api/v1/timers/q?mode=count") == {"count": 0}


def test_a_key_may_appear_once_in_a_call(wire: Wire) -> None:
    body: Json = {"operations": [operation("k"), operation("k", op="cancel")]}
    assert wire.record("POST", "/api/v1/timers", body, 400)["error"] == "timers_bad_request"


def test_at_most_256_operations_in_a_call(wire: Wire) -> None:
    assert len(timers(wire, *(operation(f"k{number}") for number in range(256)))) == 256
    body: Json = {"operations": [operation(f"k{number}") for number in range(257)]}
    assert wire.send("POST", "/api/v1/timers", body).status == 400


def test_a_server_owned_field_in_a_transaction_has_its_own_code(wire: Wire) -> None:
    record = transact(wire, [push_of("a")], 400, timers=[operation(tenant="t")])
    assert record["error"] == "timers_server_owned_field"
    assert wire.pop() == []


def test_the_longest_and_a_negative_delay_are_taken(wire: Wire) -> None:
    far, past = timers(
        wire, operation("far", delayMs=90 * DAY_MS), operation("past", delayMs=-10_000)
    )
    assert str(past["deliverAt"]) < str(far["deliverAt"])


def test_positions_ride_in_a_transaction_and_are_read_back(wire: Wire) -> None:
    wire.push("a", "b", "c")
    place: dict[str, Json] = {"queue": "q", "partition": "p", "consumerGroup": "g"}
    body: Json = {"positions": [{**place, "offset": 2, "metadata": "mine"}]}
    done = wire.record("POST", "/api/v1/transaction", body)
    assert done["results"] == [
        {"index": 0, "opIndex": 0, "type": "position", "success": True, **place, "offset": 2}
    ]
    asked: Json = {
        "consumerGroup": "g",
        "entries": [{"queue": "q", "partition": "p"}, {"queue": "q"}, {"queue": "none"}],
    }
    found = wire.record("POST", "/api/v1/consumer-groups/positions", asked)
    assert found == {
        "consumerGroup": "g",
        "entries": [
            {"queue": "q", "partition": "p", "offset": 2, "metadata": "mine"},
            {"queue": "q", "partition": "Default", "offset": None},
            {"queue": "none", "partition": "Default", "offset": None},
        ],
    }
    forgotten: Json = {"positions": [{**place, "offset": None}]}
    assert wire.record("POST", "/api/v1/transaction", forgotten)["success"] is True
    rest: Json = {"consumerGroup": "g"}
    assert wire.record("POST", "/api/v1/consumer-groups/positions", rest)["entries"] == []
    missing: Json = {"positions": [{**place, "queue": "none", "offset": 1}]}
    rolled_back = wire.record("POST", "/api/v1/transaction", missing)
    assert (rolled_back["success"], rolled_back["reason"]) == (False, "queue_not_found")
    assert "rolled back" in str(rolled_back["error"])


@pytest.mark.parametrize(
    "body", [{}, {"consumerGroup": ""}, {"consumerGroup": "g", "entries": [{}]}]
)
def test_positions_are_asked_for_by_group(wire: Wire, body: Json) -> None:
    assert wire.send("POST", "/api/v1/consumer-groups/positions", body).status == 400


def test_a_note_has_a_bound(wire: Wire) -> None:
    wire.push("a")
    position: Json = {"queue": "q", "consumerGroup": "g", "offset": 0, "metadata": "x" * 4097}
    record = wire.record("POST", "/api/v1/transaction", {"positions": [position]}, 413)
    assert record["code"] == "too_large"
