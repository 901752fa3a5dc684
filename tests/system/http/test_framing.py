"""Requests out of bytes: httptools with our limits, against h11 and against itself in pieces."""

from __future__ import annotations

import tracemalloc

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.http.framing import (
    FramingError,
    HttpLimits,
    Request,
    RequestParser,
    encode_response,
)

SMALL = HttpLimits(header_bytes_max=400, body_bytes_max=1000)
GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


def parse(data: bytes, cuts: list[int] | None = None, limits: HttpLimits = SMALL) -> list[object]:
    """All requests in `data`, and the status of the error that ended it, if any."""
    parser = RequestParser(limits)
    start = 0
    for cut in [*sorted(cuts or ()), len(data)]:
        if cut > start:
            parser.feed(data[start:cut])
            start = cut
    found: list[object] = []
    try:
        while (request := parser.next_request()) is not None:
            found.append(request)
    except FramingError as error:
        found.append(error.status)
    return found


def only(data: bytes) -> Request:
    """The single request in `data`."""
    (request,) = parse(data)
    assert isinstance(request, Request)
    return request


token = st.text("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=1)
value = st.text("abcdefghijklmnopqrstuvwxyz0123456789 ;=/\"'", max_size=20).map(str.strip)
names_apart = {
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "upgrade",
    "expect",
    "http2-settings",
}
headers = st.lists(
    st.tuples(token.filter(lambda name: name.lower() not in names_apart), value), max_size=4
)


@st.composite
def one_request(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """Bytes of one valid request, and its body."""
    method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"]))
    target = "/" + draw(st.text("abcz019-_.~%/?=&", max_size=20))
    body = draw(st.binary(max_size=60))
    lines = [f"{method} {target} HTTP/1.1", "Host: node"]
    lines += [f"{name}: {text}" for name, text in draw(headers)]
    framing = draw(st.sampled_from(["length", "chunked", "none"]))
    payload = body
    if framing == "length":
        lines.append(f"Content-Length: {len(body)}")
    elif framing == "chunked":
        lines.append("Transfer-Encoding: chunked")
        payload = chunk(body, draw(st.integers(1, 20)))
    else:
        body = payload = b""
    lines.append(
        draw(st.sampled_from(["X-Last: 1", "Connection: close", "Connection: keep-alive"]))
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + payload, body


def chunk(body: bytes, size: int) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def parse_by_h11(data: bytes) -> tuple[str, str, dict[str, str], bytes]:
    """What the reference reads."""
    connection = h11.Connection(h11.SERVER)
    connection.receive_data(data)
    request = connection.next_event()
    assert isinstance(request, h11.Request)
    found: dict[str, str] = {}
    for raw_name, raw_value in request.headers:
        name, text = raw_name.decode(), raw_value.decode()
        found[name] = f"{found[name]}, {text}" if name in found else text
    body = b""
    while isinstance(event := connection.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    return request.method.decode(), request.target.decode(), found, body


@settings(max_examples=150)
@given(one_request())
def test_a_valid_request_reads_as_the_reference_reads_it(made: tuple[bytes, bytes]) -> None:
    data, body = made
    request = only(data)
    assert (
        request.method,
        request.target,
        dict(request.headers),
        request.body,
    ) == parse_by_h11(data)
    assert request.body == body


@settings(max_examples=150)
@given(st.lists(one_request(), min_size=1, max_size=3), st.data())
def test_pieces_of_any_size_read_like_the_whole(
    made: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(request for request, _ in made)
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=12))
    whole = parse(stream)
    assert parse(stream, cuts) == whole
    assert parse(stream, list(range(len(stream)))) == whole


@settings(max_examples=200)
@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_garbage_ends_in_requests_or_a_status(data: bytes, cuts: list[int]) -> None:
    for found in parse(data, cuts):
        assert isinstance(found, Request) or found in (400, 405, 413, 431, 505)


@settings(max_examples=200)
@given(one_request(), st.data())
def test_a_damaged_request_ends_in_requests_or_a_status(
    made: tuple[bytes, bytes], data: st.DataObject
) -> None:
    damaged = bytearray(made[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    for found in parse(bytes(damaged)):
        assert isinstance(found, Request) or found in (400, 405, 413, 431, 505)


def test_pipelined_requests_come_in_order() -> None:
    post = b"POST /y HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"
    found = parse(GET + post + GET)
    assert [request.target for request in found if isinstance(request, Request)] == [
        "/x",
        "/y",
        "/x",
    ]


def test_requests_before_garbage_are_still_read() -> None:
    found = parse(GET + b"\0\0\0\0")
    assert isinstance(found[0], Request)
    assert found[1] == 405


def test_trailers_are_dropped() -> None:
    data = (
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"2\r\nhi\r\n0\r\nX-Trailer: 1\r\n\r\n"
    )
    request = only(data)
    assert request.body == b"hi"
    assert "x-trailer" not in request.headers


@pytest.mark.parametrize("step", [1, 7, 10_000])
@pytest.mark.parametrize("ends", [b"", b"\r\n\r\n"])
def test_headers_above_the_limit_are_431(step: int, ends: bytes) -> None:
    data = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 2000 + ends
    if len(data) > step or ends:
        cuts = list(range(0, len(data), step))
        assert parse(data, cuts) == [431] or (step == 10_000 and not ends)


def test_too_many_headers_are_431() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\n"
    few = b"".join(b"h%d: x\r\n" % number for number in range(127))
    (request,) = parse(head + few + b"\r\n", limits=HttpLimits())
    assert isinstance(request, Request)
    assert parse(head + few + b"more: x\r\n\r\n", limits=HttpLimits()) == [431]


def test_a_body_of_tiny_chunks_takes_little_more_memory_than_its_bytes() -> None:
    parser = RequestParser(HttpLimits())
    parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    chunks = b"2\r\nab\r\n" * 10_000
    tracemalloc.start()
    try:
        for _ in range(10):
            parser.feed(chunks)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * 200_000
    parser.feed(b"0\r\n\r\n")
    request = parser.next_request()
    assert request is not None
    assert request.body == b"ab" * 100_000


def test_headers_at_the_limit_are_accepted_byte_by_byte() -> None:
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    data = head + b"y" * (SMALL.header_bytes_max - len(head) - 4) + b"\r\n\r\n"
    assert isinstance(parse(data, list(range(len(data))))[0], Request)


def test_a_long_body_is_413_before_it_arrives() -> None:
    assert parse(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n") == [413]


def test_a_long_chunked_body_is_413() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert parse(head + chunk(b"x" * 1001, 100)) == [413]


def test_a_body_at_the_limit_is_accepted() -> None:
    request = only(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + b"x" * 1000)
    assert len(request.body) == 1000


def test_length_and_chunked_together_are_400() -> None:
    head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert parse(head + b"0\r\n\r\n") == [400]


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"])
def test_a_request_needs_exactly_one_host(hosts: bytes) -> None:
    assert parse(b"GET / HTTP/1.1\r\n" + hosts + b"\r\n") == [400]


def test_an_unknown_method_is_405() -> None:
    assert parse(b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n") == [405]


def test_http_1_0_ends_its_connection() -> None:
    assert not only(b"GET / HTTP/1.0\r\n\r\n").keep_alive
    assert only(GET).keep_alive
    assert not only(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").keep_alive


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 3\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"],
)
def test_an_upgrade_is_ignored_and_its_body_read(framing: bytes) -> None:
    data = b"POST /b HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n" + framing + GET
    for cuts in ([], list(range(len(data)))):
        first, second = parse(data, cuts)
        assert isinstance(first, Request)
        assert first.target == "/b"
        assert first.body == b"abc"
        assert isinstance(second, Request)
        assert second.target == "/x"


def test_expect_continue_is_wanted_until_the_body_comes() -> None:
    parser = RequestParser(SMALL)
    parser.feed(b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
    wanted = [parser.wants_continue]
    parser.feed(b"hi")
    wanted.append(parser.wants_continue)
    assert wanted == [True, False]
    assert parser.next_request() is not None


def read_response(data: bytes, method: str = "GET") -> tuple[h11.Response, bytes]:
    """What the reference client reads."""
    client = h11.Connection(h11.CLIENT)
    client.send(h11.Request(method=method, target="/", headers=[("Host", "a")]))
    client.send(h11.EndOfMessage())
    client.receive_data(data)
    response = client.next_event()
    assert isinstance(response, h11.Response)
    body = b""
    while isinstance(event := client.next_event(), h11.Data):
        body += bytes(event.data)
    assert isinstance(event, h11.EndOfMessage)
    return response, body


@given(st.sampled_from([200, 201, 400, 404, 413, 503]), st.binary(max_size=50), st.booleans())
def test_a_response_reads_back_by_the_reference(status: int, body: bytes, close: bool) -> None:
    data = encode_response(status, body, "application/json", (("retry-after", "1"),), close)
    response, read = read_response(data)
    assert (response.status_code, read) == (status, body)
    fields = dict(response.headers)
    assert fields[b"content-length"] == b"%d" % len(body)
    assert fields[b"retry-after"] == b"1"
    assert (b"connection" in fields) is close


def test_204_has_neither_body_nor_length() -> None:
    data = encode_response(204, b"ignored", "application/json", (), close=False)
    assert data == b"HTTP/1.1 204 No Content\r\n\r\n"


def test_an_answer_to_head_has_a_length_and_no_body() -> None:
    data = encode_response(405, b"{}", "application/json", (), close=False, head_only=True)
    response, body = read_response(data, "HEAD")
    assert response.status_code == 405
    assert body == b""
    assert dict(response.headers)[b"content-length"] == b"2"
