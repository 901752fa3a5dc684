"""What a lack of memory looks like from inside."""

from __future__ import annotations

import errno

NO_THREAD = "can't start new thread"
"""What Python says when there is no memory for a thread, among other things."""


def is_lack_of_memory(error: BaseException) -> bool:
    """Whether there was no memory: for an object, a system call, or a thread's stack.

    What is wrapped counts, too: the event loop that gets none inside itself reports an internal
    error that was caused by it.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(is_lack_of_memory, error.exceptions))
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    if isinstance(error, MemoryError) or str(error) == NO_THREAD:
        return True
    return error.__cause__ is not None and is_lack_of_memory(error.__cause__)
