"""HTTP/1.1 without I/O: request bytes, and a parser that is fed whatever arrived."""

from __future__ import annotations

from collections.abc import Mapping

import httptools
import msgspec

HEADERS_MAX = 100
BODY_BYTES_MAX = 256 << 20
KNOWN_HEADS_MAX = 32
KNOWN_HEAD_BYTES_MAX = 512

_BLANK_LINE = b"\r\n\r\n"


class Response(msgspec.Struct, frozen=True):
    """One complete answer; header names are in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    keep_alive: bool = True


class WireError(Exception):
    """What arrived is not an HTTP/1.1 answer that this client can read."""


def build_request(
    method: str,
    target: str,
    host: str,
    body: bytes,
    request_id: str,
    deadline_ms: int = 0,
    bearer: str | None = None,
) -> bytes:
    """The bytes of one request.

    Args:
        method: `GET`, `POST` or `DELETE`.
        target: Path and query, already quoted.
        host: Value of the `Host` header.
        body: JSON, or nothing.
        request_id: Value of `x-request-id`; a repeat carries the same.
        deadline_ms: Value of `x-deadline-ms`, for how long the node may hold the request while
            there is no leader; at 0 the node decides.
        bearer: The token of `Authorization`; None sends none.
    """
    head = f"{method} {target} HTTP/1.1\r\nHost: {host}\r\nx-request-id: {request_id}\r\n"
    if deadline_ms > 0:
        head += f"x-deadline-ms: {deadline_ms}\r\n"
    if bearer is not None:
        head += f"Authorization: Bearer {bearer}\r\n"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    elif method == "POST":
        head += "Content-Length: 0\r\n\r\n"
    else:
        head += "\r\n"
    return head.encode("ascii") + body


class ResponseParser:
    """Reads the answers of one connection, one after the other."""

    def __init__(self) -> None:
        """Expect the first answer of a fresh connection."""
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._body_bytes = 0
        self._done: Response | None = None
        self._known: dict[bytes, tuple[int, Response]] = {}
        self.is_idle = True
        """Whether nothing of the next answer has arrived yet."""

    def feed(self, data: bytes) -> Response | None:
        """Take bytes from the connection.

        Returns:
            The answer when it is complete.

        Raises:
            WireError: The bytes are not HTTP, or exceed what is accepted.
        """
        if not self.is_idle:
            return self._parse(data)
        head, blank, body = data.partition(_BLANK_LINE)
        known = self._known.get(head)
        # Between two answers, the same head before as long a body means what it meant before.
        if known is not None and blank and len(body) == known[0]:
            empty = known[1]
            return Response(empty.status, body, empty.headers, empty.keep_alive)
        done = self._parse(data)
        if done is not None and done.body == body:
            self._learn(head, done)
        return done

    def _learn(self, head: bytes, done: Response) -> None:
        """Keep what a head says, if it alone says how long the body is."""
        length = len(done.body)
        if done.headers.get("content-length") != str(length) or not done.keep_alive:
            return
        if len(head) > KNOWN_HEAD_BYTES_MAX:
            return
        if len(self._known) >= KNOWN_HEADS_MAX:
            self._known.clear()
        self._known[head] = (length, Response(done.status, b"", done.headers))

    def _parse(self, data: bytes) -> Response | None:
        self.is_idle = False
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            raise WireError(f"malformed answer: {error}") from error
        done, self._done = self._done, None
        if done is not None:
            self.is_idle = True
        return done

    def on_message_begin(self) -> None:
        """Called by httptools."""
        if self._done is not None:
            raise WireError("two answers to one request")
        self._headers = {}
        self._body = []
        self._body_bytes = 0

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools."""
        if len(self._headers) >= HEADERS_MAX:
            raise WireError(f"more than {HEADERS_MAX} headers")
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        """Called by httptools."""
        self._body_bytes += len(body)
        if self._body_bytes > BODY_BYTES_MAX:
            raise WireError(f"answer longer than {BODY_BYTES_MAX} B")
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Called by httptools."""
        status = self._parser.get_status_code()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        self._done = Response(status, body, self._headers, bool(self._parser.should_keep_alive()))
