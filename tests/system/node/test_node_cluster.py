"""Three real node processes on loopback: kills, stops, pauses, strangers."""

from __future__ import annotations

import http.client
import signal
import socket
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .conftest import MakeCluster
from .node_cluster import Cluster, NodeProcess, drain, wait_until

pytestmark = pytest.mark.cluster


def waiting_pop(node: NodeProcess, queue: str, timeout_ms: int = 20_000) -> tuple[int, Any]:
    client = node.client(timeout_s=timeout_ms / 1000 + 5)
    try:
        return client.pop(queue, wait="true", timeout=timeout_ms)
    finally:
        client.hang_up()


def wait_parked(leader: NodeProcess, count: int) -> None:
    """Wait until the leader has parked so many pops since its start."""
    client = leader.client()
    wait_until(
        f"{count} parked pops",
        lambda: client.call("GET", "/metrics")[1]["counters"]["parked"] >= count,
    )
    client.hang_up()


class Pusher:
    """Pushes through one node until stopped, retrying what got no answer with the same id."""

    def __init__(self, node: NodeProcess, queue: str) -> None:
        self.acknowledged: list[str] = []
        self.failures: list[str] = []
        self._node = node
        self._queue = queue
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        client = self._node.client()
        number = 0
        while not self._stop.is_set():
            name = f"{self._node.name}-{number}"
            try:
                status, body = client.push(self._queue, name)
            except (OSError, http.client.HTTPException) as error:
                self.failures.append(repr(error))
                self._stop.wait(0.02)
                continue
            if status == 201:
                self.acknowledged.append(name)
                number += 1
            else:
                self.failures.append(f"{status} {body}")
        client.hang_up()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def caught_up(cluster: Cluster) -> None:
    """Wait until all running nodes have applied the same index."""

    def look() -> bool:
        states = []
        for node in cluster.running():
            client = node.client()
            states.append(client.health())
            client.hang_up()
        return (
            all(state is not None and state["raft"]["lag"] == 0 for state in states)
            and len({state["raft"]["applied"] for state in states}) == 1
        )

    wait_until("all nodes caught up", look)


def test_a_killed_leader_loses_nothing_acknowledged_and_catches_up(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    for node in cluster.nodes.values():
        client = node.client()
        assert client.push("q", f"first-{node.name}")[0] == 201
        status, popped = client.pop("q", batch=1)
        assert status == 200
        assert client.ack(popped)[1][0]["success"] is True
        client.hang_up()
    leader = cluster.leader()
    pushers = [Pusher(node, "q") for node in cluster.followers()]
    wait_until("pushes", lambda: all(len(p.acknowledged) > 20 for p in pushers))
    leader.kill()
    counts = [len(pusher.acknowledged) for pusher in pushers]
    took = wait_until(
        "pushes after the kill",
        lambda: all(len(p.acknowledged) > n + 5 for p, n in zip(pushers, counts, strict=True)),
    )
    for pusher in pushers:
        pusher.stop()
    assert took < 5.0
    assert [pusher.failures for pusher in pushers] == [[], []]
    leader.start()
    cluster.wait_healthy()
    caught_up(cluster)
    client = leader.client()
    messages = drain(client, "q")
    client.hang_up()
    acknowledged = [name for pusher in pushers for name in pusher.acknowledged]
    assert sorted(messages) == sorted(set(messages))
    assert set(acknowledged) <= set(messages)


def test_a_stopped_leader_fails_no_request_of_other_nodes_clients(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader = cluster.leader()
    others = cluster.followers()
    pushers = [Pusher(node, "q") for node in others]
    with ThreadPoolExecutor(3) as pool:
        own: Future[tuple[int, Any]] = pool.submit(waiting_pop, leader, "empty")
        theirs = [pool.submit(waiting_pop, node, "empty") for node in others]
        wait_parked(leader, 3)
        leader.signal(signal.SIGTERM)
        assert own.result(10) == (204, None)
        assert leader.wait() == 0
        counts = [len(pusher.acknowledged) for pusher in pushers]
        wait_until(
            "pushes after the stop",
            lambda: all(len(p.acknowledged) > n for p, n in zip(pushers, counts, strict=True)),
        )
        for pusher in pushers:
            pusher.stop()
        for node in others:
            client = node.client()
            assert client.push("empty", node.name, partition=node.name)[0] == 201
            client.hang_up()
        assert [future.result(15)[0] for future in theirs] == [200, 200]
    assert [pusher.failures for pusher in pushers] == [[], []]
    stages = [record["stage"] for record in leader.events("stopping")]
    assert stages == ["waiting pops", "drained", "leadership", "own connections"]


def test_a_paused_leader_steps_down_and_serves_on(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader = cluster.leader()
    follower = cluster.followers()[0]
    pusher = Pusher(follower, "q")
    wait_until("pushes", lambda: len(pusher.acknowledged) > 20)
    leader.signal(signal.SIGSTOP)
    count = len(pusher.acknowledged)
    wait_until("pushes past the pause", lambda: len(pusher.acknowledged) > count + 5)
    leader.signal(signal.SIGCONT)
    client = leader.client()
    assert client.push("q", "by the old leader")[0] == 201
    pusher.stop()
    assert pusher.failures == []
    assert leader.events("step-down")[0]["reason"]
    caught_up(cluster)
    messages = drain(client, "q")
    client.hang_up()
    assert set(pusher.acknowledged) <= set(messages)
    assert "by the old leader" in messages


def hang_up_while_parked(
    leader: NodeProcess, through: NodeProcess, queue: str, parked: int
) -> None:
    gone = socket.create_connection(("127.0.0.1", through.port))
    target = f"/api/v1/pop/queue/{queue}?wait=true&timeout=30000"
    gone.sendall(f"GET {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    wait_parked(leader, parked)
    gone.close()
    client = through.client()
    assert client.push(queue, "x")[0] == 201
    status, popped = client.pop(queue, wait="true", timeout=2000)
    assert status == 200
    assert popped["messages"][0]["deliveryAttempt"] == 1
    client.hang_up()


def test_a_client_that_hangs_up_while_parked_leaves_no_claim(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader = cluster.leader()
    hang_up_while_parked(leader, leader, "own", 1)
    hang_up_while_parked(leader, cluster.followers()[0], "forwarded", 2)


def test_large_bodies_are_forwarded(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    client = cluster.followers()[0].client()
    payload = "x" * (8 << 20)
    body = {"items": [{"queue": "big", "payload": payload}]}
    assert client.call("POST", "/api/v1/push", body)[0] == 201
    assert client.pop("big")[1]["messages"][0]["data"] == payload
    client.hang_up()


def test_a_node_with_another_token_is_turned_away(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    cluster = make_cluster(3)
    stranger = cluster.nodes["n3"]
    cluster.start()
    stranger.kill()
    (tmp_path / "other-token").write_text("another token of some length")
    (tmp_path / "other-token").chmod(0o600)
    stranger.config["token_file"] = str(tmp_path / "other-token")
    stranger.start()
    leader = cluster.leader()
    assert leader is not stranger
    wait_until("a refusal", lambda: bool(leader.events("peer-refused")))
    assert "token" in leader.events("peer-refused")[0]["reason"]
    client = stranger.client()
    health = client.health()
    client.hang_up()
    assert health["status"] == "settling"
    for node in cluster.nodes.values():
        text = node.log_path.read_text()
        assert "a token that all nodes" not in text
        assert "another token of" not in text
