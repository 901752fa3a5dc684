"""Both clients over TLS and with tokens: whom they trust, what they show, what they send."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
import trustme
from cryptography.hazmat.primitives import serialization

from atleastonce.system.client import (
    AsyncClient,
    BrokerError,
    Call,
    ClientOptions,
    SecurityFiles,
    SecurityFilesError,
    SyncClient,
    calls,
    load_security,
)

from .scripted_server import Hang, Reply, ScriptedServer

Serve = Callable[..., ScriptedServer]

PUSHED = Reply(201, b'[{"index":0,"status":"queued","offset":0}]')
PUSH = calls.push([{"queue": "q", "payload": "x" * 300_000}])
PASSPHRASE = "known to this test alone"


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, name: str = "ours") -> None:
        self._ca = trustme.CA()
        self._folder = folder / name
        self._folder.mkdir()
        self.path = self._folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.path)

    def server(self, asks: bool = False, name: str = "127.0.0.1") -> ssl.SSLContext:
        """A server's side; with `asks` it wants to see a certificate too."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._ca.issue_cert(name).configure_cert(context)
        if asks:
            context.verify_mode = ssl.CERT_REQUIRED
            self._ca.configure_trust(context)
        return context

    def trusted(self) -> SecurityFiles:
        return SecurityFiles(authority=str(self.path))

    def client_files(self, token: str | None = None) -> SecurityFiles:
        """A client's certificate, its key under a passphrase."""
        issued = self._ca.issue_cert("client.example")
        key = serialization.load_pem_private_key(issued.private_key_pem.bytes(), None)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(PASSPHRASE.encode()),
        )
        return SecurityFiles(
            authority=str(self.path),
            certificate=self.file("client.pem", issued.cert_chain_pems[0].bytes()),
            key=self.file("client.key", pem),
            passphrase_file=self.file("passphrase", PASSPHRASE.encode() + b"\n"),
            token_file=None if token is None else self.file("token", token.encode() + b"\n"),
        )

    def file(self, name: str, content: bytes) -> str:
        path = self._folder / name
        path.write_bytes(content)
        return str(path)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def options(files: SecurityFiles | None) -> ClientOptions:
    security = load_security(files)
    return ClientOptions(2.0, 10.0, tls=security.tls, bearer=security.bearer)


def ask_blocking(server: ScriptedServer, files: SecurityFiles | None, *asked: Call[object]) -> None:
    client = SyncClient([server.endpoint], options(files))
    for call in asked:
        client.call(call)
    client.close()


def ask_trio(server: ScriptedServer, files: SecurityFiles | None, *asked: Call[object]) -> None:
    async def main() -> None:
        client = AsyncClient([server.endpoint], options(files))
        for call in asked:
            await client.call(call)
        await client.aclose()

    trio.run(main)


Ask = Callable[..., None]
both = pytest.mark.parametrize("ask", [ask_blocking, ask_trio])


@both
def test_large_requests_and_answers_go_over_one_kept_connection(
    serve: Serve, authority: Authority, ask: Ask
) -> None:
    padding = b" " * 500_000
    server = serve(lambda _: Reply(201, PUSHED.body + padding), authority.server())
    ask(server, authority.trusted(), PUSH, PUSH, PUSH)
    assert server.connections == 1
    assert [len(asked.body) > 300_000 for asked in server.asked] == [True] * 3


@both
def test_a_certificate_is_shown_to_a_node_that_asks(
    serve: Serve, authority: Authority, ask: Ask
) -> None:
    server = serve(lambda _: PUSHED, authority.server(asks=True))
    ask(server, authority.client_files(), PUSH)
    assert len(server.asked) == 1


def refused(server: ScriptedServer, files: SecurityFiles | None) -> list[BrokerError]:
    """What either client is left with after one try, for which there is time."""
    found: list[BrokerError] = []
    blocking = SyncClient([server.endpoint], options(files))
    with pytest.raises(BrokerError) as caught:
        blocking.receive(blocking.send(PUSH), again=False)
    blocking.close()
    found.append(caught.value)

    async def main() -> None:
        client = AsyncClient([server.endpoint], options(files))
        with pytest.raises(BrokerError) as caught:
            await client.call(PUSH, again=False)
        await client.aclose()
        found.append(caught.value)

    trio.run(main)
    return found


