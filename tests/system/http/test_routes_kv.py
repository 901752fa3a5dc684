"""Key/value and lock operations on the wire."""

from __future__ import annotations

import pytest

from atleastonce.system.http.routes import ReadRequest, route

from .wire import Json, Wire, objects

PUT: dict[str, Json] = {"op": "put", "ns": "ns", "key": "k", "value": {"a": 1}, "ttlSeconds": 60}


def kv(wire: Wire, *operations: dict[str, Json]) -> list[dict[str, Json]]:
    body: Json = {"operations": [*operations]}
    return objects(wire.record("POST", "/api/v1/kv", body)["results"])


def locks(wire: Wire, **operation: Json) -> dict[str, Json]:
    body: Json = {"operations": [operation]}
    (result,) = objects(wire.record("POST", "/api/v1/locks", body)["results"])
    return result


def test_a_put_and_a_get_answer_the_documented_shape(wire: Wire) -> None:
    (put,) = kv(wire, PUT)
    assert put.pop("expiresAt") == "2027-01-15T08:01:00.000000Z"
    assert put == {
        "index": 0,
        "op": "put",
        "key": "k",
        "applied": True,
        "version": 1,
        "value": {"a": 1},
    }
    (got,) = kv(wire, {"op": "get", "ns": "ns", "key": "k"})
    assert got.pop("expiresAt")
    assert got.pop("updatedAt") == "2027-01-15T08:00:00.000000Z"
    assert got == {
        "index": 0,
        "op": "get",
        "found": True,
        "key": "k",
        "value": {"a": 1},
        "version": 1,
    }


def test_null_is_a_value_and_absence_is_not(wire: Wire) -> None:
    kv(wire, {**PUT, "value": None})
    null, absent = kv(
        wire, {"op": "get", "ns": "ns", "key": "k"}, {"op": "get", "ns": "ns", "key": "x"}
    )
    assert (null["found"], null["value"]) == (True, None)
    assert (absent["found"], absent["value"], absent["version"]) == (False, None, 0)


def test_a_loser_is_told_the_row_that_beat_it(wire: Wire) -> None:
    kv(wire, PUT)
    (lost,) = kv(wire, {**PUT, "op": "putIfAbsent", "value": 2})
    assert (lost["op"], lost["applied"], lost["reason"]) == ("putIfAbsent", False, "exists")
    assert (lost["value"], lost["version"]) == ({"a": 1}, 1)


def test_lists_have_rows_and_what_is_missing_or_next(wire: Wire) -> None:
    kv(wire, *({**PUT, "key": f"k{n}"} for n in range(3)))
    many, page, keys = kv(
        wire,
        {"op": "getMany", "ns": "ns", "keys": ["k1", "x"]},
        {"op": "getPrefix", "ns": "ns", "prefix": "k", "limit": 2},
        {"op": "getPrefix", "ns": "ns", "prefix": "k", "after": "k1", "keysOnly": True},
    )
    assert [row["key"] for row in objects(many["rows"])] == ["k1"]
    assert (many["missing"], many["truncated"]) == (["x"], False)
    assert (page["truncated"], page["nextAfter"]) == (True, "k1")
    (last,) = objects(keys["rows"])
    assert (last["key"], "value" in last, keys["nextAfter"]) == ("k2", False, None)


