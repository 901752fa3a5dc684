"""HS256 tokens in `Authorization` headers; pure.

Import it late: what it rests on is slow to load.
"""

from __future__ import annotations

from typing import Final

import jwt
from jwt.types import Options

LEEWAY_S: Final = 5
"""How far the clocks of the token's issuer and of the broker may disagree."""

_ALGORITHMS: Final = ["HS256"]
_OPTIONS: Final[Options] = {
    "verify_exp": False,
    "verify_nbf": False,
    "verify_iat": False,
    "verify_aud": False,
    "verify_iss": False,
    "verify_sub": False,
    "verify_jti": False,
}


class TokenError(Exception):
    """A token that is not accepted; the text never quotes it."""


def claims_of(secret: bytes, header: str, now_s: int) -> dict[str, object]:
    """Return what the token of an `Authorization` header claims.

    Args:
        secret: The HMAC key.
        header: As sent; empty for none.
        now_s: UTC seconds.

    Raises:
        TokenError: There is no bearer token, or it is not valid now.
    """
    scheme, _, token = header.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise TokenError("a bearer token is required")
    try:
        # PyJWT compares signatures in constant time and takes no other algorithm than these.
        claims: dict[str, object] = jwt.decode(
            token.strip(), secret, algorithms=_ALGORITHMS, options=_OPTIONS
        )
    except jwt.PyJWTError:
        raise TokenError("the token is not valid") from None
    expires_s, begins_s = _instant_s(claims, "exp"), _instant_s(claims, "nbf")
    if expires_s is not None and now_s >= expires_s + LEEWAY_S:
        raise TokenError("the token has expired")
    if begins_s is not None and now_s < begins_s - LEEWAY_S:
        raise TokenError("the token is not valid yet")
    return claims


def _instant_s(claims: dict[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"the token's {name} is not a number")
    return value
