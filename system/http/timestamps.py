"""RFC 3339 times in one format everywhere: UTC, `Z`, six fraction digits.

Clients compare them as texts.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import lru_cache

INSTANT_US_MAX = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the last that can be written."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)
def rfc3339(instant_us: int) -> str:
    """Write UTC microseconds, as in `2026-11-30T12:00:00.000001Z`.

    Messages that were pushed together have the same; these are written once.
    """
    second, microsecond = divmod(instant_us, 1_000_000)
    return f"{_second(second)}.{microsecond:06d}Z"


def parse_rfc3339(text: str) -> int | None:
    """Read an ISO 8601 time as UTC microseconds, from 1970 to 9999; None when it is none.

    Without an offset it is UTC.
    """
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    if instant.tzinfo is None:
        instant = instant.replace(tzinfo=UTC)
    return min(max(0, (instant - _EPOCH) // timedelta(microseconds=1)), INSTANT_US_MAX)


@lru_cache(maxsize=4096)
def _second(second: int) -> str:
    return (_EPOCH + timedelta(seconds=second)).strftime("%Y-%m-%dT%H:%M:%S")