def test_a_lost_required_operation_is_a_200_with_its_index(wire: Wire) -> None:
    body: Json = {"operations": [PUT, {**PUT, "op": "putIfAbsent", "required": True}]}
    assert wire.record("POST", "/api/v1/kv", body) == {
        "ok": False,
        "reason": "kv_precondition",
        "failedIndex": 1,
        "kvReason": "exists",
        "version": 1,
        "value": {"a": 1},
    }
    (got,) = kv(wire, {"op": "get", "ns": "ns", "key": "k"})
    assert got["found"] is False


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"ns": "NOT A NAMESPACE"}, "kv_bad_request"),
        ({"ns": None}, "kv_bad_request"),
        ({"key": ""}, "kv_bad_request"),
        ({"key": "k" * 513}, "kv_bad_request"),
        ({"op": "swap"}, "kv_unknown_op"),
        ({"op": None}, "kv_unknown_op"),
        ({"ttlSeconds": None}, "kv_expiry_not_specified"),
        ({"forever": True}, "kv_expiry_not_specified"),
        ({"ttlSeconds": 0}, "kv_bad_request"),
        ({"ttlSeconds": 1.5}, "kv_bad_request"),
        ({"expect": None}, "kv_bad_request"),
        ({"expect": -1}, "kv_bad_request"),
        ({"op": "putIfAbsent", "expect": 3}, "kv_bad_request"),
        ({"op": "incr", "expect": 0}, "kv_bad_request"),
        ({"op": "incr", "delta": "1"}, "kv_bad_request"),
        ({"op": "incr", "delta": 10**30}, "kv_bad_request"),
        ({"op": "check"}, "kv_bad_request"),
        ({"op": "getMany", "keys": []}, "kv_bad_request"),
        ({"op": "getPrefix", "prefix": ""}, "kv_prefix_required"),
        ({"op": "getPrefix", "prefix": "p", "after": 7}, "kv_bad_request"),
        ({"op": "getPrefix", "prefix": "p", "limit": True}, "kv_bad_request"),
    ],
)
def test_a_malformed_operation_is_a_named_400(
    wire: Wire, changes: dict[str, Json], code: str
) -> None:
    body: Json = {"operations": [{**PUT, **changes}]}
    record = wire.record("POST", "/api/v1/kv", body, 400)
    assert record["error"] == code
    assert set(record) == {"error", "reason", "detail"}


def test_a_write_needs_a_value_of_at_most_64_kib(wire: Wire) -> None:
    bare = {name: value for name, value in PUT.items() if name != "value"}
    assert wire.record("POST", "/api/v1/kv", {"operations": [bare]}, 400)["reason"] == "value"
    large: Json = {"operations": [{**PUT, "value": "x" * 65_536}]}
    assert wire.record("POST", "/api/v1/kv", large, 413)["error"] == "kv_value_too_large"


def test_a_batch_has_at_most_64_operations_and_256_keys(wire: Wire) -> None:
    get: Json = {"op": "get", "ns": "ns", "key": "k"}
    assert wire.send("POST", "/api/v1/kv", {"operations": [get] * 65}).status == 400
    many: Json = {"op": "getMany", "ns": "ns", "keys": [f"k{n}" for n in range(129)]}
    assert wire.send("POST", "/api/v1/kv", {"operations": [many, many]}).status == 400


def test_a_batch_that_only_reads_stays_out_of_the_log() -> None:
    body = b'{"operations":[{"op":"get","ns":"n","key":"k"}]}'
    assert isinstance(route("POST", "/api/v1/kv", {}, body, "id"), ReadRequest)


def test_one_row_is_read_written_and_removed_by_its_path(wire: Wire) -> None:
    put = wire.record("PUT", "/api/v1/kv/ns/a/b%20c", {"value": [1], "forever": True})
    assert (put["applied"], put["key"], put["expiresAt"]) == (True, "a/b c", None)
    assert wire.record("GET", "/api/v1/kv/ns/a/b%20c")["value"] == [1]
    assert wire.record("DELETE", "/api/v1/kv/ns/a/b%20c?expect=9")["reason"] == "version"
    assert wire.record("DELETE", "/api/v1/kv/ns/a/b%20c?expect=x", b"", 400)["reason"] == "expect"
    assert wire.record("DELETE", "/api/v1/kv/ns/a/b%20c")["applied"] is True
    assert wire.record("GET", "/api/v1/kv/ns/a/b%20c")["found"] is False


