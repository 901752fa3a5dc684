"""Tokens and roles: who is admitted, to what, and under which name."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json

import pytest

from atleastonce.system.broker.commands import Push, Timers, Transaction, TransactionPush
from atleastonce.system.broker.commands import ScheduleTimer as Schedule
from atleastonce.system.http.answer import Answer
from atleastonce.system.http.auth import Guard, Identity
from atleastonce.system.http.routes import Write, route

from .wire import Json, Wire

SECRET = b"a secret of thirty-two bytes, or more"
NOW_S = 1_800_000_000
GUARD = Guard(SECRET)


def _part(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def token(secret: bytes = SECRET, header: Json = None, **claims: Json) -> str:
    """A token signed by hand, as a client without a library would."""
    head = {"alg": "HS256", "typ": "JWT"} if header is None else header
    signed = f"{_part(json.dumps(head).encode())}.{_part(json.dumps(claims).encode())}"
    return f"{signed}.{_part(hmac.new(secret, signed.encode(), hashlib.sha256).digest())}"


def admit(
    text: str | None, method: str = "POST", target: str = "/api/v1/push"
) -> Identity | Answer:
    headers = {} if text is None else {"authorization": text}
    return GUARD.admit(method, target, headers, NOW_S)


def status(text: str | None, method: str = "POST", target: str = "/api/v1/push") -> int:
    """What the request would be refused with, or 200."""
    admitted = admit(text, method, target)
    return admitted.status if isinstance(admitted, Answer) else 200


def test_without_a_secret_everybody_is_nobody_in_particular() -> None:
    headers = {"authorization": "Bearer nonsense"}
    assert Guard().admit("POST", "/api/v1/push", headers, NOW_S) == Identity(None)


def test_a_valid_token_names_its_bearer() -> None:
    text = token(sub="alice", role="read-write", exp=NOW_S + 1)
    assert admit(f"Bearer {text}") == Identity("alice")
    assert admit(f"bearer {text}") == Identity("alice")


def test_a_subject_that_is_no_text_names_nobody() -> None:
    for subject in (7, None, "\ud800"):
        assert admit("Bearer " + token(sub=subject, role="admin")) == Identity(None)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "Bearer a.b.c",
        "Bearer " + token(b"another secret of thirty-two bytes", sub="a", role="admin"),
        "Bearer " + token(header={"alg": "none"}, sub="a", role="admin"),
        "Bearer " + token(header={"alg": "HS512"}, sub="a", role="admin"),
        "Bearer " + token(sub="a", role="admin").rpartition(".")[0] + ".",
        "Bearer " + token(sub="a", role="admin", exp=NOW_S - 5),
        "Bearer " + token(sub="a", role="admin", nbf=NOW_S + 6),
        "Bearer " + token(sub="a", role="admin", exp="soon"),
        "Bearer " + token(sub="a", role="admin")[:-2],
    ],
)
def test_anything_but_a_valid_token_is_401(text: str | None) -> None:
    answer = admit(text)
    assert isinstance(answer, Answer)
    assert answer.status == 401
    assert ("WWW-Authenticate", "Bearer") in answer.headers
    assert json.loads(answer.body)["code"] == "unauthorized"


def test_clocks_may_disagree_by_a_few_seconds() -> None:
    assert status("Bearer " + token(role="admin", exp=NOW_S - 4)) == 200
    assert status("Bearer " + token(role="admin", nbf=NOW_S + 5)) == 200


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("admin", "push timers pop ack depth fetch delete"),
        ("read-write", "push timers pop ack depth fetch delete"),
        ("read-only", "depth fetch"),
        ("write-only", "push timers"),
        ("visitor", ""),
        (None, ""),
        (["admin"], ""),
    ],
)
def test_a_role_allows_what_it_says(role: Json, allowed: str) -> None:
    requests = {
        "push": ("POST", "/api/v1/push"),
        "timers": ("POST", "/api/v1/timers"),
        "pop": ("GET", "/api/v1/pop/queue/q?batch=1"),
        "ack": ("POST", "/api/v1/ack"),
        "depth": ("GET", "/api/v1/resources/queues/q/depth"),
        "fetch": ("POST", "/api/v1/fetch"),
        "delete": ("DELETE", "/api/v1/resources/queues/q"),
    }
    text = "Bearer " + token(sub="a", role=role)
    admitted = {name for name, request in requests.items() if status(text, *request) == 200}
    assert admitted == set(allowed.split())
    refused = {status(text, *request) for request in requests.values()} - {200}
    assert refused <= {403}


def test_discovery_is_a_pop_for_roles_too() -> None:
    text = "Bearer " + token(role="read-only")
    assert status(text, "GET", "/api/v1/pop?namespace=n") == 403


@pytest.mark.parametrize(
    ("role", "allowed"),
    [("read-only", "queues"), ("write-only", "push"), ("read-write", "queues push pop")],
)
def test_ephemeral_queues_know_roles_too(role: str, allowed: str) -> None:
    requests = {
        "queues": ("GET", "/api/v1/ephemeral/queues"),
        "push": ("POST", "/api/v1/ephemeral/push"),
        "pop": ("GET", "/api/v1/ephemeral/pop?queue=q"),
    }
    text = "Bearer " + token(sub="a", role=role)
    admitted = {name for name, request in requests.items() if status(text, *request) == 200}
    assert admitted == set(allowed.split())


def test_health_is_open_to_probes() -> None:
    assert status(None, "GET", "/health?x=1") == 200
    assert status(None, "GET", "/metrics") == 401


def test_neither_the_guard_nor_a_refusal_shows_the_secret_or_the_token() -> None:
    text = token(b"another secret of thirty-two bytes", sub="mallory", role="admin")
    answer = admit(f"Bearer {text}")
    assert isinstance(answer, Answer)
    assert text.encode() not in answer.body
    assert "secret" not in repr(GUARD)


def test_the_bearer_is_stamped_on_what_they_push_and_the_body_cannot_say_otherwise() -> None:
    item: dict[str, Json] = {"queue": "q", "payload": 1, "producerSub": "mallory"}
    body = json.dumps({"items": [item]}).encode()
    pushed = route("POST", "/api/v1/push", {}, body, "id", "alice")
    assert isinstance(pushed, Write)
    assert isinstance(pushed.command, Push)
    assert pushed.command.items[0].producer_sub == "alice"
    timer: dict[str, Json] = {
        "op": "schedule",
        "queue": "q",
        "timerKey": "k",
        "delayMs": 1,
        "txn": "t",
        "payload": "MQ==",
    }
    body = json.dumps({"operations": [{"type": "push", **item}], "timers": [timer]}).encode()
    bundle = route("POST", "/api/v1/transaction", {}, body, "id", "alice")
    assert isinstance(bundle, Write)
    assert isinstance(bundle.command, Transaction)
    (operation,) = bundle.command.operations
    assert isinstance(operation, TransactionPush)
    assert operation.item.producer_sub == "alice"
    scheduled = route(
        "POST", "/api/v1/timers", {}, json.dumps({"operations": [timer]}).encode(), "id", "alice"
    )
    assert isinstance(scheduled, Write)
    assert isinstance(scheduled.command, Timers)
    for command in (bundle.command.timers[0], scheduled.command.operations[0]):
        assert isinstance(command, Schedule)
        assert command.producer_sub == "alice"


def test_a_message_tells_who_pushed_it_wherever_it_goes(wire: Wire) -> None:
    item: Json = {"queue": "q", "partition": "p", "transactionId": "a", "payload": 1}
    wire.send("POST", "/api/v1/push", {"items": [item]}, subject="alice")
    timer: Json = {
        "op": "schedule",
        "queue": "q",
        "timerKey": "k",
        "delayMs": 0,
        "txn": "b",
        "payload": "MQ==",
        "partition": "p",
    }
    wire.send("POST", "/api/v1/timers", {"operations": [timer]}, subject="bob")
    wire.fire_timers()
    messages = wire.pop()
    assert [message["producerSub"] for message in messages] == ["alice", "bob"]
    wire.ack(messages[0], status="dlq")
    (letter,) = wire.records_of_dlq()
    assert letter["producerSub"] == "alice"
    wire.record("POST", f"/api/v1/dlq/{letter['id']}/replay")
    assert [message["producerSub"] for message in wire.pop()] == ["bob", "alice"]


def test_only_an_admin_changes_the_membership() -> None:
    path = "/api/v1/cluster/members"
    for role, read, write in (
        ("admin", 200, 200),
        ("read-write", 200, 403),
        ("read-only", 200, 403),
        ("write-only", 403, 403),
    ):
        text = f"Bearer {token(role=role)}"
        assert status(text, "GET", path) == read
        for method in ("POST", "PUT"):
            assert status(text, method, path) == write
        assert status(text, "DELETE", f"{path}/n1") == write
