"""The key of a middleware: a fixed text, or one made of the payload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..context import JobContext
from ..names import require_text
from ..shared_state import SharedState

Key = str | Callable[[Any], str]


def key_of(key: Key, payload: Any) -> str:
    """The key for a payload.

    Raises:
        TypeError: What was made of the payload is no text.
    """
    return require_text("key", key if isinstance(key, str) else key(payload))


def shared_of(context: JobContext) -> SharedState:
    """The broker's keys and locks.

    Raises:
        RuntimeError: The context is not a worker's.
    """
    if context.shared is None:
        raise RuntimeError("this middleware needs the broker: it runs in a worker only")
    return context.shared


def require_least(owner: str, name: str, value: float, least: float) -> None:
    """Refuse a setting that is too small.

    Raises:
        ValueError: Names the setting, its value and what is allowed.
    """
    if not value >= least:
        raise ValueError(f"{name} of {owner} is {value:g}; allowed: {least:g} or more")
