"""HTTP without I/O."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.system.client.wire import Response, ResponseParser, WireError, build_request

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def read_by_h11(data: bytes) -> tuple[bytes, bytes, dict[bytes, bytes], bytes]:
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    request = server.next_event()
    assert isinstance(request, h11.Request)
    body = b""
    while isinstance(event := server.next_event(), h11.Data):
        body += event.data
    return request.method, request.target, dict(request.headers), body


def test_request_with_a_body_is_read_back_by_another_implementation() -> None:
    data = build_request("POST", "/api/v1/ack", "127.0.0.1:80", b'{"a":1}', "r-1")
    method, target, headers, body = read_by_h11(data)
    assert (method, target, body) == (b"POST", b"/api/v1/ack", b'{"a":1}')
    assert headers[b"x-request-id"] == b"r-1"
    assert headers[b"content-length"] == b"7"


def test_request_says_how_long_it_may_be_held() -> None:
    _, _, headers, _ = read_by_h11(build_request("GET", "/x", "h", b"", "r", 4500))
    assert headers[b"x-deadline-ms"] == b"4500"
    _, _, headers, _ = read_by_h11(build_request("GET", "/x", "h", b"", "r"))
    assert b"x-deadline-ms" not in headers


def test_post_without_a_body_says_that_it_has_none() -> None:
    _, _, headers, body = read_by_h11(build_request("POST", "/x", "h", b"", "r"))
    assert headers[b"content-length"] == b"0"
    assert body == b""


def test_get_has_no_content_length() -> None:
    _, _, headers, _ = read_by_h11(build_request("GET", "/x", "h", b"", "r"))
    assert b"content-length" not in headers


@given(st.lists(st.integers(1, len(ANSWER) - 1), max_size=6))
def test_answer_is_the_same_however_its_bytes_are_cut(cuts: list[int]) -> None:
    parser = ResponseParser()
    edges = [0, *sorted(set(cuts)), len(ANSWER)]
    answers = [parser.feed(ANSWER[a:b]) for a, b in pairwise(edges)]
    assert answers[:-1] == [None] * (len(answers) - 1)
    last = answers[-1]
    assert last is not None
    assert (last.status, last.body, last.keep_alive) == (200, b"{}", True)


def test_answers_of_one_connection_come_one_after_the_other() -> None:
    parser = ResponseParser()
    first = parser.feed(b"HTTP/1.1 204 No Content\r\n\r\n")
    assert first == Response(204, b"", {}, True)
    second = parser.feed(ANSWER)
    assert second is not None
    assert second.body == b"{}"


def test_chunked_answer_is_put_together() -> None:
    parser = ResponseParser()
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    answer = parser.feed(data)
    assert answer is not None
    assert answer.body == b"abcde"


def test_connection_that_the_server_closes_is_not_kept() -> None:
    answer = ResponseParser().feed(
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    )
    assert answer is not None
    assert not answer.keep_alive


@pytest.mark.parametrize(
    "data",
    [
        b"not http at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"h%d: v\r\n" % n for n in range(200)) + b"\r\n",
        ANSWER + ANSWER,
    ],
    ids=["garbage", "too-many-headers", "two-answers"],
)
def test_what_is_not_one_answer_is_refused(data: bytes) -> None:
    with pytest.raises(WireError):
        ResponseParser().feed(data)


def answer(body: bytes, *more: bytes) -> bytes:
    lines = (b"HTTP/1.1 200 OK", b"Content-Length: %d" % len(body), *more)
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


@given(
    st.lists(st.sampled_from([b"", b"{}", b"[]", b"\r\n\r\n"]), min_size=1, max_size=6),
    st.lists(st.integers(1, 60), max_size=6),
)
def test_answers_under_a_known_head_are_read_like_the_first(
    bodies: list[bytes], cuts: list[int]
) -> None:
    parser = ResponseParser()
    for number, body in enumerate(bodies):
        data = answer(body)
        cut = cuts[number] if number < len(cuts) else 0
        pieces = [data] if not 0 < cut < len(data) else [data[:cut], data[cut:]]
        for piece in pieces[:-1]:
            assert parser.feed(piece) is None
        found = parser.feed(pieces[-1])
        assert found == Response(200, body, {"content-length": str(len(body))})
        assert parser.is_idle


def test_known_head_with_a_longer_or_shorter_body_is_no_whole_answer() -> None:
    parser = ResponseParser()
    parser.feed(ANSWER)
    assert parser.feed(ANSWER[:-1]) is None
    assert parser.feed(ANSWER[-1:]) is not None
    with pytest.raises(WireError):
        parser.feed(ANSWER + ANSWER)


def test_chunks_that_look_like_a_body_are_read_as_chunks_again() -> None:
    parser = ResponseParser()
    data = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    for _ in range(2):
        found = parser.feed(data)
        assert found is not None
        assert found.body == b"{}"


def test_any_number_of_heads_is_read() -> None:
    parser = ResponseParser()
    for number in range(200):
        found = parser.feed(answer(b"{}", b"X-Number: %d" % number))
        assert found is not None
        assert found.headers["x-number"] == str(number)
