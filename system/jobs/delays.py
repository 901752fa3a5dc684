"""Delays and instants that an application names: checked, and turned into what travels."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Final

DELAY_S_MAX: Final = 90 * 86_400
"""How far ahead the broker's timers reach: 90 days."""


def check_delay_s(name: str, delay_s: float) -> float:
    """A delay that a timer can have.

    Raises:
        ValueError: It is negative, no number, or beyond 90 days.
    """
    if not 0 <= delay_s <= DELAY_S_MAX:
        raise ValueError(f"{name} is {delay_s:g}; allowed: 0 to {DELAY_S_MAX} (90 days)")
    return delay_s


def instant_us(name: str, when: datetime) -> int:
    """An instant as microseconds since 1970.

    Raises:
        ValueError: It has no time zone.
    """
    if when.utcoffset() is None:
        text = f"{name} is {when.isoformat()} without a time zone; allowed: a datetime that has one"
        raise ValueError(text)
    return round(when.timestamp() * 1_000_000)


def delay_until_s(name: str, when: datetime, now_us: int | None = None) -> float:
    """Seconds from now to an instant; 0 when it has passed.

    Args:
        name: What a refusal calls it.
        when: The instant.
        now_us: Now, microseconds since 1970; None asks the clock.

    Raises:
        ValueError: It has no time zone, or is more than 90 days ahead.
    """
    ahead_us = instant_us(name, when) - (wall_us() if now_us is None else now_us)
    if ahead_us > DELAY_S_MAX * 1_000_000:
        raise ValueError(f"{name} is {when.isoformat()}; allowed: at most 90 days from now")
    return max(0.0, ahead_us / 1e6)


def wall_us() -> int:
    """The wall clock, microseconds since 1970."""
    return time.time_ns() // 1000
