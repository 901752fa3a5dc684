"""Where secrets come from, and that nobody finds them anywhere else."""

from __future__ import annotations

import base64
import http.client
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from atleastonce.system.http.openapi import OPERATIONS
from atleastonce.system.node.config import NodeConfig
from atleastonce.system.node.config_error import ConfigError
from atleastonce.system.node.secrets import (
    JWT_VARIABLE,
    PASSPHRASE_VARIABLE,
    TOKEN_VARIABLE,
    read_secrets,
)

from .conftest import MakeCluster
from .node_cluster import Cluster, NodeProcess

TOKEN = "hush-token-9b1d2f40c7"
JWT_SECRET = "hush-signature-key-of-more-than-32-bytes"
PASSPHRASE = "hush-passphrase-51f0"


def settings(**more: Any) -> NodeConfig:
    return NodeConfig(
        node="n1",
        data_dir="data",
        client=("127.0.0.1", 1),
        peers={"n1": ("127.0.0.1", 2)},
        **more,
    )


def secret_file(folder: Path, name: str, text: str, mode: int = 0o600) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_secrets_come_from_the_environment_and_are_removed_from_it() -> None:
    environment = {
        TOKEN_VARIABLE: f" {TOKEN}\n",
        JWT_VARIABLE: JWT_SECRET,
        PASSPHRASE_VARIABLE: PASSPHRASE,
        "PATH": "/bin",
    }
    secrets = read_secrets(settings(), environment)
    assert secrets.token == TOKEN.encode()
    assert secrets.jwt == JWT_SECRET.encode()
    assert secrets.passphrase == PASSPHRASE.encode()
    assert environment == {"PATH": "/bin"}
    assert "hush" not in repr(secrets)


def test_a_file_wins_over_the_environment(tmp_path: Path) -> None:
    environment = {TOKEN_VARIABLE: "x" * 40}
    config = settings(token_file=secret_file(tmp_path, "token", TOKEN + "\n"))
    assert read_secrets(config, environment).token == TOKEN.encode()
    assert environment == {}


@pytest.mark.parametrize(
    ("more", "environment", "words"),
    [
        ({}, {}, "token_file is missing"),
        ({}, {TOKEN_VARIABLE: "hush"}, "less than 16 bytes"),
        ({}, {TOKEN_VARIABLE: TOKEN, JWT_VARIABLE: "hush"}, "less than 32 bytes"),
        ({"token_file": "/dev/null"}, {TOKEN_VARIABLE: TOKEN}, "less than 16 bytes"),
        ({"token_file": "/nonexistent"}, {TOKEN_VARIABLE: TOKEN}, "cannot read"),
    ],
)
def test_a_secret_that_cannot_be_used_is_named_and_not_quoted(
    more: dict[str, str], environment: dict[str, str], words: str
) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        read_secrets(settings(**more), environment)
    assert "hush" not in str(caught.value)


def test_a_secret_that_everyone_may_read_is_refused(tmp_path: Path) -> None:
    path = secret_file(tmp_path, "token", TOKEN, 0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_secrets(settings(token_file=path), {})


@dataclass(frozen=True, slots=True)
class Secured:
    """Three nodes with every kind of secret, and clients that may speak to them."""

    cluster: Cluster
    folder: Path
    bearer: str

    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.bearer}"}


def encrypted_files(ca: trustme.CA, folder: Path, name: str) -> dict[str, str]:
    """A certificate and its key under the passphrase."""
    issued = ca.issue_cert("127.0.0.1")
    key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
    key_path, certificate_path = folder / f"{name}.key", folder / f"{name}.pem"
    key_path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSPHRASE.encode()),
        )
    )
    key_path.chmod(0o600)
    certificate_path.write_bytes(b"".join(pem.bytes() for pem in issued.cert_chain_pems))
    return {"certificate": str(certificate_path), "key": str(key_path)}


@pytest.fixture
def secured(make_cluster: MakeCluster, tmp_path: Path) -> Secured:
    ca = trustme.CA()
    authority = tmp_path / "ca.pem"
    ca.cert_pem.write_to_path(authority)
    cluster = make_cluster(3)
    context = ssl.create_default_context(cafile=authority)
    own = encrypted_files(ca, tmp_path, "client")
    context.load_cert_chain(own["certificate"], own["key"], password=PASSPHRASE)
    for name, node in cluster.nodes.items():
        files = encrypted_files(ca, tmp_path, name)
        del node.config["token_file"]
        node.config["client_tls"] = node.config["peer_tls"] = {**files, "authority": str(authority)}
        node.config["jwt_secret_file"] = secret_file(tmp_path, "jwt", JWT_SECRET)
        node.environment = {TOKEN_VARIABLE: TOKEN, PASSPHRASE_VARIABLE: PASSPHRASE}
        node.context = context
    cluster.start()
    claims = {"sub": "alice", "role": "admin"}
    return Secured(cluster, tmp_path, jwt.encode(claims, JWT_SECRET, algorithm="HS256"))


def spellings(secret: str) -> Iterator[bytes]:
    """A secret as it might appear."""
    data = secret.encode()
    yield data
    yield data.hex().encode()
    # However it is aligned inside something larger that was encoded.
    for cut in range(3):
        yield base64.b64encode(data[cut : len(data) - (len(data) - cut) % 3])


