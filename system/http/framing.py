"""HTTP/1.1 requests out of bytes, answers into bytes; no input or output happens here.

`RequestParser` wraps httptools (llhttp) and adds what that leaves to its caller: limits, one
`Host`, bodies behind an ignored `Upgrade`, and a status for each way to be malformed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

import httptools
import msgspec

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

_PIECES_MAX: Final = 1024

_NAMES: Final = {
    spelled: lower
    for lower in (
        *("accept", "accept-encoding", "authorization", "connection", "content-length"),
        *("content-type", "host", "user-agent", "x-deadline-ms", "x-request-id"),
    )
    for spelled in (lower.encode(), lower.title().encode())
}
"""Header names as most clients spell them, in lower case."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What one connection may cost.

    Attributes:
        header_bytes_max: Request line and headers together; more is answered 431.
        headers_max: How many headers; more is answered 431.
        body_bytes_max: A larger body is answered 413 and the connection closed.
        header_timeout_s: From a request's first byte to the end of its headers.
        body_timeout_s: Without any progress of a body.
        body_rate_min: Bytes a second that a body must bring, counted from `body_timeout_s` after
            its headers; a slower one is answered 408.
        idle_timeout_s: Between two requests of a connection.
        connections_max: Further ones are answered 429 and closed.
        receiving_bytes_max: Of all unfinished bodies together; the one that grows beyond it is
            answered 429 and its connection closed, unless it is alone.
    """

    header_bytes_max: int = 32 * 1024
    headers_max: int = 128
    body_bytes_max: int = 64 * 1024 * 1024
    header_timeout_s: float = 10.0
    body_timeout_s: float = 30.0
    body_rate_min: int = 8 * 1024
    idle_timeout_s: float = 75.0
    connections_max: int = 1024
    receiving_bytes_max: int = 256 * 1024 * 1024


class Request(msgspec.Struct, frozen=True, gc=False):
    """One whole request; header names are in lower case, repeated ones joined by commas."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes
    keep_alive: bool


class FramingError(Exception):
    """Bytes that are no acceptable request; the connection cannot be used any further.

    Attributes:
        status: The status to answer before closing.
    """

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Gathered:
    """A body from its pieces; many small ones take little more memory than they have bytes."""

    __slots__ = ("_pieces", "_whole")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._whole = bytearray()

    def append(self, piece: bytes) -> None:
        """Add a piece. Cost: amortised, one copy of its bytes."""
        self._pieces.append(piece)
        if len(self._pieces) > _PIECES_MAX:
            self._whole += b"".join(self._pieces)
            self._pieces.clear()

    def take(self) -> bytes:
        """All of it, and begin anew."""
        pieces, self._pieces = self._pieces, []
        if not self._whole:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)
        self._whole += b"".join(pieces)
        whole, self._whole = bytes(self._whole), bytearray()
        return whole


