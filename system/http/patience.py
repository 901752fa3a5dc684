"""Waits with a deadline but without a timer for each: nearly all of them end long before it."""

from __future__ import annotations

from typing import Protocol

import trio


class Wait(Protocol):
    """Something that must not take for ever.

    Attributes:
        deadline: When it has taken too long, by trio's clock; may be moved while it waits.
    """

    deadline: float

    def expire(self) -> None:
        """End it; may be called again."""
        ...


class Patience:
    """Expires waits at their deadlines.

    A trio cancel scope costs some microseconds for each wait, and a deadline that moves as much
    again. This looks at all waits together, when the earliest of them is due.

    Args:
        shortest_s: No deadline is ever set that is nearer than this.
    """

    def __init__(self, shortest_s: float) -> None:
        self._shortest_s = shortest_s
        self._waits: set[Wait] = set()

    def add(self, wait: Wait) -> None:
        """Watch over a wait; its deadline may be infinite meanwhile."""
        self._waits.add(wait)

    def discard(self, wait: Wait) -> None:
        """Watch no longer."""
        self._waits.discard(wait)

    async def watch(self) -> None:
        """Expire what is overdue, until cancelled. Cost: one look at all waits at a time."""
        while True:
            now = trio.current_time()
            # Whatever is set from now on is not due before that.
            earliest = now + self._shortest_s
            for wait in list(self._waits):
                if wait.deadline <= now:
                    wait.expire()
                elif wait.deadline < earliest:
                    earliest = wait.deadline
            await trio.sleep_until(earliest)
