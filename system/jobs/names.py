"""Names of locks and keys on the broker, made of parts that may hold anything."""

from __future__ import annotations

import hashlib
from typing import Final
from urllib.parse import quote

NAME_CHARACTERS_MAX: Final = 200


def require_text(name: str, value: object) -> str:
    """Refuse a part of a name that is no text.

    Raises:
        TypeError: Names the value.
    """
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}; allowed: a text")
    return value


def shared_name(kind: str, *parts: str) -> str:
    """A name that a lock or a key may have; the same parts give the same name, others another.

    Parts are percent-encoded and joined by slashes; what would be too long ends in its SHA-256.
    """
    name = "/".join((kind, *(quote(part, safe="", errors="backslashreplace") for part in parts)))
    if len(name) <= NAME_CHARACTERS_MAX:
        return name
    return f"{kind}/~{hashlib.sha256(name.encode()).hexdigest()}"
