"""SIGTERM to real nodes: what is owed is answered, and the right one takes over, soon."""

from __future__ import annotations

import http.client
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from .conftest import MakeCluster
from .node_cluster import NodeProcess, wait_until

pytestmark = pytest.mark.cluster

DRAIN_MS = 500
SCHEDULING_MS = 150
"""What a busy machine may add to a bound that is the node's own."""


def stages_ms(node: NodeProcess) -> dict[str, float]:
    """When each stage of its stop was reached, after the first of them."""
    records = node.events("stopping")
    return {r["stage"]: (r["t_ns"] - records[0]["t_ns"]) / 1e6 for r in records}


class Consumer:
    """Pops and acks through one node until its connection ends; pushes what it pops."""

    def __init__(self, node: NodeProcess, partition: str) -> None:
        self.acked = 0
        self.unanswered: list[str] = []
        self.refused: list[Any] = []
        self._node = node
        self._partition = partition
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        client = self._node.client()
        try:
            while self._round(client):
                pass
        except (OSError, http.client.HTTPException):
            # Between two requests the connection may end; nothing was owed.
            return
        finally:
            client.hang_up()

    def _round(self, client: Any) -> bool:
        if client.push("q", f"{self._partition}-{self.acked}", partition=self._partition)[0] != 201:
            return False
        status, popped = client.call(
            "GET", f"/api/v1/pop/queue/q/partition/{self._partition}?batch=1&subscriptionMode=all"
        )
        if status != 200:
            return False
        try:
            status, results = client.ack(popped)
        except (ConnectionRefusedError, BrokenPipeError):
            # The node had ended the connection before the ack set out (its body, behind its head,
            # found a pipe that was broken): a slow client between two requests. Nothing was owed.
            return False
        except (OSError, http.client.HTTPException) as error:
            self.unanswered.append(repr(error))
            return False
        if status == 200 and all(result["success"] for result in results):
            self.acked += 1
            return True
        self.refused.append((status, results))
        return False

    def join(self) -> None:
        self._thread.join(20)


def test_acks_on_their_way_at_a_sigterm_are_answered_within_the_drain(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader = cluster.leader()
    consumers = [Consumer(leader, f"p{number}") for number in range(4)]
    wait_until("acks", lambda: all(consumer.acked > 10 for consumer in consumers))

    leader.signal(signal.SIGTERM)
    status = leader.wait()

    for consumer in consumers:
        consumer.join()
    assert status == 0
    assert [consumer.refused for consumer in consumers] == [[]] * 4
    assert [consumer.unanswered for consumer in consumers] == [[]] * 4
    assert stages_ms(leader)["drained"] < DRAIN_MS + SCHEDULING_MS
    drained = next(r for r in leader.events("stopping") if r["stage"] == "drained")
    assert drained["left"] == 0


def test_leadership_goes_to_the_voter_that_has_kept_up(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader = cluster.leader()
    slow, quick = cluster.followers()
    client = leader.client()
    slow.signal(signal.SIGSTOP)
    for number in range(20):
        assert client.push("q", f"m{number}")[0] == 201
    client.hang_up()

    leader.signal(signal.SIGTERM)

    assert leader.wait() == 0
    slow.signal(signal.SIGCONT)
    handed = next(r for r in leader.events("stopping") if r["stage"] == "leadership")
    assert handed["leader"] == quick.name
    assert handed["took_ms"] < 500


def test_all_nodes_told_to_stop_at_once_wait_for_no_successor(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    client = cluster.leader().client()
    assert client.push("q", "m")[0] == 201
    client.hang_up()

    for node in cluster.nodes.values():
        node.signal(signal.SIGTERM)

    assert [node.wait() for node in cluster.nodes.values()] == [0, 0, 0]
    stops = [record for node in cluster.nodes.values() for record in node.events("stopping")]
    # As the nodes measure it: how long three processes take to end is the machine's affair.
    assert max(r["took_ms"] for r in stops if r["stage"] == "leadership") < 2000
    assert sum(len(node.events("stopping")) > 0 for node in cluster.nodes.values()) == 3


def test_a_leader_that_hears_nobody_steps_down_and_serves_again_afterwards(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    leader, others = cluster.leader(), cluster.followers()
    client = leader.client()
    assert client.push("q", "before")[0] == 201
    for node in others:
        node.signal(signal.SIGSTOP)

    def leads() -> bool:
        return bool(client.health()["raft"]["role"] == "leader")

    wait_until("no leader without a quorum", lambda: not leads())
    status, body = client.call(
        "POST",
        "/api/v1/push",
        {"items": [{"queue": "q", "payload": "lost"}]},
        {"x-deadline-ms": "300"},
    )
    assert (status, body["code"]) == (503, "no_leader")

    for node in others:
        node.signal(signal.SIGCONT)

    cluster.wait_healthy()
    assert client.push("q", "after")[0] == 201
    client.hang_up()


def test_a_leader_without_a_quorum_for_a_while_goes_on_where_it_stopped(
    make_cluster: MakeCluster,
) -> None:
    """Elections take longer than the silence, so that nobody else is asked to lead."""
    cluster = make_cluster(3, election_ms_min=3000, election_ms_max=6000)
    cluster.start()
    leader, others = cluster.leader(), cluster.followers()
    client, writer = leader.client(), leader.client()
    term = client.health()["raft"]["term"]
    for node in others:
        node.signal(signal.SIGSTOP)
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(writer.push, "q", "meanwhile")
        wait_until(
            "a second without a quorum",
            lambda: client.health()["raft"]["quorumAckMs"] > 1200,
        )
        for node in others:
            node.signal(signal.SIGCONT)
        assert written.result(10)[0] == 201
    for number in range(20):
        assert client.push("q", f"m{number}")[0] == 201
    assert client.health()["raft"]["term"] == term
    client.hang_up()
    writer.hang_up()
