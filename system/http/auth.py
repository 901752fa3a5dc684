"""Who may ask for what: HS256 tokens and roles; pure.

Without a secret everybody may do everything, and an `Authorization` header is ignored. With one,
each request but `GET /health` needs a bearer token that was signed with it. Its `role` says what is
allowed: `admin` everything, `read-write` all but changing the membership, `read-only` what neither
writes nor claims,
`write-only` pushes and timers. Its `sub` is stamped on every message that is pushed with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from .answer import Answer, error_answer

SECRET_BYTES_MIN: Final = 32
"""What RFC 7518 asks of a key for HS256."""

OPEN: Final = ("/health",)

_WRITES: Final = frozenset({"/api/v1/push", "/api/v1/timers", "/api/v1/ephemeral/push"})
_POPS: Final = frozenset({"/api/v1/pop", "/api/v1/ephemeral/pop"})
_POST_READS: Final = frozenset(
    {
        "/api/v1/fetch",
        "/api/v1/fetch/offsets",
        "/api/v1/partitions/changed",
        "/api/v1/consumer-groups/positions",
        "/streams/v1/state/get",
    }
)


class Identity(msgspec.Struct, frozen=True, gc=False):
    """Who asks; the subject is None when nobody checks."""

    subject: str | None


_ANYBODY: Final = Identity(None)


@dataclass(frozen=True, slots=True)
class Guard:
    """Admits requests.

    Attributes:
        secret: The HMAC key, at least `SECRET_BYTES_MIN` bytes, or None to admit everybody.
    """

    secret: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.secret is not None:
            # Late: a tenth of a node's start is this library, which most nodes do not need.
            from . import tokens  # noqa: F401

    def admit(
        self, method: str, target: str, headers: Mapping[str, str], now_s: int
    ) -> Identity | Answer:
        """Say who asks, or refuse with 401 or 403.

        Args:
            method: In capitals.
            target: Path and query as sent.
            headers: Lower-case names.
            now_s: UTC seconds.
        """
        if self.secret is None:
            return _ANYBODY
        path = target.partition("?")[0]
        if path in OPEN:
            return _ANYBODY
        from .tokens import TokenError, claims_of

        try:
            claims = claims_of(self.secret, headers.get("authorization", ""), now_s)
        except TokenError as error:
            answer = error_answer(401, "unauthorized", str(error))
            return Answer(
                answer.status, answer.body, answer.content_type, (("WWW-Authenticate", "Bearer"),)
            )
        role, subject = claims.get("role"), claims.get("sub")
        if not _may(role, method, path):
            return error_answer(403, "forbidden", f"role {role!r} may not {method} {path}"[:200])
        return Identity(subject if isinstance(subject, str) and _is_text(subject) else None)


def _is_text(subject: str) -> bool:
    """Whether it can be written as UTF-8; JSON can name halves of a character."""
    return not any("\ud800" <= sign <= "\udfff" for sign in subject)


def _may(role: object, method: str, path: str) -> bool:
    if role == "admin":
        return True
    if path.startswith("/api/v1/cluster/") and method != "GET":
        return False
    if role == "read-write":
        return True
    if role == "read-only":
        is_pop = path in _POPS or path.startswith("/api/v1/pop/")
        return (method == "GET" and not is_pop) or (method == "POST" and path in _POST_READS)
    return role == "write-only" and method == "POST" and path in _WRITES
