"""A supervisor and its workers on a node that speaks TLS and asks for certificates and tokens."""

from __future__ import annotations

import os
import signal
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jwt
import pytest
import trustme

from ..node.node_cluster import Client, Cluster
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster

SECRET = "only the node and the issuer of tokens know this"
PARTITION = "p-0003"


@dataclass(frozen=True, slots=True)
class Guarded:
    """A node and a supervisor that is not started yet."""

    client: Client
    headers: dict[str, str]
    supervised: Supervised


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Guarded]:
    ca = trustme.CA()
    authority = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(authority)
    files: dict[str, dict[str, str]] = {}
    for name in ("127.0.0.1", "worker.example"):
        issued = ca.issue_cert(name)
        key, certificate = tmp_path / f"{name}.key", tmp_path / f"{name}.pem"
        issued.private_key_pem.write_to_path(key)
        key.chmod(0o600)
        certificate.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
        files[name] = {
            "certificate": str(certificate), "key": str(key), "authority": str(authority),
        }  # fmt: skip
    secret, token = tmp_path / "secret", tmp_path / "token.jwt"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    bearer = jwt.encode({"sub": "workers", "role": "read-write"}, SECRET, algorithm="HS256")
    token.write_text(bearer)
    cluster = Cluster(tmp_path, 1, client_tls=files["127.0.0.1"], jwt_secret_file=str(secret))
    node = cluster.nodes["n1"]
    node.context = ssl.create_default_context(cafile=authority)
    worker = files["worker.example"]
    node.context.load_cert_chain(worker["certificate"], worker["key"])
    made = Supervised(tmp_path, node.port)
    made.config["worker"].update(ack_async=True, pop_ahead=True, partitions=16)
    made.config["worker"]["security"] = {**worker, "token_file": str(token)}
    try:
        cluster.start()
        client = node.client()
        yield Guarded(client, {"Authorization": f"Bearer {bearer}"}, made)
        client.hang_up()
    finally:
        made.end()
        cluster.end()


def push(guarded: Guarded, names: str, file: Path) -> None:
    items = [
        {
            "queue": "jobs",
            "partition": PARTITION,
            "transactionId": name,
            "payload": {
                "_job": {
                    "job": "until_file", "id": name, "partition": PARTITION,
                    "data": {"file": str(file)},
                }
            },
        }
        for name in names
    ]  # fmt: skip
    status, _ = guarded.client.call("POST", "/api/v1/push", {"items": items}, guarded.headers)
    assert status == 201


def test_jobs_run_leases_are_renewed_and_a_dead_workers_jobs_go_back(guarded: Guarded) -> None:
    supervised = guarded.supervised
    gate = supervised.root / "gate"
    push(guarded, "abcd", gate)
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), f"job a\n{supervised.log()}")

    def applied() -> int:
        return int(guarded.client.health()["raft"]["applied"])

    # Nothing but renewals enters the log meanwhile: a pop that finds nothing does not.
    seen = applied()
    wait_for(lambda: applied() >= seen + 4, "renewals")
    os.kill(supervised.running()["a"], signal.SIGKILL)
    gate.touch()
    wait_for(lambda: len(supervised.notes("done")) >= 4, f"the jobs\n{supervised.log()}")
    (line,) = supervised.lines("handbacks.jsonl")
    assert (line["result"], line["unstarted"]) == ("sent", ["b", "c", "d"])
    starts = [(note[2], note[3]) for note in supervised.notes("started")]
    assert starts == [("a", "1"), ("a", "2"), ("b", "1"), ("c", "1"), ("d", "1")]
    assert supervised.stop() == 0
    assert SECRET not in supervised.log()
    assert guarded.headers["Authorization"][7:] not in supervised.log()


def test_files_that_cannot_be_used_are_one_line_and_status_2(guarded: Guarded) -> None:
    supervised = guarded.supervised
    supervised.config["worker"]["security"]["authority"] = "/nonexistent"
    process = supervised.launch()
    assert process.wait(15) == 2
    assert "worker.security.authority: cannot use /nonexistent" in supervised.log()
