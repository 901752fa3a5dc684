"""Work in threads, where there is memory for one."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from typing import Final, TypeVar, TypeVarTuple

import trio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

ROOM_BYTES: Final = 32 << 20
"""A thread's stack, 8 MiB by default, and whatever it touches first."""


def see_room() -> None:
    """Raise `MemoryError` where there is no memory for a thread. Cost: 10 us."""
    try:
        mmap.mmap(-1, ROOM_BYTES).close()
    except OSError:
        raise MemoryError(f"no {ROOM_BYTES >> 20} MiB for a thread") from None


async def in_thread(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """Call a function in a thread of trio's.

    A thread whose stack there is memory for and whose first frame there is none for dies without a
    word, and whoever waits for it waits for ever. So room for both is looked for first.

    Raises:
        MemoryError: There is no memory for a thread.
    """
    see_room()
    return await trio.to_thread.run_sync(function, *args)
