"""A request as it came in, and the small readings that all routes share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar
from urllib.parse import unquote, unquote_plus

import msgspec

from .answer import RefusedError, bad_request, error_answer

NAME_BYTES_MAX: Final = 411
"""A queue and a partition (or group) share this many UTF-8 bytes."""

ID_BYTES_MAX: Final = 1024
"""What a client names by itself and the broker remembers: transaction ids, timer keys, labels."""

ID_SURELY_SHORT: Final = ID_BYTES_MAX // 4
"""Characters that never take more bytes than that."""

DEFAULT_SUBSCRIPTION_MODE: Final = "new"

DIGITS_MAX: Final = 10
WHOLE_MAX: Final = 10**DIGITS_MAX - 1
"""What a larger number in a query counts as."""

_SHORT: Final = NAME_BYTES_MAX // 4

Body = TypeVar("Body")


class Incoming(msgspec.Struct, gc=False):
    """One request.

    Attributes:
        parts: The path between its slashes, still percent-encoded; the first is empty.
        query: The raw query text.
        headers: Lower-case names.
        body: Complete.
        request_id: The client's or the node's.
        method: In capitals.
        subject: Who asks, as their token says; None without authentication.
        subscription_mode: Where a group begins whose first pop does not say.
    """

    parts: list[str]
    query: str
    headers: Mapping[str, str]
    body: bytes
    request_id: str
    method: str = "GET"
    subject: str | None = None
    subscription_mode: str = DEFAULT_SUBSCRIPTION_MODE

    def parameters(self) -> dict[str, str]:
        """Query parameters; the last of a repeated name counts."""
        found: dict[str, str] = {}
        for pair in self.query.split("&"):
            name, _, value = pair.partition("=")
            found[name] = unquote_plus(value) if "%" in value or "+" in value else value
        return found

    def part(self, place: int) -> str:
        """One decoded part of the path; empty ones are refused."""
        text = unquote(self.parts[place])
        if not text:
            raise bad_request("the path has an empty name")
        return text


def decode(decoder: msgspec.json.Decoder[Body], body: bytes) -> Body:
    """Decode a JSON body.

    Raw payloads inside are checked here once: valid JSON by the decoder, valid UTF-8 by hand.

    Raises:
        RefusedError: 400 with what is wrong.
    """
    try:
        if not body.isascii():
            body.decode()
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise bad_request(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(f"the body is not valid JSON: {error}") from None
    except RecursionError:
        raise bad_request("the body is nested too deep") from None


def check_names(queue: str, other: str) -> None:
    """Refuse an empty queue name, and names that are too long together."""
    if not queue:
        raise bad_request("queue must not be empty")
    if len(queue) + len(other) > _SHORT:
        size = len(queue.encode()) + len(other.encode())
        if size > NAME_BYTES_MAX:
            text = f"queue and partition or group names take {size} bytes; at most {NAME_BYTES_MAX}"
            raise RefusedError(error_answer(413, "name_too_long", text))


def check_id(what: str, text: str) -> None:
    """Refuse an id that takes more bytes than the broker remembers."""
    if len(text) > ID_SURELY_SHORT:
        size = len(text.encode())
        if size > ID_BYTES_MAX:
            reason = f"{what} takes {size} bytes; at most {ID_BYTES_MAX}"
            raise RefusedError(error_answer(413, "name_too_long", reason))


def flag(text: str | None) -> bool:
    """Whether a query parameter says yes."""
    return text is not None and text.lower() in ("true", "1", "yes")


def whole(text: str | None) -> int | None:
    """A whole number, at most `WHOLE_MAX` either way; None when absent or malformed."""
    if text is None:
        return None
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit():
        return None
    digits = digits.lstrip("0")[: DIGITS_MAX + 1]
    size = min(int(digits or "0"), WHOLE_MAX)
    return -size if text[0] == "-" else size


def clamped(value: int | None, default: int, low: int, high: int) -> int:
    """The value inside its limits, or the default when absent."""
    return default if value is None else min(max(value, low), high)
