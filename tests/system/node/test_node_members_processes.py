"""Real nodes: taken in, promoted, removed and replaced while clients write; nothing is lost."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from .conftest import MakeCluster
from .node_cluster import Client, Cluster, NodeProcess, drain, free_ports, wait_until

pytestmark = pytest.mark.cluster

MEMBERS = "/api/v1/cluster/members"
SMALL = {
    "checkpoint_ms": 100,
    "segment_bytes": 20_000,
    "tail_bytes": 5_000,
    "hold_bytes": 10_000,
}
PROGRAM = (
    "import sys; from atleastonce.system.node.cli import main; sys.argv[0] = 'atleastonce'; main()"
)
PATIENT = {"x-deadline-ms": "30000"}


def atleastonce(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "broker", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Writer:
    """Pushes to a queue through a node that never goes away; remembers what was taken."""

    def __init__(self, node: NodeProcess, queue: str) -> None:
        self.taken: list[str] = []
        self._client = node.client(40.0)
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
        while not self._stopped.wait(0.005):
            number += 1
            name = f"{number:06}" + "x" * 200
            item = {"queue": self._queue, "partition": "p", "transactionId": name}
            body = {"items": [{**item, "payload": name}]}
            if self._client.call("POST", "/api/v1/push", body, PATIENT)[0] == 201:
                self.taken.append(name)

    def wait_more(self, count: int = 50) -> None:
        """Wait until some more pushes were taken."""
        wanted = len(self.taken) + count
        wait_until("more pushes", lambda: len(self.taken) >= wanted)


def founded(cluster: Cluster) -> Cluster:
    """Start a cluster for the first time; a busy machine takes seconds to start a process."""
    for node in cluster.nodes.values():
        node.start()
    cluster.wait_healthy(60.0)
    return cluster


def joining(cluster: Cluster, name: str) -> NodeProcess:
    """A node of a new name that knows the others and waits to be taken in."""
    pattern = cluster.nodes["n1"]
    ports = free_ports(2)
    folder = Path(pattern.config["data_dir"]).parent
    peers = {**pattern.config["peers"], name: ["127.0.0.1", ports[1]]}
    config = {
        **pattern.config,
        "node": name,
        "data_dir": str(folder / name),
        "client": ["127.0.0.1", ports[0]],
        "peers": peers,
        "join": True,
    }
    node = cluster.nodes[name] = NodeProcess(config, folder)
    return node


def change(client: Client, method: str, path: str = "", body: object = None) -> Any:
    """Change the membership and demand success."""
    status, answer = client.call(method, MEMBERS + path, body, PATIENT)
    assert status == 200, (method, path, status, answer)
    return answer


def member(client: Client, name: str) -> Any:
    """One row of the membership; None when it is no member, or nobody can tell."""
    status, answer = client.call("GET", MEMBERS, headers=PATIENT)
    if status != 200:
        return None
    return next((row for row in answer["members"] if row["node"] == name), None)


def place(node: NodeProcess) -> str | None:
    """What a node says of its own place."""
    client = node.client()
    health = client.health()
    client.hang_up()
    return None if health is None else str(health["raft"]["membership"])


def wait_recorded(client: Client, *names: str) -> None:
    """Wait until the cluster knows the data folders of some members."""

    def is_recorded() -> bool:
        rows = [member(client, name) for name in names]
        return all(row is not None and row["incarnation"] for row in rows)

    wait_until("recorded data folders", is_recorded)


def test_nodes_come_and_go_while_clients_write_and_nothing_is_lost(
    make_cluster: MakeCluster,
) -> None:
    cluster = founded(make_cluster(3, storage=SMALL))
    n2 = cluster.nodes["n2"]
    client = n2.client(60.0)
    wait_recorded(client, "n1", "n2", "n3")
    with Writer(n2, "q") as writer:
        writer.wait_more(200)
        n4 = joining(cluster, "n4")
        n4.start()
        wait_until("n4 waits", lambda: place(n4) == "waiting")
        address = f"127.0.0.1:{n4.peer_port}"
        answer = change(client, "POST", "", {"node": "n4", "address": address})
        assert answer["members"][-1]["role"] == "learner"
        wait_until(
            "n4 follows", lambda: (member(client, "n4") or {}).get("lag") in range(200), 40.0
        )
        writer.wait_more()
        change(client, "POST", "/n4/promote")
        assert (member(client, "n4") or {})["role"] == "voter"
        writer.wait_more()
        change(client, "DELETE", "/n1")
        cluster.nodes["n1"].kill()
        writer.wait_more()
        # n3 loses its disk, comes back empty, and says what to do.
        n3 = cluster.nodes["n3"]
        n3.kill()
        shutil.rmtree(n3.config["data_dir"])
        n3.start()
        wait_until("n3 knows it was replaced", lambda: place(n3) == "replaced")
        other = n3.client()
        health = other.health()
        other.hang_up()
        assert health["status"] == "replaced"
        assert "atleastonce broker members replace n3" in health["remedy"]
        writer.wait_more()
        url = f"http://127.0.0.1:{n2.port}"
        done = atleastonce("members", "replace", "n3", "--url", url, "--json", "--timeout", "50")
        assert done.returncode == 0, done
        rows = {row["node"]: row["role"] for row in json.loads(done.stdout)["members"]}
        assert rows == {"n2": "voter", "n3": "voter", "n4": "voter"}
        writer.wait_more()
    del cluster.nodes["n1"]
    cluster.wait_healthy(40.0)
    found = drain(client, "q")
    assert len(found) == len(set(found))
    assert set(writer.taken) <= set(found)
    assert len(writer.taken) > 400
    client.hang_up()


def test_a_wiped_voter_never_votes_and_the_others_go_on(make_cluster: MakeCluster) -> None:
    cluster = founded(make_cluster(3))
    leader = cluster.leader()
    victim, other = cluster.followers()
    client = other.client(40.0)
    wait_recorded(client, "n1", "n2", "n3")
    assert client.push("q", "kept")[0] == 201
    victim.kill()
    shutil.rmtree(victim.config["data_dir"])
    leader.kill()
    victim.start()
    wait_until("the wiped one knows", lambda: place(victim) == "replaced")
    # One of three has the data. With the wiped one's vote it could lead; it must not.
    status, _ = client.call("GET", MEMBERS, headers={"x-deadline-ms": "4000"})
    assert status == 503
    for node in (victim, other):
        assert "leader" not in [line["role"] for line in node.events("role")[-3:]]
    leader.start()
    wait_until("a leader again", lambda: client.push("q", "more")[0] == 201)
    assert member(client, victim.name)["replaced"]
    done = atleastonce("members", "replace", victim.name, "--url", f"http://127.0.0.1:{other.port}")
    assert done.returncode == 0, done
    cluster.wait_healthy(30.0)
    assert "kept" in drain(client, "q")
    client.hang_up()


def test_a_voter_that_was_away_follows_a_leader_that_it_has_never_heard_of(
    make_cluster: MakeCluster,
) -> None:
    cluster = founded(make_cluster(3))
    n2, n3 = cluster.nodes["n2"], cluster.nodes["n3"]
    client = n2.client(60.0)
    wait_recorded(client, "n1", "n2", "n3")
    n3.signal(signal.SIGTERM)
    n3.wait()
    n4 = joining(cluster, "n4")
    n4.start()
    wait_until("n4 waits", lambda: place(n4) == "waiting")
    address = f"127.0.0.1:{n4.peer_port}"
    change(client, "POST", "", {"node": "n4", "address": address})
    wait_until("n4 follows", lambda: (member(client, "n4") or {}).get("lag") == 0)
    change(client, "POST", "/n4/promote")
    change(client, "DELETE", "/n1")
    client.hang_up()
    for name in ("n1", "n2"):
        cluster.nodes[name].signal(signal.SIGTERM)
        cluster.nodes[name].wait()
    # n3 still takes n1, n2 and n3 for the voters; only n4 can lead, and only with its vote.
    n3.start()
    cluster.wait_healthy(40.0)
    assert cluster.leader() is n4
    assert place(n3) == "voter"
    other = n3.client()
    assert other.push("q", "m")[0] == 201
    rows = change(other, "GET")["members"]
    assert [(row["node"], row["leads"]) for row in rows] == [
        ("n2", False),
        ("n3", False),
        ("n4", True),
    ]
    other.hang_up()
