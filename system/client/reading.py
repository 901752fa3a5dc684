"""How an answer becomes a record, or the error that it carries. No I/O."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, Generic, TypeVar

import msgspec

from .errors import CODE_MALFORMED, BrokerError
from .wire import Response

T = TypeVar("T")


class Results(msgspec.Struct, Generic[T], frozen=True):
    """An answer that holds one result for each of several operations, in order."""

    results: tuple[T, ...]


class _ErrorBody(msgspec.Struct, frozen=True):
    error: str = ""
    code: str = ""
    reason: str = ""
    detail: str = ""


_ERROR: Final = msgspec.json.Decoder(_ErrorBody)


def refusal(response: Response, *, definite: bool) -> BrokerError:
    """The error that an answer of status 400 or above carries."""
    code, text = "", ""
    try:
        body = _ERROR.decode(response.body)
    except msgspec.DecodeError:
        text = response.body[:200].decode("utf-8", "replace")
    else:
        code = body.code or body.error
        text = body.detail or body.error or body.reason
    return BrokerError(response.status, code or "error", text or "no text", definite=definite)


def malformed(response: Response, error: Exception) -> BrokerError:
    """The error of an answer that cannot be read; what was asked may have been done."""
    return BrokerError(response.status, CODE_MALFORMED, str(error), definite=False)


def decode(decoder: msgspec.json.Decoder[T], response: Response) -> T:
    """The record in an answer.

    Raises:
        BrokerError: It is a refusal, or cannot be read.
    """
    if response.status >= 300:
        raise refusal(response, definite=True)
    try:
        return decoder.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise malformed(response, error) from error


@cache
def reader(decoder: msgspec.json.Decoder[T]) -> Callable[[Response], T]:
    """What reads answers by a decoder; see `decode`."""

    def read(response: Response) -> T:
        return decode(decoder, response)

    return read


@cache
def results_reader(
    decoder: msgspec.json.Decoder[Results[T]],
) -> Callable[[Response], tuple[T, ...]]:
    """What reads the results out of answers by a decoder; see `decode`."""

    def read(response: Response) -> tuple[T, ...]:
        return decode(decoder, response).results

    return read
