"""Key/value operations: a batch of them in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .calls import Call, refusal
from .errors import CODE_MALFORMED, BrokerError
from .wire import Response


class KvRow(msgspec.Struct, frozen=True):
    """One row of a listing; `value` is its JSON."""

    key: str
    version: int = 0
    value: msgspec.Raw = msgspec.Raw(b"null")


class KvAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One operation's result.

    Attributes:
        op: Its name.
        key: Its key; empty where it has several.
        applied: Whether a write was carried out.
        found: Whether a read found the key.
        version: The row's version, 0 where there is none.
        value: The row's value as JSON: the new one, or the one that was in the way.
        reason: Why a write was not carried out, such as `exists`.
        rows: What a listing found, in key order.
        truncated: Whether there is more behind it.
        expires_at: When the row's lifetime ends, RFC 3339; None where it has none.
    """

    op: str
    key: str = ""
    applied: bool = False
    found: bool = False
    version: int = 0
    value: msgspec.Raw = msgspec.Raw(b"null")
    reason: str = ""
    rows: tuple[KvRow, ...] = ()
    truncated: bool = False
    expires_at: str | None = msgspec.field(default=None, name="expiresAt")


class _Results(msgspec.Struct, frozen=True):
    results: tuple[KvAnswer, ...]


_ENCODE: Final = msgspec.json.Encoder().encode
_RESULTS: Final = msgspec.json.Decoder(_Results)


def kv(operations: Sequence[Mapping[str, object]]) -> Call[tuple[KvAnswer, ...]]:
    """Carry out operations `{op, ns, key, value, ...}`; one result each, in order."""
    return Call("kv", "POST", "/api/v1/kv", _ENCODE({"operations": operations}), _read)


def _read(response: Response) -> tuple[KvAnswer, ...]:
    if response.status >= 300:
        raise refusal(response, definite=True)
    try:
        return _RESULTS.decode(response.body).results
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BrokerError(response.status, CODE_MALFORMED, str(error), definite=False) from error
