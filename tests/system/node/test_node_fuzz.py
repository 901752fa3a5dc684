"""Anything may arrive at either port: no crash, no hang, no status that is not stated."""

from __future__ import annotations

import json
import random
from typing import Any, Final

import trio
import trio.testing
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from atleastonce.system.http.framing import Request
from atleastonce.system.node.frames import (
    HEADER_BYTES,
    Forward,
    FrameBuffer,
    NodeReport,
    Undelivered,
    Withdraw,
    encode,
    frame,
)
from atleastonce.system.node.handshake import CHALLENGE_BYTES, greet
from atleastonce.system.raft.messages import (
    AppendEntries,
    AppendReply,
    Entry,
    EntryKind,
    RequestVote,
    TimeoutNow,
    VoteReply,
    encode_message,
)

from .virtual_nodes import TOKEN, HangingUp, VirtualCluster, VirtualNode, read, run_virtual

STATED: Final = {
    200,
    201,
    204,
    400,
    401,
    403,
    404,
    405,
    408,
    409,
    413,
    429,
    431,
    501,
    503,
    505,
    507,
}
SERVER_ERRORS: Final = {503, 507}
FUZZ = settings(
    max_examples=40,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def words(text: str) -> list[str]:
    return text.split()


names = st.one_of(
    st.sampled_from(["q", "p", "", "t", "__QUEUE_MODE__", "a.b", "%2F", "\x00", "é", "x" * 500]),
    st.text(max_size=8),
)
numbers = st.one_of(
    st.integers(-3, 3), st.integers(), st.floats(), st.sampled_from([2**31, 2**63, 2**64, -(2**63)])
)
scalars = st.one_of(st.none(), st.booleans(), numbers, names)
fields = st.sampled_from(
    words(
        "items queue partition payload transactionId operations type acknowledgments status "
        "error partitionId leaseId consumerGroup op timerKey delayMs deliverAt txn options "
        "leaseTime entries offset maxWaitMs seconds requiredLeases timers namespace task "
        "retryLimit dedupWindowSeconds minBytes maxBytes ops ns key value ttlSeconds expect delta "
        "min max prefix keys name owner token slot limit timestamp toEnd subscriptionTimestamp "
        "data configHash queryId stateOps pushItems ack consumer_group source_queue query_id "
        "partition_id state_ops push_items"
    )
)
values = st.recursive(
    st.one_of(
        scalars, st.sampled_from(["push", "ack", "schedule", "cancel", "completed", "failed"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(fields, inner, max_size=5)
    ),
    max_leaves=12,
)
item = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("queue", "partition", "payload", "transactionId"), values)
)
bodies = st.one_of(
    values,
    st.fixed_dictionaries({"items": st.lists(item, max_size=3)}),
    st.fixed_dictionaries({"operations": st.lists(st.dictionaries(fields, values), max_size=3)}),
    st.fixed_dictionaries({"acknowledgments": st.lists(st.dictionaries(fields, values))}),
)
paths = st.one_of(
    st.sampled_from(
        words(
            "/ /health /metrics /metrics/prometheus /api/v1/push /api/v1/ack /api/v1/ack/batch "
            "/api/v1/transaction /api/v1/timers /api/v1/configure /api/v1/fetch /api/v1/dlq "
            "/api/v1/pop/queue/q /api/v1/pop/queue/q/partition/p /api/v1/lease/l/extend "
            "/api/v1/resources/queues/q /api/v1/resources/queues/q/depth /api/v1/messages/1/t "
            "/api/v1/timers/q /api/v1/timers/q/k /api/v1/kv /api/v1/kv/n/k /api/v1/locks "
            "/api/v1/pop /api/v1/messages /api/v1/traces /api/v1/traces/names "
            "/api/v1/traces/1/t /api/v1/partitions/changed /api/v1/stats/refresh "
            "/api/v1/consumer-groups /api/v1/consumer-groups/g "
            "/api/v1/consumer-groups/g/queues/q/seek /api/v1/consumer-groups/g/subscription "
            "/api/v1/resources/queues /api/v1/status/queues/q /api/v1/resources/namespaces "
            "/api/v1/messages/1/t/retry /api/v1/dlq/1/replay /streams/v1/queries "
            "/streams/v1/cycle /streams/v1/state/get"
        )
    ),
    st.builds(lambda a, b: f"/api/v1/{a}/{b}", names, names),
    st.text(max_size=12),
)
queries = st.dictionaries(
    st.sampled_from(
        words(
            "batch partitions leaseSeconds autoAck consumerGroup subscriptionMode "
            "subscriptionFrom limit after prefix count group autopilot"
        )
    ),
    st.one_of(st.integers().map(str), names),
    max_size=3,
).map(lambda pairs: "&".join(f"{name}={value}" for name, value in pairs.items()))
requests = st.tuples(
    st.sampled_from(["GET", "POST", "DELETE", "PUT", "HEAD", "OPTIONS"]),
    paths,
    queries,
    st.one_of(bodies, st.binary(max_size=30)),
    st.dictionaries(
        st.sampled_from(["x-request-id", "x-deadline-ms", "content-type"]), names, max_size=2
    ),
)


def body_bytes(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


async def still_serves(node: VirtualNode) -> None:
    with trio.fail_after(30):
        status, _ = await node.push("alive", "m")
        assert status == 201
        assert node.counters.internal_errors == 0
        assert [line for line in node.lines if line["level"] == "error"] == []


@FUZZ
@given(st.lists(requests, min_size=10, max_size=30))
def test_no_request_gets_a_status_that_is_not_stated(batch: list[Any]) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        node = await cluster.leader()
        for method, path, query, body, headers in batch:
            request = Request(method, f"{path}?{query}", headers, body_bytes(body), True)
            with trio.fail_after(70):
                answer = (await node.node.service.handle(request, HangingUp())).answer
            assert answer.status in STATED, (request, answer)
            assert answer.status < 500 or answer.status in SERVER_ERRORS, (request, answer)
            if answer.status >= 400 and answer.content_type == "application/json":
                assert isinstance(json.loads(answer.body)["error"], str)
        await still_serves(node)

    run_virtual(scenario, size=1)


def request_bytes(request: Any) -> bytes:
    method, path, query, body, headers = request
    data = body_bytes(body)
    lines = [f"{method} {path}?{query} HTTP/1.1", "Host: a", f"Content-Length: {len(data)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + data


def mutated(data: bytes, seed: int) -> bytes:
    """Flip, cut, repeat or insert a few bytes."""
    draw = random.Random(seed)
    content = bytearray(data)
    for _ in range(draw.randint(0, 3)):
        at = draw.randrange(len(content) + 1)
        act = draw.choice(["flip", "cut", "repeat", "insert"])
        if act == "flip" and at < len(content):
            content[at] ^= 1 << draw.randrange(8)
        elif act == "cut":
            del content[at : at + draw.randint(1, 20)]
        elif act == "repeat":
            content[at:at] = content[at : at + draw.randint(1, 20)]
        else:
            content[at:at] = draw.randbytes(draw.randint(1, 8))
    return bytes(content)


@FUZZ
@given(st.lists(st.tuples(requests, st.integers(0, 2**32)), min_size=5, max_size=20))
def test_no_bytes_on_a_client_connection_stop_the_node(batch: list[Any]) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        node = await cluster.leader()
        for request, seed in batch:
            data = mutated(request_bytes(request), seed)
            client, side = trio.testing.memory_stream_pair()
            answer = bytearray()
            with trio.fail_after(200):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(node.node.server.serve, side)
                    cut = random.Random(seed).randrange(len(data) + 1)
                    await client.send_all(data[:cut])
                    await client.send_all(data[cut:])
                    await client.send_eof()
                    while more := await client.receive_some():
                        answer += more
            if answer:
                assert answer.startswith(b"HTTP/1.1 ")
                status = int(answer[9:12])
                assert status in STATED | {100}, (data, bytes(answer[:200]))
                assert status < 500 or status in SERVER_ERRORS | {505}, (data, bytes(answer[:200]))
        await still_serves(node)

    run_virtual(scenario, size=1)


forwards = st.one_of(
    st.builds(
        lambda at, request: Forward(
            at,
            request[0],
            f"{request[1]}?{request[2]}".encode("utf-8", "replace").decode(),
            request[4],
            body_bytes(request[3]),
            "r",
            200,
        ),
        st.integers(0, 3),
        requests,
    ),
    st.builds(Withdraw, st.integers(-1, 4), st.booleans()),
    st.builds(Undelivered, st.text(max_size=5)),
    st.builds(NodeReport, st.just(False), st.one_of(st.none(), st.integers(0, 2**62))),
).map(encode)
small = st.integers(0, 3)
entries = st.lists(
    st.builds(Entry, small, small, st.sampled_from(EntryKind), st.binary(max_size=5)), max_size=2
).map(tuple)
rafts = st.one_of(
    st.builds(RequestVote, small, small, small, st.booleans(), st.booleans()),
    st.builds(VoteReply, small, st.booleans(), st.booleans()),
    st.builds(AppendEntries, small, small, small, small, small, entries),
    st.builds(AppendReply, small, st.booleans(), small, small, small, small),
    st.builds(TimeoutNow, small),
).map(lambda message: frame(encode_message(message)))


async def speak(node: VirtualNode, channel: Any, frames: list[bytes], peer: str = "n2") -> None:
    """Greet as a peer that knows the token, and then send bytes."""
    client, side = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(node.node.gate.serve, side)
        buffer, _ = await greet(client, TOKEN, peer, node.name, channel, bytes(CHALLENGE_BYTES))
        assert isinstance(buffer, FrameBuffer)
        with trio.move_on_after(20):
            try:
                for data in frames:
                    await client.send_all(data)
                    await trio.testing.wait_all_tasks_blocked()
                await client.send_eof()
                while await client.receive_some():
                    pass
            except trio.BrokenResourceError:
                pass
        await client.aclose()


def changed(frames: list[tuple[bytes, int]]) -> list[bytes]:
    """Mutate the contents of some frames, under a length that fits."""
    return [
        data if seed % 3 == 0 else frame(mutated(data[HEADER_BYTES:], seed))
        for data, seed in frames
    ]


seeds = st.integers(0, 2**32)


@FUZZ
@given(st.lists(st.tuples(forwards, seeds), min_size=3, max_size=12))
def test_no_frame_of_a_peers_requests_stops_the_node(frames: list[tuple[bytes, int]]) -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        if leader.name == "n2":
            leader = (await cluster.followers())[0]
        await speak(leader, "forward", changed(frames))
        status, _ = await leader.push("alive", "m")
        assert status == 201
        assert leader.counters.internal_errors == 0

    run_virtual(scenario)


@FUZZ
@given(st.lists(st.tuples(rafts, seeds), min_size=3, max_size=12))
def test_no_broken_frame_of_raft_stops_the_node(frames: list[tuple[bytes, int]]) -> None:
    """Frames cut, flipped and repeated; whole ones of a lying peer are the simulator's matter."""

    async def scenario(cluster: VirtualCluster) -> None:
        node = cluster.nodes["n1"]
        broken = [frame(mutated(data[HEADER_BYTES:], seed) + b"\xc1") for data, seed in frames]
        await speak(node, "raft", broken)
        assert (await node.push("alive", "m"))[0] == 201
        assert read(await node.call("GET", "/health"))[0] == 200

    run_virtual(scenario)


def test_a_body_nested_without_end_never_breaks_a_node() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        node = await cluster.leader()
        for depth in (5000, 200_000):
            for data in (b"[" * depth, b'{"items":' * depth, b"[" * depth + b"]" * depth):
                for path in ("push", "transaction", "ack/batch", "configure", "timers"):
                    for body in (data, b'{"items":[{"queue":"q","payload":' + data + b"}]}"):
                        request = Request("POST", f"/api/v1/{path}", {}, body, True)
                        answer = (await node.node.service.handle(request, HangingUp())).answer
                        # How deep an interpreter can read is its own; beyond that it is 400.
                        assert answer.status < 500, (path, depth, answer)
        await still_serves(node)

    run_virtual(scenario, size=1)


def test_a_request_number_used_twice_ends_that_connection_alone() -> None:
    async def scenario(cluster: VirtualCluster) -> None:
        leader = await cluster.leader()
        peer = next(name for name in cluster.names if name != leader.name)
        target = "/api/v1/pop/queue/q?wait=true&timeout=5000"
        twice = [encode(Forward(7, "GET", target, {}, b"", "r", 5000))] * 2
        await speak(leader, "forward", twice, peer)
        assert [line["event"] for line in leader.lines if line["event"] == "peer-refused"]
        assert (await leader.push("alive", "m"))[0] == 201

    run_virtual(scenario)
