"""The master's clock: microseconds of CLOCK_MONOTONIC, the clock that workers stamp with too."""

from __future__ import annotations

import time

import trio

_US = 1_000_000


def now_us() -> int:
    """Return the present time."""
    return time.monotonic_ns() // 1000


async def sleep_until_us(at_us: int) -> None:
    """Sleep until a time; one that has passed is only a checkpoint."""
    await trio.sleep(max(0, at_us - now_us()) / _US)
