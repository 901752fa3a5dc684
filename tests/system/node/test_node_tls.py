"""TLS on both ports: who gets in, who does not, and that strangers stop nobody."""

from __future__ import annotations

import http.client
import signal
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
import trustme

from .conftest import MakeCluster
from .node_cluster import Client, Cluster, NodeProcess, drain, wait_until

pytestmark = pytest.mark.cluster


class Authority:
    """A certificate authority, and files of what it issues."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ca = trustme.CA()
        self._folder = folder / name
        self._folder.mkdir()
        self.path = self._folder / "ca.pem"
        self.ca.cert_pem.write_to_path(self.path)

    def files(self, name: str, host: str = "127.0.0.1") -> dict[str, str]:
        """Settings for one holder of a certificate."""
        issued = self.ca.issue_cert(host)
        certificate, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        key.chmod(0o600)
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        return {"certificate": str(certificate), "key": str(key), "authority": str(self.path)}

    def client_context(self, with_certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.path)
        if with_certificate:
            files = self.files("client")
            context.load_cert_chain(files["certificate"], files["key"])
        return context


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


def secured(cluster: Cluster, authority: Authority) -> Cluster:
    """Let all nodes speak TLS on both ports."""
    for node in cluster.nodes.values():
        files = authority.files(node.name)
        node.config.update(peer_tls=files, client_tls=files)
        node.context = authority.client_context()
    return cluster


def test_a_cluster_works_by_tls_alone_through_a_change_of_leader(
    make_cluster: MakeCluster, authority: Authority
) -> None:
    cluster = secured(make_cluster(3), authority)
    cluster.start()
    leader = cluster.leader()
    other = cluster.followers()[0]
    client = other.client()
    big = "x" * 300_000
    assert client.push("q", "m0", "m1")[0] == 201
    body = {"items": [{"queue": "big", "partition": "p", "payload": big}]}
    assert client.call("POST", "/api/v1/push", body)[0] == 201
    leader.kill()
    assert client.push("q", "m2")[0] == 201
    assert drain(client, "q") == ["m0", "m1", "m2"]
    assert drain(client, "big") == [big]
    leader.start()
    cluster.wait_healthy()
    client.hang_up()
    for node in cluster.nodes.values():
        node.signal(signal.SIGTERM)
        assert node.wait() == 0


def test_strangers_at_a_tls_port_are_hung_up_on_and_stop_nobody(
    make_cluster: MakeCluster, authority: Authority, tmp_path: Path
) -> None:
    cluster = secured(make_cluster(1), authority)
    cluster.start()
    node = cluster.nodes["n1"]
    plain = Client(node.port, 5.0)
    with pytest.raises((OSError, http.client.HTTPException)):
        plain.call("GET", "/health")
    plain.hang_up()
    # Without a certificate, or with one of another authority. In TLS 1.3 the client learns that
    # when it reads.
    without = authority.client_context(with_certificate=False)
    foreign = Authority(tmp_path, "theirs").client_context()
    foreign.load_verify_locations(authority.path)
    for context in (without, foreign):
        client = Client(node.port, 5.0, context)
        with pytest.raises((OSError, http.client.HTTPException)):
            client.call("GET", "/health")
        client.hang_up()
    for port in (node.port, node.peer_port):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
            stream.sendall(b"\x16\x03\x01\x02\x00\x01 no greeting at all")
    client = node.client()
    assert client.push("q", "still here")[0] == 201
    client.hang_up()


def test_a_node_of_another_authority_is_no_peer(
    make_cluster: MakeCluster, authority: Authority, tmp_path: Path
) -> None:
    cluster = secured(make_cluster(3), authority)
    stranger = cluster.nodes["n3"]
    cluster.start()
    stranger.kill()
    theirs = Authority(tmp_path, "theirs")
    stranger.config["peer_tls"] = theirs.files("n3")
    stranger.start()
    leader = cluster.leader()
    assert leader is not stranger
    client = leader.client()
    assert client.push("q", "m0")[0] == 201
    client.hang_up()

    def is_refused() -> bool:
        reasons = {event["reason"] for event in leader.events("peer-unreachable")}
        return any("certificate verify failed" in reason.lower() for reason in reasons)

    wait_until("a refusal", is_refused)
    own = stranger.client()
    assert own.health()["raft"]["leader"] is None
    own.hang_up()


def test_a_claim_of_a_tls_client_that_hangs_up_is_taken_back(
    make_cluster: MakeCluster, authority: Authority
) -> None:
    cluster = secured(make_cluster(1), authority)
    cluster.start()
    node = cluster.nodes["n1"]
    assert node.context is not None
    raw = socket.create_connection(("127.0.0.1", node.port), timeout=5)
    stream = node.context.wrap_socket(raw, server_hostname="127.0.0.1")
    stream.sendall(b"GET /api/v1/pop/queue/q?wait=true&timeout=20000 HTTP/1.1\r\nHost: a\r\n\r\n")
    client = node.client()

    def parked() -> bool:
        metrics: dict[str, Any] = client.call("GET", "/metrics")[1]
        return bool(metrics["waiting"]["parkedPops"] == 1)

    wait_until("a parked pop", parked)
    stream.close()
    wait_until("nothing parked", lambda: not parked())
    assert client.push("q", "m0")[0] == 201
    status, popped = client.pop("q")
    assert (status, popped["messages"][0]["deliveryAttempt"]) == (200, 1)
    client.hang_up()


def refusal(node: NodeProcess) -> str:
    node.start()
    assert node.wait() == 2
    (line,) = node.log_path.read_text().splitlines()
    return line


@pytest.mark.parametrize("port", ["client_tls", "peer_tls"])
def test_tls_files_that_cannot_be_used_are_one_line_and_status_2(
    make_cluster: MakeCluster, authority: Authority, tmp_path: Path, port: str
) -> None:
    good = authority.files("n1")
    node = make_cluster(1).nodes["n1"]
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing of the kind")
    garbage.chmod(0o600)
    open_key = tmp_path / "open.key"
    open_key.write_text(Path(good["key"]).read_text())
    open_key.chmod(0o644)
    cases = [
        (good | {"key": "/nonexistent.key"}, "/nonexistent.key"),
        (good | {"certificate": str(garbage)}, "garbage.pem"),
        (good | {"authority": str(garbage)}, "garbage.pem"),
        (good | {"key": str(open_key)}, "chmod 600"),
        (good | {"colour": "blue"}, "colour"),
    ]
    for files, words in cases:
        node.log_path.unlink(missing_ok=True)
        node.config[port] = files
        line = refusal(node)
        assert words in line
    node.log_path.unlink()
    del good["authority"]
    node.config["client_tls"] = None
    node.config["peer_tls"] = good
    assert "authority is missing" in refusal(node)


def test_a_secret_that_everyone_may_read_is_refused(make_cluster: MakeCluster) -> None:
    node = make_cluster(1).nodes["n1"]
    token = Path(node.config["token_file"])
    token.chmod(0o644)
    line = refusal(node)
    assert str(token) in line
    assert "chmod 600" in line
    assert token.read_text() not in line