class RequestParser:
    """Feeds on bytes in pieces of any size and collects whole requests in order.

    Attributes:
        wants_continue: The client waits for `100 Continue` before it sends the body.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.wants_continue = False
        self._limits = limits
        self._parser = httptools.HttpRequestParser(self)
        self._ready: deque[Request] = deque()
        self._error: FramingError | None = None
        self._target = b""
        self._headers: dict[str, str] = {}
        self._header_bytes = 0
        self._unended_bytes = 0
        self._body = Gathered()
        self._body_bytes = 0
        self._method = ""
        self._keep_alive = False
        self._in_headers = False
        self._in_body = False
        self._resumes_body = False
        self._awaits_resumed_head = False

    @property
    def in_headers(self) -> bool:
        """Whether a request has begun and its headers have not ended."""
        return self._in_headers

    @property
    def in_body(self) -> bool:
        """Whether headers have ended and the body has not."""
        return self._in_body

    @property
    def unfinished_bytes(self) -> int:
        """What has come of a body whose end has not."""
        return self._body_bytes if self._in_body else 0

    def feed(self, data: bytes | memoryview) -> None:
        """Parse the next bytes; whole requests wait for `next_request`.

        Errors are kept until the requests in front of them have been taken.
        """
        if self._error is not None:
            return
        began_in_headers = self._in_headers
        completed = len(self._ready)
        while True:
            try:
                self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._resume_without_upgrade(data[upgrade.args[0] :])
                continue
            except httptools.HttpParserInvalidMethodError:
                self._fail(405, "unknown request method")
            except httptools.HttpParserCallbackError as error:
                self._fail_by_callback(error)
            except httptools.HttpParserError as error:
                self._fail(400, f"malformed request: {error}")
            break
        if self._in_headers and began_in_headers and completed == len(self._ready):
            # A header without an end reaches no callback, so its bytes are counted here.
            self._unended_bytes += len(data)
            if self._unended_bytes > self._limits.header_bytes_max and self._error is None:
                self._error = self._header_limit_error()

    def next_request(self) -> Request | None:
        """Take the oldest whole request, or None when more bytes are needed.

        Raises:
            FramingError: What follows the requests taken so far is not acceptable.
        """
        if self._ready:
            return self._ready.popleft()
        if self._error is not None:
            raise self._error
        return None

    # Callbacks of httptools, in the order in which it calls them.

    def on_message_begin(self) -> None:
        """A request's first byte."""
        if self._resumes_body:
            self._awaits_resumed_head = True
            return
        self._target = b""
        self._headers = {}
        self._header_bytes = 0
        self._unended_bytes = 0
        self._body_bytes = 0
        self._in_headers = True

    def on_url(self, url: bytes) -> None:
        """A piece of the request target."""
        if self._awaits_resumed_head:
            return
        self._target += url
        self._count_header(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """One whole header, or trailer, which is counted and dropped."""
        if self._awaits_resumed_head:
            return
        self._count_header(len(name) + len(value) + 4)
        if not self._in_headers:
            return
        key = _NAMES.get(name) or name.decode("latin-1").lower()
        text = value.decode("latin-1")
        known = self._headers.get(key)
        self._headers[key] = text if known is None else f"{known}, {text}"
        if len(self._headers) > self._limits.headers_max:
            raise FramingError(431, f"more than {self._limits.headers_max} headers")
        if key == "content-length" and int(text) > self._limits.body_bytes_max:
            raise FramingError(413, self._body_limit_text())

    def on_headers_complete(self) -> None:
        """The end of the headers."""
        if self._awaits_resumed_head:
            self._awaits_resumed_head = False
            return
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise FramingError(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
        headers = self._headers
        host = headers.get("host")
        if version == "1.1" and (host is None or ", " in host):
            raise FramingError(400, "a request needs exactly one Host header")
        self._method = self._parser.get_method().decode("ascii")
        self._keep_alive = self._parser.should_keep_alive()
        self._in_headers = False
        self._in_body = True
        self.wants_continue = headers.get("expect", "").lower() == "100-continue"

    def on_body(self, piece: bytes) -> None:
        """A piece of the body."""
        self.wants_continue = False
        self._body_bytes += len(piece)
        if self._body_bytes > self._limits.body_bytes_max:
            raise FramingError(413, self._body_limit_text())
        self._body.append(piece)

    def on_message_complete(self) -> None:
        """The request's last byte."""
        if self._parser.should_upgrade() and self._has_body() and not self._resumes_body:
            return  # llhttp stops here and leaves the body unread: see _resume_without_upgrade.
        self._resumes_body = False
        self._in_body = False
        self.wants_continue = False
        body = self._body.take()
        self._ready.append(
            Request(
                method=self._method,
                target=self._target.decode("latin-1"),
                headers=self._headers,
                body=body,
                keep_alive=self._keep_alive,
            )
        )

    def _has_body(self) -> bool:
        length = self._headers.get("content-length", "0")
        return length != "0" or "transfer-encoding" in self._headers

    def _resume_without_upgrade(self, rest: bytes | memoryview) -> bytes:
        """Go on behind a request whose `Upgrade` is ignored; returns the bytes to feed next.

        llhttp takes everything behind such a request's headers for another protocol. A second
        parser gets a made-up head, which is swallowed, and then reads the body and what follows.
        """
        self._parser = httptools.HttpRequestParser(self)
        if not self._in_body:
            return bytes(rest)
        self._resumes_body = True
        if "transfer-encoding" in self._headers:
            framing = b"transfer-encoding: chunked"
        else:
            framing = b"content-length: " + self._headers["content-length"].encode("latin-1")
        return b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n" + bytes(rest)

    def _count_header(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > self._limits.header_bytes_max:
            raise self._header_limit_error()

    def _header_limit_error(self) -> FramingError:
        return FramingError(431, f"headers are limited to {self._limits.header_bytes_max} bytes")

    def _body_limit_text(self) -> str:
        return f"a body is limited to {self._limits.body_bytes_max} bytes"

    def _fail(self, status: int, text: str) -> None:
        self._error = FramingError(status, text)

    def _fail_by_callback(self, error: Exception) -> None:
        cause = error.__context__
        if isinstance(cause, FramingError):
            self._error = cause
        else:
            self._fail(400, "malformed request")


def _status_line(status: int) -> bytes:
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")


_STATUS_LINES: Final = {int(status): _status_line(status) for status in HTTPStatus}


def encode_response(
    status: int,
    body: bytes,
    content_type: str,
    headers: Iterable[tuple[str, str]],
    close: bool,
    head_only: bool = False,
) -> bytes:
    """Lay out one answer; 204 and 304 carry neither a body nor a `Content-Length`.

    Args:
        status: The HTTP status.
        body: The body; ignored for 204 and 304, left out (but measured) for `head_only`.
        content_type: Value of `Content-Type`; must hold no line break.
        headers: Further headers; must hold no line breaks.
        close: Whether the connection ends behind this answer.
        head_only: Whether this answers a HEAD request.
    """
    parts = [_STATUS_LINES.get(status) or _status_line(status)]
    bodiless = status in (204, 304)
    if not bodiless:
        parts.append(b"content-type: %b\r\n" % content_type.encode("latin-1"))
        parts.append(b"content-length: %d\r\n" % len(body))
    for name, value in headers:
        assert value.isprintable(), f"unprintable header {name}: {value!r}"
        parts.append(f"{name}: {value}\r\n".encode("latin-1"))
    if close:
        parts.append(b"connection: close\r\n")
    parts.append(b"\r\n")
    if not bodiless and not head_only:
        parts.append(body)
    return b"".join(parts)
