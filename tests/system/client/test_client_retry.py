"""When and where a call is tried again."""

from __future__ import annotations

from atleastonce.system.client import Endpoint
from atleastonce.system.client.retry import Retry
from atleastonce.system.client.wire import Response

NODES = [Endpoint("127.0.0.1", port) for port in (1, 2, 3)]


def test_each_try_goes_to_the_next_node() -> None:
    retry = Retry(NODES, 1, 10.0)
    asked = []
    for _ in range(4):
        asked.append(retry.endpoint.port)
        retry.begin()
        retry.lost("reset")
    assert asked == [2, 3, 1, 2]


def test_pause_comes_only_after_a_whole_round_and_grows() -> None:
    retry = Retry(NODES, 0, 100.0)
    pauses = []
    for _ in range(9):
        retry.begin()
        pauses.append(retry.refused("no"))
    assert pauses == [0, 0, 0.05, 0, 0, 0.1, 0, 0, 0.2]


def test_pause_does_not_grow_beyond_its_limit() -> None:
    retry = Retry(NODES[:1], 0, 100.0)
    for _ in range(10):
        retry.begin()
        pause_s = retry.refused("no")
    assert pause_s == 0.5


def test_refused_connections_alone_are_a_definite_failure() -> None:
    retry = Retry(NODES, 0, 10.0)
    for _ in range(3):
        retry.begin()
        retry.refused("no")
    assert retry.error("push").definite


def test_one_lost_answer_makes_the_failure_indefinite_for_good() -> None:
    retry = Retry(NODES, 0, 10.0)
    retry.begin()
    retry.lost("reset")
    retry.begin()
    retry.refused("no")
    assert not retry.error("push").definite


def test_server_error_is_indefinite_and_tried_elsewhere() -> None:
    retry = Retry(NODES, 0, 10.0)
    retry.begin()
    assert retry.answered(Response(503, b'{"error":"x","code":"no_leader"}')) == 0.0
    assert retry.endpoint == NODES[1]
    error = retry.error("push")
    assert (error.status, error.code, error.definite) == (503, "no_leader", False)


def test_overloaded_node_sets_the_pause_and_leaves_nothing_in_doubt() -> None:
    retry = Retry(NODES, 0, 10.0)
    retry.begin()
    pause_s = retry.answered(Response(429, b"{}", {"retry-after": "2"}))
    assert pause_s == 2.0
    assert retry.error("push").definite


def test_refusal_is_final() -> None:
    retry = Retry(NODES, 0, 10.0)
    retry.begin()
    assert retry.answered(Response(404, b"{}")) is None


def test_no_time_for_a_try_is_a_definite_failure() -> None:
    assert Retry(NODES, 0, 0.0).error("push").definite
