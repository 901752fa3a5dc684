"""An HTTP answer as a value, and the error shapes."""

from __future__ import annotations

from typing import Final

import msgspec

JSON: Final = "application/json"
PLAIN: Final = "text/plain; charset=utf-8"

_ENCODER: Final = msgspec.json.Encoder()


class Answer(msgspec.Struct, frozen=True, gc=False):
    """What goes back to the client.

    Attributes:
        status: HTTP status; 204 has no body and is sent without Content-Type and Content-Length.
        body: Complete.
        content_type: Of the body.
        headers: Further headers.
    """

    status: int
    body: bytes
    content_type: str = JSON
    headers: tuple[tuple[str, str], ...] = ()


class RefusedError(Exception):
    """A request that is answered at once."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status, answer.body)
        self.answer = answer


class ErrorBody(msgspec.Struct):
    """Why a request was refused."""

    error: str
    code: str


class CodedErrorBody(msgspec.Struct):
    """Why a request about keys, locks or timers was refused; `error` is the code."""

    error: str
    reason: str
    detail: str


def error_answer(status: int, code: str, text: str, retry_after_s: int | None = None) -> Answer:
    """`{"error": text, "code": code}`, with `Retry-After` when given."""
    headers = () if retry_after_s is None else (("Retry-After", str(retry_after_s)),)
    return Answer(status, msgspec.json.encode(ErrorBody(text, code)), JSON, headers)


def bad_request(text: str) -> RefusedError:
    """400 with code `bad_request`."""
    return RefusedError(error_answer(400, "bad_request", text))


def json_answer(body: object, status: int = 200) -> Answer:
    """A JSON answer."""
    return Answer(status, _ENCODER.encode(body), JSON)


def coded_error(status: int, code: str, reason: str, detail: str) -> RefusedError:
    """How KV, locks and timers refuse: `{"error": code, "reason": reason, "detail": detail}`."""
    body = msgspec.json.encode(CodedErrorBody(code, reason, detail))
    return RefusedError(Answer(status, body))


def no_such_route() -> Answer:
    """404 for a method and path that nothing serves; clients branch on its code."""
    return error_answer(404, "no_such_route", "Not Found")


def empty_pop_answer() -> Answer:
    """204: nothing to pop."""
    return Answer(204, b"")


def too_large_answer() -> Answer:
    """413 as plain text: the body is over the limit."""
    return Answer(413, b"request body is larger than 64 MiB\n", PLAIN)
