"""Real processes under pressure: overload, full disks, metrics, the page."""

from __future__ import annotations

import http.client
import re
import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .conftest import MakeCluster
from .node_cluster import NodeProcess, drain, wait_until

pytestmark = pytest.mark.cluster

# A limit of file sizes must meet the log first.
NO_CHECKPOINT = {"checkpoint_ms": 600_000}


def get_text(node: NodeProcess, path: str) -> tuple[http.client.HTTPResponse, str]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return response, text


def plain_lines(node: NodeProcess) -> list[str]:
    lines = node.log_path.read_text().splitlines()
    return [line for line in lines if not line.startswith("{")]


def test_an_overloaded_node_refuses_and_stores_exactly_what_it_accepted(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(1, limits={"waiting_requests_max": 2})
    cluster.start()
    node = cluster.nodes["n1"]

    def push(worker: int) -> dict[str, int]:
        client = node.client()
        names = [f"w{worker}-{number}" for number in range(60)]
        statuses = {name: client.push("q", name)[0] for name in names}
        client.hang_up()
        return statuses

    answers: dict[str, int] = {}
    with ThreadPoolExecutor(12) as pool:
        for found in pool.map(push, range(12)):
            answers |= found
    assert set(answers.values()) == {201, 429}
    client = node.client()
    accepted = {name for name, status in answers.items() if status == 201}
    assert set(drain(client, "q")) == accepted
    client.hang_up()


def test_a_node_has_a_limit_of_connections(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1, limits={"connections_max": 3})
    cluster.start()
    node = cluster.nodes["n1"]
    clients = [node.client() for _ in range(3)]
    for client in clients:
        assert client.push("q", "x")[0] == 201
    extra = node.client()
    status, body = extra.push("q", "y")
    assert (status, body["code"]) == (429, "overloaded")
    clients[0].hang_up()
    extra.hang_up()
    wait_until("room for one more", lambda: extra.push("q", "z")[0] == 201)
    for client in [*clients, extra]:
        client.hang_up()


def test_a_disk_without_space_ends_the_node_and_costs_nothing_acknowledged(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(1, storage=NO_CHECKPOINT)
    cluster.start()
    node = cluster.nodes["n1"]
    assert node.process is not None
    client = node.client()
    acknowledged = [f"m{number}" for number in range(50)]
    for name in acknowledged:
        assert client.push("q", name)[0] == 201
    segment = max((Path(node.config["data_dir"]) / "log").glob("*.wal"))
    room = segment.stat().st_size + 3000
    resource.prlimit(node.process.pid, resource.RLIMIT_FSIZE, (room, room))
    for number in range(1000):
        try:
            status, _ = client.push("q", f"late{number}")
        except (OSError, http.client.HTTPException):
            break
        assert status == 201
        acknowledged.append(f"late{number}")
    client.hang_up()
    assert node.wait() == 71
    (line,) = plain_lines(node)
    # Whichever met the limit first: the log, or the checkpoint that is made meanwhile.
    assert re.match(r"node: disk failed: (write|commit) of ", line), line
    assert str(node.config["data_dir"]) in line
    assert len(acknowledged) > 50
    node.start()
    cluster.wait_healthy()
    client = node.client()
    found = drain(client, "q")
    assert found[: len(acknowledged)] == acknowledged
    assert len(found) <= len(acknowledged) + 1
    assert client.push("q", "more")[0] == 201
    client.hang_up()


def test_a_cluster_outlives_one_disk_without_space(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3, storage=NO_CHECKPOINT)
    cluster.start()
    victim = cluster.leader()
    other = cluster.followers()[0]
    client = other.client()
    assert client.push("q", "m0")[0] == 201
    assert victim.process is not None
    segment = max((Path(victim.config["data_dir"]) / "log").glob("*.wal"))
    room = segment.stat().st_size + 2000
    resource.prlimit(victim.process.pid, resource.RLIMIT_FSIZE, (room, room))
    names = [f"m{number}" for number in range(1, 60)]
    for name in names:
        assert client.push("q", name)[0] == 201
    assert victim.wait() == 71
    victim.start()
    cluster.wait_healthy()
    assert sorted(drain(client, "q")) == sorted(["m0", *names])
    client.hang_up()


def test_a_full_data_folder_refuses_pushes_until_there_is_room(make_cluster: MakeCluster) -> None:
    budget = {"data_bytes_max": 1_000_000, "disk_high_percent": 60, "disk_low_percent": 50}
    cluster = make_cluster(3, limits=budget)
    cluster.start()
    leader = cluster.leader()
    full, other = cluster.followers()
    client = other.client()
    assert client.push("q", "m0", "m1")[0] == 201
    filler = Path(full.config["data_dir"]) / "filler"
    filler.write_bytes(bytes(700_000))
    wait_until("pushes refused", lambda: client.push("r", "x")[0] == 507)
    for node in (leader, full, other):
        own = node.client()
        status, body = own.push("r", "y")
        assert (status, body["code"]) == (507, "storage_full")
        own.hang_up()
    _, popped = client.pop("q", batch=1)
    assert client.ack(popped)[1][0]["success"] is True
    filler.unlink()
    wait_until("pushes taken", lambda: client.push("q", "m2")[0] == 201)
    assert drain(client, "q") == ["m1", "m2"]
    client.hang_up()
    assert [event["event"] for event in full.events("disk-free")] == ["disk-free"]


SAMPLE = re.compile(r'^atleastonce_[a-z_]+\{node="n1"(,version="[^"]+")?\} -?[0-9.e+-]+$')


def test_metrics_are_readable_by_prometheus(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    for number in range(5):
        client.push("q", f"m{number}")
    response, text = get_text(node, "/metrics/prometheus")
    client.hang_up()
    assert response.status == 200
    assert response.headers["Content-Type"] == "text/plain; charset=utf-8; version=0.0.4"
    assert text.endswith("\n")
    samples: dict[str, float] = {}
    typed: set[str] = set()
    for line in text.splitlines():
        if line.startswith("#"):
            _, keyword, name, kind = line.split(" ")
            assert (keyword, kind in ("counter", "gauge")) == ("TYPE", True)
            assert name.endswith("_total") is (kind == "counter")
            typed.add(name)
            continue
        assert SAMPLE.match(line), line
        name = line.partition("{")[0]
        assert name in typed
        assert name not in samples, "one sample of a metric"
        samples[name] = float(line.rpartition(" ")[2])
    assert samples["atleastonce_is_leader"] == 1
    assert samples["atleastonce_requests_total"] >= 5
    assert samples["atleastonce_sync_seconds_total"] > 0
    assert samples["atleastonce_disk_free_bytes"] > 0
    assert samples["atleastonce_storage_ready"] == 1


def test_health_says_what_an_operator_asks(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(3)
    cluster.start()
    for node in cluster.nodes.values():
        client = node.client()
        health = client.health()
        client.hang_up()
        assert set(health["raft"]) == {
            "role", "leader", "term", "voters", "applied", "commit", "last", "lag",
            "quorumAckMs", "storageReady", "learners", "membership",
        }  # fmt: skip
        assert health["raft"]["voters"] == ["n1", "n2", "n3"]
        assert (health["raft"]["learners"], health["raft"]["membership"]) == ([], "voter")
        assert health["raft"]["quorumAckMs"] < 5000
        assert health["raft"]["storageReady"] is True
        assert health["disk"]["state"] == "ok"
        assert health["disk"]["freeBytes"] > 0
    for node in cluster.nodes.values():
        if node is not cluster.nodes["n1"]:
            node.kill()
    client = cluster.nodes["n1"].client()
    wait_until("no quorum heard", lambda: client.call("GET", "/health")[0] == 503)
    client.hang_up()


def test_the_page_shows_the_queues_and_escapes_what_it_shows(make_cluster: MakeCluster) -> None:
    cluster = make_cluster(1)
    cluster.start()
    node = cluster.nodes["n1"]
    client = node.client()
    nasty = "<script>alert(1)</script>"
    client.push(nasty, "a", "b", partition='"><img src=x>')
    client.push("plain", "c")
    client.pop("plain", batch=1)
    _, popped = client.pop("%3Cscript%3Ealert(1)%3C%2Fscript%3E", batch=2)
    message = popped["messages"][0]
    ack = {key: message[key] for key in ("transactionId", "partitionId", "leaseId")}
    body = {"acknowledgments": [ack | {"status": "dlq", "error": "<b>bad</b>"}]}
    assert client.call("POST", "/api/v1/ack/batch", body)[0] == 200
    response, text = get_text(node, "/")
    client.hang_up()
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    assert nasty not in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "<img" not in text
    assert "<script" not in text
    assert not re.search(r"(src|href)=", text.replace("&quot;&gt;&lt;img src=x&gt;", ""))
    assert "default-src 'none'" in response.headers["Content-Security-Policy"]
    assert "(the queue&#x27;s own)" in text
    for words in ("n1, this one", "leader", "plain", "Dead letters", "Leases"):
        assert words in text
