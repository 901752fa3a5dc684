"""Whatever a client sends, the routes answer and the machine goes on."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from .wire import Json, Wire

NAMES = (
    "op",
    "ns",
    "key",
    "keys",
    "prefix",
    "after",
    "limit",
    "keysOnly",
    "value",
    "ttlSeconds",
    "forever",
    "expect",
    "required",
    "delta",
    "min",
    "max",
    "name",
    "owner",
    "token",
    "slot",
    "queue",
    "partition",
    "since",
    "toEnd",
    "timestamp",
    "subscriptionTimestamp",
    "transactionId",
    "partitionId",
    "data",
    "traceNames",
    "consumerGroup",
    "eventType",
    "query_id",
    "partition_id",
    "state_ops",
    "push_items",
    "ack",
    "release_lease",
    "config_hash",
    "reset",
    "type",
    "leaseId",
    "count",
    "payload",
    "kv",
    "operations",
    "entries",
    "keys",
    "timers",
    "timerKey",
    "txn",
    "delayMs",
    "key_prefix",
    "ripe_at_or_before",
)
WORDS = (
    "get",
    "getMany",
    "getPrefix",
    "put",
    "putIfAbsent",
    "incr",
    "delete",
    "check",
    "acquire",
    "renew",
    "release",
    "push",
    "ack",
    "upsert",
    "ns",
    "k",
    "q",
    "p",
    "g",
    "1",
    "query",
    "a",
    "dlq",
    "failed",
    "completed",
    "schedule",
    "cancel",
    "MQ==",
    "h",
)
TARGETS = (
    ("POST", "/api/v1/kv"),
    ("POST", "/api/v1/locks"),
    ("POST", "/api/v1/transaction"),
    ("PUT", "/api/v1/kv/ns/k"),
    ("DELETE", "/api/v1/kv/ns/k?expect=1"),
    ("POST", "/api/v1/traces"),
    ("POST", "/api/v1/partitions/changed"),
    ("POST", "/api/v1/consumer-groups/g/queues/q/seek"),
    ("POST", "/api/v1/consumer-groups/g/queues/q/partitions/p/seek"),
    ("POST", "/api/v1/consumer-groups/g/subscription"),
    ("DELETE", "/api/v1/consumer-groups/g"),
    ("POST", "/api/v1/dlq/x/replay"),
    ("POST", "/api/v1/messages/1/a/retry"),
    ("POST", "/streams/v1/queries"),
    ("POST", "/streams/v1/state/get"),
    ("POST", "/streams/v1/cycle"),
)
LOOKS = (
    "/api/v1/messages?limit=9",
    "/api/v1/messages/1/a",
    "/api/v1/consumer-groups",
    "/api/v1/consumer-groups/lagging",
    "/api/v1/resources/queues",
    "/api/v1/status/queues/q",
    "/api/v1/traces/names",
    "/api/v1/dlq",
)

scalars: st.SearchStrategy[Json] = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, -1, 1 << 63, -(1 << 63), 10**40])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(WORDS)
    | st.sampled_from(["", "#", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59"])
    | st.text(max_size=6).filter(str.isprintable)
)
fields = st.sampled_from(NAMES)
values: st.SearchStrategy[Json] = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(fields, inner, max_size=5),
    max_leaves=8,
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(WORDS), "ns": st.just("ns"), "key": st.just("k"), "name": st.just("l")},
    optional={
        "value": scalars,
        "ttlSeconds": st.just(60),
        "expect": scalars,
        "delta": scalars,
        "token": st.integers(1, 9),
    },
)
bodies = st.dictionaries(fields, values, max_size=6) | st.fixed_dictionaries(
    {"operations": st.lists(operations, max_size=3)}, optional={"kv": st.lists(operations)}
)


@settings(max_examples=120)
@given(st.lists(st.tuples(st.sampled_from(TARGETS), bodies), min_size=1, max_size=6))
def test_no_request_is_answered_with_an_accident(
    requests: list[tuple[tuple[str, str], Json]],
) -> None:
    wire = Wire()
    wire.push("a", "b")
    (message, _) = wire.pop(consumerGroup="g", subscriptionMode="all")
    wire.ack(message, status="dlq", consumerGroup="g")
    for (method, target), body in requests:
        assert wire.send(method, target, body).status < 500
    for target in LOOKS:
        assert wire.send("GET", target).status in (200, 404)
    assert wire.machine.digest()
