"""The client without an event loop."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest

from atleastonce.system.client import (
    BrokerError,
    ClientOptions,
    Endpoint,
    Interrupted,
    SyncClient,
    calls,
)
from atleastonce.verifier.children import PortHold

from .scripted_server import Asked, Drop, Hang, Reply, Script, ScriptedServer

Serve = Callable[[Script], ScriptedServer]

PUSHED = Reply(201, b'[{"index":0,"status":"queued","offset":0}]')
ACKED = Reply(200, b'[{"index":0,"transactionId":"t","success":true,"error":null}]')
PUSH = calls.push([{"queue": "q", "payload": 1}])


def client_of(*servers: ScriptedServer, **options: float) -> SyncClient:
    return SyncClient([s.endpoint for s in servers], ClientOptions(**options))  # type: ignore[arg-type]


def refused_endpoint() -> Endpoint:
    """Nobody listens there, and no connection of others gets it as its own port."""
    hold = PortHold()
    port = hold.take(["free"], 0)["free"].client
    hold.close()
    return Endpoint("127.0.0.1", port)


def in_turn(*actions: Reply | Drop | Hang) -> Script:
    left = list(actions)

    def script(_: Asked) -> Reply | Drop | Hang:
        return left.pop(0) if len(left) > 1 else left[0]

    return script


def test_nothing_is_opened_before_the_first_call(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    assert server.connections == 0
    client.call(PUSH)
    assert server.connections == 1
    client.close()


def test_connection_is_kept_between_calls(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    for _ in range(3):
        client.call(PUSH)
    assert server.connections == 1
    client.close()


def test_lost_answer_is_asked_again_elsewhere_under_the_same_ids(serve: Serve) -> None:
    first, second = serve(in_turn(Drop())), serve(in_turn(PUSHED))
    client = client_of(first, second)
    answer = client.call(PUSH)
    assert answer.answered_by == second.endpoint
    assert answer.tries == 2
    assert first.asked[0].request_id == second.asked[0].request_id
    assert first.asked[0].body == second.asked[0].body
    client.close()


def test_answer_cut_in_the_middle_counts_as_lost(serve: Serve) -> None:
    first = serve(in_turn(Drop(b"HTTP/1.1 201 Created\r\nContent-Le")))
    second = serve(in_turn(PUSHED))
    client = client_of(first, second)
    assert client.call(PUSH).answered_by == second.endpoint
    client.close()


def test_calls_differ_in_their_ids(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    client.call(PUSH)
    client.call(PUSH)
    assert server.asked[0].request_id != server.asked[1].request_id
    client.close()


def test_callers_id_is_sent(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    client.call(PUSH, request_id="mine")
    assert server.asked[0].request_id == "mine"
    client.close()


def test_node_that_answered_is_asked_first_next_time(serve: Serve) -> None:
    first, second = serve(in_turn(Drop())), serve(in_turn(PUSHED))
    client = client_of(first, second)
    client.call(PUSH)
    client.call(PUSH)
    assert len(first.asked) == 1
    assert len(second.asked) == 2
    client.close()


def test_node_that_failed_last_is_not_asked_first_next_time(serve: Serve) -> None:
    silent, second = serve(in_turn(Hang())), serve(in_turn(PUSHED))
    client = client_of(silent, second, try_timeout_s=1.0)
    with pytest.raises(BrokerError):
        client.call(PUSH, deadline_s=0.1)
    assert client.call(PUSH).answered_by == second.endpoint
    client.close()


def test_refused_everywhere_is_a_definite_failure() -> None:
    client = SyncClient([refused_endpoint(), refused_endpoint()], ClientOptions(1.0, 0.2))
    with pytest.raises(BrokerError) as caught:
        client.call(PUSH)
    assert caught.value.definite
    assert caught.value.code == "connection_refused"


def test_silent_node_is_left_after_the_try_timeout(serve: Serve) -> None:
    silent, second = serve(in_turn(Hang())), serve(in_turn(PUSHED))
    client = client_of(silent, second, try_timeout_s=0.1)
    assert client.call(PUSH).answered_by == second.endpoint
    client.close()


def test_silent_nodes_are_an_indefinite_failure(serve: Serve) -> None:
    client = client_of(serve(in_turn(Hang())), try_timeout_s=0.1, deadline_s=0.3)
    with pytest.raises(BrokerError) as caught:
        client.call(PUSH)
    assert not caught.value.definite
    assert caught.value.code == "timeout"


def test_refusal_is_not_tried_again(serve: Serve) -> None:
    server = serve(in_turn(Reply(400, b'{"error":"bad","code":"bad_request"}')))
    client = client_of(server)
    with pytest.raises(BrokerError, match="bad_request"):
        client.call(PUSH)
    assert len(server.asked) == 1
    client.close()


def test_overloaded_node_is_asked_again_after_its_pause(serve: Serve) -> None:
    busy = Reply(429, b'{"error":"x","code":"overloaded"}', {"Retry-After": "0"})
    server = serve(in_turn(busy, PUSHED))
    client = client_of(server)
    assert client.call(PUSH).tries == 2
    client.close()


def test_connection_closed_by_a_restarted_node_is_replaced_silently(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    client.call(PUSH)
    server.drop_connections()
    answer = client.call(PUSH)
    assert answer.answered_by == server.endpoint
    assert server.connections == 2
    client.close()


def test_answer_that_ends_the_connection_is_not_kept(serve: Serve) -> None:
    server = serve(in_turn(Reply(201, PUSHED.body, {"Connection": "close"}, close=True)))
    client = client_of(server)
    client.call(PUSH)
    client.call(PUSH)
    assert server.connections == 2
    client.close()


def test_sent_call_is_on_the_wire_before_its_answer_is_read(serve: Serve) -> None:
    server = serve(in_turn(ACKED))
    client = client_of(server)
    pending = client.send(calls.ack("t", "7", group="g"))
    assert pending.is_on_the_wire
    server.wait_for(lambda: len(server.asked) == 1)
    assert client.receive(pending).value[0].success
    client.close()


def test_two_calls_may_be_out_at_once(serve: Serve) -> None:
    server = serve(lambda asked: PUSHED if "push" in asked.target else ACKED)
    client = client_of(server)
    first, second = client.send(calls.ack("t", "7", group="g")), client.send(PUSH)
    assert client.receive(second).value[0].status == "queued"
    assert client.receive(first).value[0].success
    client.close()


def test_sent_call_whose_answer_is_lost_is_sent_again_under_its_id(serve: Serve) -> None:
    server = serve(in_turn(Drop(), ACKED))
    client = client_of(server)
    pending = client.send(calls.ack("t", "7", group="g"))
    assert client.receive(pending).tries == 2
    assert server.asked[0].request_id == server.asked[1].request_id
    client.close()


def test_lost_call_is_not_sent_again_when_the_caller_forbids_it(serve: Serve) -> None:
    server = serve(in_turn(Drop(), ACKED))
    client = client_of(server)
    pending = client.send(calls.ack("t", "7", group="g"))
    with pytest.raises(BrokerError):
        client.receive(pending, again=False)
    assert len(server.asked) == 1
    client.close()


def test_answer_that_waited_past_the_deadline_is_still_read(serve: Serve) -> None:
    server = serve(in_turn(Reply(200, ACKED.body, pieces=4)))
    client = client_of(server, try_timeout_s=1.0)
    pending = client.send(calls.ack("t", "7", group="g"), deadline_s=0.0)
    server.wait_for(lambda: len(server.asked) == 1)
    assert client.receive(pending).value[0].success
    client.close()


def test_shortened_call_ends_at_its_new_deadline(serve: Serve) -> None:
    client = client_of(serve(in_turn(Hang())), try_timeout_s=0.1, deadline_s=600.0)
    pending = client.send(PUSH)
    client.shorten(pending, 0.2)
    started_s = time.monotonic()
    with pytest.raises(BrokerError):
        client.receive(pending)
    assert time.monotonic() - started_s < 60.0


def test_signal_interrupts_a_wait_and_leaves_the_call_out(serve: Serve) -> None:
    server = serve(in_turn(Hang(Reply(204, b""))))
    reader, writer = os.pipe()
    client = SyncClient([server.endpoint], ClientOptions(), interrupt_fd=reader)
    pending = client.send(calls.pop("q", group="g", wait_s=30.0))
    os.write(writer, b"x")
    with pytest.raises(Interrupted):
        client.receive(pending, interruptible=True)
    assert pending.is_on_the_wire
    popped = client.abandon(pending, 60.0)
    assert popped is not None
    assert popped.messages == ()
    for fd in (reader, writer):
        os.close(fd)


def test_abandoned_call_that_nobody_answers_is_nothing(serve: Serve) -> None:
    server = serve(in_turn(Hang()))
    client = client_of(server)
    pending = client.send(calls.pop("q", group="g", wait_s=30.0))
    server.wait_for(lambda: len(server.asked) == 1)
    assert client.abandon(pending, 60.0) is None


def test_request_larger_than_the_sockets_buffers_is_sent_whole(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    payload = "x" * (8 << 20)
    client.call(calls.push([{"queue": "q", "payload": payload}]))
    assert len(server.asked[0].body) > len(payload)
    client.close()


def test_client_made_before_a_fork_works_after_it(serve: Serve) -> None:
    server = serve(in_turn(PUSHED))
    client = client_of(server)
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            status = 0 if client.call(PUSH).value[0].status == "queued" else 1
        finally:
            os._exit(status)
    assert os.waitpid(pid, 0)[1] == 0


def test_health_asks_one_node_once(serve: Serve) -> None:
    server = serve(in_turn(Reply(503, b'{"status":"settling"}')))
    other = serve(in_turn(PUSHED))
    client = client_of(other, server)
    assert client.health(server.endpoint, timeout_s=60.0).value.status == "settling"
    with pytest.raises(BrokerError):
        client.health(refused_endpoint(), timeout_s=0.1)
    assert other.asked == []


@pytest.mark.parametrize("action", [ACKED, Drop()])
def test_call_has_news_once_it_is_answered_or_its_connection_has_broken(
    serve: Serve, action: Reply | Drop
) -> None:
    hang, released = Hang(), serve(in_turn(action, ACKED))
    silent = client_of(serve(in_turn(hang)))
    unanswered = silent.send(calls.ack("t", "p", group="g"))
    assert not unanswered.has_news()
    client = client_of(released)
    pending = client.send(calls.ack("t", "p", group="g"))
    until_s = time.monotonic() + 60
    while not pending.has_news():
        assert time.monotonic() < until_s
    assert client.receive(pending).value[0].success
    unanswered.close()
    assert unanswered.has_news()
    client.close()
    silent.close()
