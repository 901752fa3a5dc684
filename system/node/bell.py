"""An event for one waiter, who can wait for something else meanwhile without a second task."""

from __future__ import annotations

from collections.abc import Callable

import trio


class Bell:
    """Rings once.

    Attributes:
        on_ring: Called when it rings; None while nobody waits. Must not await.
    """

    __slots__ = ("_has_rung", "on_ring")

    def __init__(self) -> None:
        self._has_rung = False
        self.on_ring: Callable[[], None] | None = None

    def set(self) -> None:
        """Ring, if it has not yet."""
        if not self._has_rung:
            self._has_rung = True
            if self.on_ring is not None:
                self.on_ring()

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for it."""
        return self.on_ring is not None

    def is_set(self) -> bool:
        """Whether it has rung."""
        return self._has_rung

    async def wait(self) -> None:
        """Return once it has rung. One waiter at a time."""
        if self._has_rung:
            return
        with trio.CancelScope() as scope:
            self.on_ring = scope.cancel
            try:
                await trio.sleep_forever()
            finally:
                self.on_ring = None
