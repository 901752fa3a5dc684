"""Real nodes: a member that lacks what is gone gets a snapshot, whatever dies meanwhile."""

from __future__ import annotations

import signal
import sys
import threading
from pathlib import Path

import pytest

from atleastonce.system.node.config import load_config
from atleastonce.system.node.opening import open_storage

from .conftest import MakeCluster
from .node_cluster import Client, Cluster, NodeProcess, drain, wait_until

pytestmark = pytest.mark.cluster

SMALL = {
    "checkpoint_ms": 50,
    "segment_bytes": 20_000,
    "tail_bytes": 10_000,
    "hold_bytes": 20_000,
}


ACTIVATION_STEPS = (2, 7, 9, 15)
"""Disk operations of an activation: the rename, the pointer, the log's reset, what is swept."""


class Writer:
    """Pushes to a queue, one at a time, until stopped; remembers what was taken."""

    def __init__(self, node: NodeProcess, queue: str) -> None:
        self.taken: list[str] = []
        self._client = node.client()
        self._queue = queue
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()
        self._client.hang_up()

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            number += 1
            name = f"{self._queue}{number}"
            if self._client.push(self._queue, name)[0] == 201:
                self.taken.append(name)


def storage(client: Client) -> tuple[int, int, int]:
    """Applied, last checkpoint, start of the log."""
    health = client.health()
    if health is None:
        return 0, 0, 0
    facts = health["storage"]
    return health["raft"]["applied"], facts["checkpoint"], facts["logStart"]


def wait_purged(node: NodeProcess, past: int) -> None:
    """Wait until a node's log begins behind an index."""
    client = node.client()
    wait_until("a log that was cut", lambda: storage(client)[2] > past)
    client.hang_up()


def settled_digests(cluster: Cluster) -> set[str]:
    """Wait until all nodes have checkpoints of the same state; kill them; hashes of the states."""
    clients = [node.client() for node in cluster.running()]

    def is_settled() -> bool:
        found = {storage(client)[:2] for client in clients}
        return len(found) == 1 and all(applied == saved > 0 for applied, saved in found)

    wait_until("the same checkpoint everywhere", is_settled)
    for client in clients:
        client.hang_up()
    digests = set()
    for node in cluster.running():
        node.kill()
        config = load_config(Path(node.config["token_file"]).parent / f"{node.name}.json")
        opened = open_storage(config)
        digests.add(opened.machine.digest())
        opened.in_force.store.close()
        opened.log.close()
        opened.folder.close()
    return digests


def fall_behind(
    cluster: Cluster,
    count: int,
    payload: str = "",
    victim: NodeProcess | None = None,
    queue: str = "q",
) -> tuple[NodeProcess, list[str]]:
    """Kill a follower and push until the others' logs begin behind what it has."""
    victim = victim or cluster.followers()[0]
    client = victim.client()
    behind = storage(client)[0]
    client.hang_up()
    victim.kill()
    leader = cluster.leader()
    client = leader.client()
    names = [f"m{number}" for number in range(count)]
    for at in range(0, count, 20):
        items = [
            {"queue": queue, "partition": "p", "transactionId": name, "payload": name + payload}
            for name in names[at : at + 20]
        ]
        assert client.call("POST", "/api/v1/push", {"items": items})[0] == 201
    client.hang_up()
    wait_purged(leader, behind + 1)
    return victim, names


def wait_caught_up(cluster: Cluster, node: NodeProcess) -> None:
    """Wait until a node has a checkpoint of all that its leader applied, and is done with it."""
    leader, client = cluster.leader().client(), node.client()
    index = storage(leader)[0]
    wait_until("a checkpoint", lambda: storage(client)[1] >= index)
    wait_until("the next one", lambda: client.push("p", "x")[0] == 201)
    wait_until("a checkpoint", lambda: storage(client)[1] > index)
    leader.hang_up()
    client.hang_up()


def installs(node: NodeProcess) -> int:
    return len(node.events("snapshot-installed"))


def test_a_follower_that_was_away_for_too_long_gets_a_snapshot_while_writes_go_on(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3, storage=SMALL)
    cluster.start()
    victim, names = fall_behind(cluster, 1500)
    leader = cluster.leader()
    with Writer(leader, "w") as writer:
        victim.start()
        wait_until("a snapshot", lambda: victim.log_path.exists() and installs(victim) > 0)
        enough = len(writer.taken) + 20
        wait_until("more writes", lambda: len(writer.taken) > enough)
    cluster.wait_healthy()
    client = victim.client()
    assert drain(client, "w") == writer.taken
    assert sorted(drain(client, "q")) == sorted(names)
    client.hang_up()
    assert len(settled_digests(cluster)) == 1


def test_what_a_snapshot_brought_is_served_by_the_same_process_and_may_lead(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3, storage=SMALL)
    cluster.start()
    victim, names = fall_behind(cluster, 1500)
    leader = cluster.leader()
    victim.start()
    wait_until("a snapshot", lambda: installs(victim) > 0)
    cluster.wait_healthy()
    assert len(victim.events("boot")) == 2
    own = victim.client()
    wait_until("the messages", lambda: own.depth("q")["pending"] == len(names))
    own.hang_up()
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    other = next(node for node in cluster.running() if node is not victim)
    other.kill()
    other.start()
    cluster.wait_healthy()
    client = victim.client()
    assert sorted(drain(client, "q")) == sorted(names)
    client.hang_up()
    assert len(settled_digests(cluster)) == 1


