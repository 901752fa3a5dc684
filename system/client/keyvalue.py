"""Key/value operations: a batch of them in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .calls import Call
from .reading import Results, results_reader


class KvListed(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a list.

    Attributes:
        key: Its key.
        version: Its version.
        value: Its value as JSON; `null` when only keys were asked for.
    """

    key: str
    version: int
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
        expires_at: When the row's lifetime ends, RFC 3339; None where it has none.
        rows: What a list found, in the order of the keys.
        truncated: Whether a list ended before all was listed.
    """

    op: str
    key: str = ""
    applied: bool = False
    found: bool = False
    version: int = 0
    value: msgspec.Raw = msgspec.Raw(b"null")
    reason: str = ""
    expires_at: str | None = msgspec.field(default=None, name="expiresAt")
    rows: tuple[KvListed, ...] = ()
    truncated: bool = False


_ENCODE: Final = msgspec.json.Encoder().encode
_RESULTS: Final = msgspec.json.Decoder(Results[KvAnswer])


def kv(operations: Sequence[Mapping[str, object]]) -> Call[tuple[KvAnswer, ...]]:
    """Carry out operations `{op, ns, key, value, ...}`; one result each, in order."""
    body = _ENCODE({"operations": operations})
    return Call("kv", "POST", "/api/v1/kv", body, results_reader(_RESULTS))