@pytest.mark.parametrize("before", ["", "x", "xy"])
def test_a_leak_would_be_found_however_it_is_written(before: str) -> None:
    text = f"{before}{TOKEN} and more".encode()
    for leak in (text, text.hex().encode(), base64.b64encode(text)):
        assert any(spelling in leak for spelling in spellings(TOKEN))


def outputs_of_process(_: Secured, node: NodeProcess) -> Iterator[tuple[str, bytes]]:
    assert node.process is not None
    process = Path(f"/proc/{node.process.pid}")
    yield "command line", (process / "cmdline").read_bytes()
    for task in (process / "task").iterdir():
        yield f"title of thread {task.name}", (task / "comm").read_bytes()
    yield "log", node.log_path.read_bytes()
    for path in Path(node.config["data_dir"]).rglob("*"):
        if path.is_file():
            yield str(path), path.read_bytes()


def outputs_of_http(secured: Secured, node: NodeProcess) -> Iterator[tuple[str, bytes]]:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", node.port, timeout=10, context=node.context
    )
    for headers in (secured.headers(), {}):
        for operation in OPERATIONS:
            target = operation.path.replace("{", "").replace("}", "")
            body = "{}" if operation.method in ("POST", "PUT") else None
            connection.request(operation.method, target, body, headers)
            response = connection.getresponse()
            yield f"{operation.method} {target}", response.read() + str(response.headers).encode()
    connection.close()


def outputs_of_commands(secured: Secured, node: NodeProcess) -> Iterator[tuple[str, bytes]]:
    url = f"https://127.0.0.1:{node.port}"
    authority = str(secured.folder / "ca.pem")
    for command in ("status", "members"):
        shown = ["--cert", str(secured.folder / "client.pem")]
        shown += ["--key", str(secured.folder / "client.key")]
        yield command, run_cli(["broker", command, url, "--ca", authority, *shown, "--json"])


def outputs_of_data(_: Secured, node: NodeProcess) -> Iterator[tuple[str, bytes]]:
    node.kill()
    yield "dump-log", run_cli(["broker", "dump-log", node.config["data_dir"], "--commands"])
    yield "verify-data", run_cli(["broker", "verify-data", node.config["data_dir"]])


def run_cli(arguments: list[str]) -> bytes:
    program = "import sys; from atleastonce.system.node.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        timeout=30,
        check=True,
        env={**os.environ, PASSPHRASE_VARIABLE: PASSPHRASE},
    )
    assert done.stdout
    return done.stdout + done.stderr


def knock(node: NodeProcess) -> None:
    """Come in every wrong way: no TLS, a token of another key, a stranger at the peer port."""
    forged = jwt.encode(
        {"role": "admin"}, "another key of more than 32 bytes ..", algorithm="HS256"
    )
    client = node.client()
    assert client.call("GET", "/metrics", None, {"Authorization": f"Bearer {forged}"})[0] == 401
    client.hang_up()
    for port in (node.port, node.peer_port):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as stream:
            stream.sendall(b"GET / HTTP/1.1\r\n\r\n")


@pytest.mark.cluster
def test_no_output_of_a_node_holds_a_secret(secured: Secured) -> None:
    found: list[str] = []
    looked = 0
    for node in secured.cluster.nodes.values():
        knock(node)
        client = node.client()
        body = {"items": [{"queue": "q", "payload": "x"}]}
        assert client.call("POST", "/api/v1/push", body, secured.headers())[0] == 201
        client.hang_up()
    for outputs in (outputs_of_http, outputs_of_process, outputs_of_commands, outputs_of_data):
        for node in secured.cluster.nodes.values():
            for what, content in outputs(secured, node):
                looked += 1
                found += [
                    f"{node.name}: {what} holds {secret}"
                    for secret in (TOKEN, JWT_SECRET, PASSPHRASE, secured.bearer)
                    if any(spelling in content for spelling in spellings(secret))
                ]
    assert found == []
    assert looked > 3 * 2 * len(OPERATIONS)


@pytest.mark.cluster
@pytest.mark.parametrize("passphrase", ["", "hush-wrong"])
def test_a_wrong_passphrase_is_one_line_that_does_not_quote_it(
    make_cluster: MakeCluster, tmp_path: Path, passphrase: str
) -> None:
    node = make_cluster(1).nodes["n1"]
    node.config["client_tls"] = encrypted_files(trustme.CA(), tmp_path, "n1")
    node.environment = {PASSPHRASE_VARIABLE: passphrase} if passphrase else {}
    node.start()
    assert node.wait() == 2
    (line,) = node.log_path.read_text().splitlines()
    assert "client_tls: cannot use" in line
    assert "hush" not in line


@pytest.mark.cluster
def test_a_secret_in_the_settings_is_refused_and_not_quoted(make_cluster: MakeCluster) -> None:
    node = make_cluster(1).nodes["n1"]
    node.config["jwt_secret"] = JWT_SECRET
    node.start()
    assert node.wait() == 2
    (line,) = node.log_path.read_text().splitlines()
    assert "jwt_secret" in line
    assert "hush" not in line