def test_a_short_absence_needs_no_snapshot(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3, storage=SMALL | {"tail_bytes": 1 << 20, "hold_bytes": 1 << 20})
    cluster.start()
    victim = cluster.followers()[0]
    victim.kill()
    client = cluster.leader().client()
    for number in range(100):
        assert client.push("q", f"m{number}")[0] == 201
    victim.start()
    cluster.wait_healthy()
    client.hang_up()
    assert installs(victim) == 0
    assert len(settled_digests(cluster)) == 1


def test_every_node_keeps_the_log_for_a_member_that_is_away_so_a_new_leader_has_it(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3, storage=SMALL | {"tail_bytes": 2_000, "hold_bytes": 1 << 20})
    cluster.start()
    victim = cluster.followers()[0]
    client = victim.client()
    behind = storage(client)[0]
    client.hang_up()
    victim.kill()
    leader = cluster.leader()
    client = leader.client()
    for number in range(400):
        assert client.push("q", f"m{number}")[0] == 201
    own = next(node for node in cluster.running() if node is not leader).client()
    wait_until("a checkpoint", lambda: storage(own)[1] >= behind + 400)
    assert storage(own)[2] <= behind + 5
    own.hang_up()
    client.hang_up()
    leader.signal(signal.SIGTERM)
    assert leader.wait() == 0
    victim.start()
    cluster.wait_healthy(30.0)
    leader.start()
    cluster.wait_healthy(30.0)
    assert installs(victim) == 0
    assert len(settled_digests(cluster)) == 1


def test_a_follower_that_is_killed_while_it_stages_goes_on_where_it_was(
    make_cluster: MakeCluster,
) -> None:
    slow = SMALL | {"snapshot_bytes_per_s": 4 << 20}
    cluster = make_cluster(3, storage=slow)
    cluster.start()
    victim, names = fall_behind(cluster, 1200, payload="x" * 8000)
    for turn in range(2):
        victim.start()
        client = victim.client()

        def received(client: Client = client) -> int:
            try:
                metrics = client.call("GET", "/metrics")[1]
            except OSError:
                return 0
            return int(metrics["counters"]["snapshot_bytes_received"])

        wait_until("a few chunks", lambda get=received: get() > 2 << 20)  # type: ignore[misc]
        client.hang_up()
        victim.kill()
        assert installs(victim) == 0, f"turn {turn}: too fast to be killed"
    victim.start()
    wait_until("a snapshot", lambda: installs(victim) > 0)
    assert max(event["have"] for event in victim.events("snapshot-receiving")) >= 2 << 20
    cluster.wait_healthy()
    client = victim.client()
    assert client.depth("q")["pending"] == len(names)
    client.hang_up()
    assert len(settled_digests(cluster)) == 1


def test_a_follower_that_is_killed_at_any_step_of_activation_comes_back_whole(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3, storage=SMALL)
    cluster.start()
    script = str(Path(__file__).with_name("dying_node.py"))
    victim = cluster.followers()[0]
    started_from: list[bool] = []
    for step in ACTIVATION_STEPS:
        fall_behind(cluster, 1000, victim=victim, queue=f"q{step}")
        victim.command = [sys.executable, script, str(step)]
        victim.start()
        assert victim.wait() == -signal.SIGKILL
        victim.command = None
        before = installs(victim)
        victim.start()
        wait_caught_up(cluster, victim)
        booted = victim.events("boot")
        was_activated = booted[-1]["checkpoint"] > booted[-2]["checkpoint"]
        assert was_activated is (installs(victim) == before)
        started_from.append(was_activated)
    assert started_from == sorted(started_from)
    assert set(started_from) == {False, True}
    cluster.wait_healthy()
    client = victim.client()
    for step in ACTIVATION_STEPS:
        assert client.depth(f"q{step}")["pending"] == 1000
    client.hang_up()
    assert len(settled_digests(cluster)) == 1


def test_a_new_leader_that_was_restored_from_a_snapshot_sends_one_itself(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3, storage=SMALL)
    cluster.start()
    victim, names = fall_behind(cluster, 1500)
    victim.start()
    wait_until("a snapshot", lambda: installs(victim) > 0)
    cluster.wait_healthy()
    others = [node for node in cluster.running() if node is not victim]
    late = others[0] if others[0] is not cluster.leader() else others[1]
    late.kill()
    leader = cluster.leader()
    client = leader.client()
    for number in range(0, 1500, 20):
        late_names = [f"late{each}" for each in range(number, number + 20)]
        assert client.push("q", *late_names)[0] == 201
        names += late_names
    client.hang_up()
    if leader is not victim:
        leader.signal(signal.SIGTERM)
        assert leader.wait() == 0
        leader.start()
    late.start()
    cluster.wait_healthy(30.0)
    client = victim.client()
    assert sorted(drain(client, "q")) == sorted(names)
    client.hang_up()
    assert len(settled_digests(cluster)) == 1