def test_kv_in_a_transaction_takes_its_place_in_the_flat_numbering(wire: Wire) -> None:
    push: dict[str, Json] = {"type": "push", "queue": "q", "transactionId": "a", "payload": 1}
    body = wire.record("POST", "/api/v1/transaction", {"operations": [push], "kv": [PUT]})
    element = objects(body["results"])[1]
    assert (element["index"], element["opIndex"], element["type"]) == (1, 0, "kv")
    gate: Json = {**PUT, "op": "putIfAbsent", "required": True}
    again: Json = {**push, "transactionId": "b"}
    lost = wire.record("POST", "/api/v1/transaction", {"operations": [again], "kv": [gate]})
    assert lost.pop("transactionId")
    assert "rolled back" in str(lost.pop("error"))
    assert lost == {
        "success": False,
        "reason": "kv_precondition",
        "results": [],
        "ok": False,
        "failedIndex": 1,
        "kvReason": "exists",
        "version": 1,
        "value": {"a": 1},
    }
    assert len(wire.pop()) == 1


def test_a_transaction_may_hold_kv_alone_but_no_prefix(wire: Wire) -> None:
    assert wire.record("POST", "/api/v1/transaction", {"kv": [PUT]})["success"] is True
    prefix: Json = {"op": "getPrefix", "ns": "ns", "prefix": "k"}
    refused = wire.record("POST", "/api/v1/transaction", {"kv": [prefix]}, 400)
    assert refused["error"] == "kv_bad_request"


def test_a_lock_answers_its_permit_and_the_guard_of_it(wire: Wire) -> None:
    taken = locks(wire, op="acquire", name="l", ttlSeconds=30, owner="me", limit=None)
    assert taken.pop("expiresAt")
    guard: Json = {
        "op": "check",
        "ns": "queen-locks",
        "key": "l#0",
        "expect": 1,
        "required": True,
    }
    assert taken == {
        "index": 0,
        "op": "acquire",
        "name": "l",
        "acquired": True,
        "slot": 0,
        "token": 1,
        "owner": "me",
        "guard": guard,
    }
    again = locks(wire, op="acquire", name="l", ttlSeconds=30, owner="me")
    assert (again["already"], again["token"]) == (True, 1)
    held = locks(wire, op="acquire", name="l", ttlSeconds=30)
    assert (held["acquired"], held["reason"]) == (False, "held")
    (holder,) = objects(held["holders"])
    assert set(holder) == {"slot", "owner", "token", "since", "renewedAt", "expiresAt"}


def test_a_lock_is_renewed_released_and_asked_for(wire: Wire) -> None:
    locks(wire, op="acquire", name="l", ttlSeconds=30, owner="me")
    renewed = locks(wire, op="renew", name="l", token=1, ttlSeconds=30)
    assert (renewed["renewed"], renewed["token"]) == (True, 2)
    lost = locks(wire, op="renew", name="l", token=1, ttlSeconds=30)
    assert (lost["renewed"], lost["reason"]) == (False, "lost")
    assert locks(wire, op="get", name="l")["held"] is True
    assert locks(wire, op="release", name="l", token=1)["reason"] == "lost"
    assert locks(wire, op="release", name="l", token=2)["released"] is True
    asked = locks(wire, op="get", name="l")
    assert (asked["held"], asked["holders"]) == (False, [])


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "acquire", "name": "", "ttlSeconds": 1},
        {"op": "acquire", "name": "a#b", "ttlSeconds": 1},
        {"op": "acquire", "name": "a\n", "ttlSeconds": 1},
        {"op": "acquire", "name": "x" * 257, "ttlSeconds": 1},
        {"op": "acquire", "name": "a"},
        {"op": "acquire", "name": "a", "ttlSeconds": 1, "limit": 1025},
        {"op": "acquire", "name": "a", "ttlSeconds": 1, "owner": 7},
        {"op": "renew", "name": "a", "ttlSeconds": 1},
        {"op": "release", "name": "a", "token": "1"},
        {"op": "steal", "name": "a"},
    ],
)
def test_a_malformed_lock_operation_is_400(wire: Wire, operation: dict[str, Json]) -> None:
    assert wire.send("POST", "/api/v1/locks", {"operations": [operation]}).status == 400
