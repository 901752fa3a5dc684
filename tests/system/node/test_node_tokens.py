"""Clients' tokens on real nodes: checked at every node, stamped wherever the push lands."""

from __future__ import annotations

from pathlib import Path

import jwt
import pytest

from .conftest import MakeCluster
from .node_cluster import Client

pytestmark = pytest.mark.cluster

SECRET = "only the nodes and the issuer of tokens know this"


def bearer(subject: str, role: str = "read-write") -> dict[str, str]:
    text = jwt.encode({"sub": subject, "role": role}, SECRET, algorithm="HS256")
    return {"authorization": f"Bearer {text}"}


def push(client: Client, headers: dict[str, str], name: str) -> int:
    item = {"queue": "q", "transactionId": name, "payload": 1, "producerSub": "mallory"}
    return client.call("POST", "/api/v1/push", {"items": [item]}, headers)[0]


def test_every_node_asks_for_a_token_and_the_leader_stamps_its_bearer(
    make_cluster: MakeCluster, tmp_path: Path
) -> None:
    secret = tmp_path / "jwt-secret"
    secret.write_text(SECRET + "\n")
    secret.chmod(0o600)
    cluster = make_cluster(3, jwt_secret_file=str(secret))
    cluster.start()
    for name, node in cluster.nodes.items():
        client = node.client()
        assert push(client, {}, name) == 401
        assert push(client, bearer("reader", "read-only"), name) == 403
        assert push(client, bearer(f"alice-{name}"), name) == 201
        client.hang_up()
    client = cluster.leader().client()
    target = "/api/v1/pop/queue/q?batch=10"
    assert client.call("GET", target)[0] == 401
    _, popped = client.call("GET", target, None, bearer("bob"))
    client.hang_up()
    stamped = {message["transactionId"]: message["producerSub"] for message in popped["messages"]}
    assert stamped == {name: f"alice-{name}" for name in cluster.nodes}
    for node in cluster.nodes.values():
        log = node.log_path.read_text()
        assert SECRET not in log
        assert "Bearer" not in log


def test_a_fetch_that_does_not_wait_finds_what_was_pushed_through_another_node(
    make_cluster: MakeCluster,
) -> None:
    cluster = make_cluster(3)
    cluster.start()
    clients = [node.client() for node in cluster.nodes.values()]
    for number in range(60):
        clients[number % 3].push("q", f"m{number}")
        body = {"entries": [{"queue": "q", "partition": "p", "offset": number}]}
        _, fetched = clients[(number + 1) % 3].call("POST", "/api/v1/fetch", body)
        records = fetched["entries"][0]["records"]
        assert [record["payload"] for record in records] == [f"m{number}"]
    for client in clients:
        client.hang_up()
