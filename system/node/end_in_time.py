"""A node that breaks ends, even if a part of it can neither go on nor be cancelled.

A thread that gets no memory for its first frame dies without a word, and whoever waits for what it
does waits for ever: also the task group that is being unwound because of the very same lack.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

import trio

from .ending import EXIT_BROKEN, EXIT_OUT_OF_MEMORY
from .lack import NO_THREAD
from .saying import NO_MEMORY, say

UNWINDING_S: Final = 3.0
"""Longest time from the first failure to the end."""

_SIGNS: Final = ("MemoryError", "Cannot allocate memory", NO_THREAD)


async def end_in_time(told_to_stop: Callable[[], bool], unwinding_s: float = UNWINDING_S) -> None:
    """Wait to be cancelled; then end the process if it has not ended in time by itself.

    Args:
        told_to_stop: Whether the end was asked for; it has its own time limits.
        unwinding_s: Time for the others.
    """
    try:
        await trio.sleep_forever()
    except trio.Cancelled as cancelled:
        if not told_to_stop():
            _end_after(unwinding_s, cancelled.reason or "")
        raise


def ended_in_time() -> None:
    """Call the end off: all tasks are over, and the interpreter's own end is nobody's failure."""
    signal.setitimer(signal.ITIMER_REAL, 0)


def _end_after(seconds: float, reason: str) -> None:
    is_lack = any(sign in reason for sign in _SIGNS)

    # A signal needs neither memory nor a thread, and comes through to whoever waits.
    def end(_number: int, _frame: FrameType | None) -> None:
        say(NO_MEMORY if is_lack else f"node: broken, and did not end by itself: {reason}")
        os._exit(EXIT_OUT_OF_MEMORY if is_lack else EXIT_BROKEN)

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
