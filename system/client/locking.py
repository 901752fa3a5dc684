"""Lock operations: a batch of them in one call, each for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .calls import Call
from .reading import Results, results_reader

LOCK_NAMESPACE: Final = "queen-locks"
"""The key/value namespace of permits: the row `name#slot`, its version the fencing token."""


class LockHolder(msgspec.Struct, frozen=True):
    """Who holds a permit, and under which fencing token."""

    owner: str = ""
    token: int = 0


class LockAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One operation's result; which of the flags it has depends on the operation.

    Attributes:
        op: Its name.
        name: The lock.
        acquired: Whether an acquire has a permit now.
        renewed: Whether a renewal was carried out.
        released: Whether a release was carried out.
        already: Whether the owner had the permit before.
        token: The permit's fencing token; 0 without a permit.
        owner: The permit's owner.
        holders: Who is in the way.
    """

    op: str
    name: str = ""
    acquired: bool = False
    renewed: bool = False
    released: bool = False
    already: bool = False
    token: int = 0
    owner: str = ""
    holders: tuple[LockHolder, ...] = ()


_ENCODE: Final = msgspec.json.Encoder().encode
_RESULTS: Final = msgspec.json.Decoder(Results[LockAnswer])


def locks(operations: Sequence[Mapping[str, object]]) -> Call[tuple[LockAnswer, ...]]:
    """Carry out operations `{op, name, ttlSeconds, owner, token}`; one result each, in order."""
    body = _ENCODE({"operations": operations})
    return Call("locks", "POST", "/api/v1/locks", body, results_reader(_RESULTS))