def test_a_node_of_another_authority_is_asked_nothing(
    serve: Serve, authority: Authority, tmp_path: Path
) -> None:
    server = serve(lambda _: PUSHED, Authority(tmp_path, "theirs").server())
    for error in refused(server, authority.trusted()):
        assert error.code == "connection_refused"
        assert error.definite
        assert "certificate verify failed" in error.text
    assert server.asked == []


def test_a_node_of_another_name_is_asked_nothing(serve: Serve, authority: Authority) -> None:
    server = serve(lambda _: PUSHED, authority.server(name="elsewhere.example"))
    for error in refused(server, authority.trusted()):
        assert error.definite
        assert "certificate" in error.text
    assert server.asked == []


def test_a_node_without_tls_is_told_nothing(serve: Serve, authority: Authority) -> None:
    server = serve(lambda _: PUSHED)
    for error in refused(server, authority.client_files("secret.token.here")):
        assert error.definite
    assert [asked for asked in server.asked if "authorization" in asked.headers] == []


@both
def test_every_request_carries_the_token(serve: Serve, authority: Authority, ask: Ask) -> None:
    server = serve(lambda _: PUSHED, authority.server())
    ask(server, authority.client_files("a.b.c"), PUSH, PUSH)
    assert [asked.headers["authorization"] for asked in server.asked] == ["Bearer a.b.c"] * 2
    assert "a.b.c" not in repr(options(authority.client_files("a.b.c")))


def test_health_is_asked_the_same_way(serve: Serve, authority: Authority) -> None:
    body = b'{"status":"settling","node":"n1"}'
    server = serve(lambda _: Reply(503, body), authority.server())
    files = authority.client_files("a.b.c")
    client = SyncClient([server.endpoint], options(files))
    assert client.health(server.endpoint).value.status == "settling"

    async def main() -> str:
        asking = AsyncClient([server.endpoint], options(files))
        answer = await asking.health(server.endpoint)
        return answer.value.status

    assert trio.run(main) == "settling"
    assert {asked.headers["authorization"] for asked in server.asked} == {"Bearer a.b.c"}


def test_an_answer_under_way_is_not_lost_when_its_call_is_abandoned(
    serve: Serve, authority: Authority
) -> None:
    server = serve(lambda _: PUSHED, authority.server())
    client = SyncClient([server.endpoint], options(authority.trusted()))
    pending = client.send(PUSH)
    server.wait_for(lambda: len(server.asked) == 1)
    found = client.abandon(pending, 5.0)
    assert found is not None
    assert found[0].status == "queued"
    client.close()


def test_an_abandoned_call_is_seen_by_the_node(serve: Serve, authority: Authority) -> None:
    server = serve(lambda _: Hang(), authority.server())
    client = SyncClient([server.endpoint], options(authority.trusted()))
    pending = client.send(PUSH)
    server.wait_for(lambda: len(server.asked) == 1)
    assert client.abandon(pending, 5.0) is None
    client.close()


@both
def test_a_kept_connection_that_the_node_closed_is_not_used(
    serve: Serve, authority: Authority, ask: Ask
) -> None:
    server = serve(lambda _: Reply(201, PUSHED.body, close=True), authority.server())
    ask(server, authority.trusted(), PUSH, PUSH)
    assert server.connections == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"authority": "/nonexistent"}, "authority: cannot use /nonexistent"),
        ({"authority": "/dev/null"}, "authority: cannot use /dev/null"),
        ({"authority": None}, "authority is missing"),
        ({"key": "/nonexistent"}, "certificate: cannot use"),
        ({"passphrase_file": None}, "certificate: cannot use"),
        ({"passphrase_file": "/nonexistent"}, "passphrase_file: cannot read"),
        ({"token_file": "/nonexistent"}, "token_file: cannot read"),
        ({"token_file": "/dev/null"}, "holds no token"),
    ],
)
def test_files_that_cannot_be_used_are_named(
    authority: Authority, change: dict[str, str | None], words: str
) -> None:
    good = authority.client_files("a.b.c")
    given = {name: getattr(good, name) for name in good.__struct_fields__}
    with pytest.raises(SecurityFilesError, match=words) as caught:
        load_security(SecurityFiles(**{**given, **change}))
    assert PASSPHRASE not in str(caught.value)
