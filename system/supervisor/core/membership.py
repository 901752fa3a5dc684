"""What a replica knows of the others, and for how long it may believe that.

Each heartbeat writes the replica's own key with a time to live and lists the scope's keys. Who is
alive is decided by the broker's clock alone; how old the list is, by this process's monotonic
clock, from the moment the heartbeat was *sent*. A replica that reaches the broker no more goes on
with its last view for one time to live, and then as if it were alone. Its own key cannot be gone
before: its share is never taken by the others and still left undone by itself, nor the reverse.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .coordination import View, make_view

_US: Final = 1_000_000
TTL_US_LEAST: Final = 15 * _US
TTL_SLEW: Final = 100
"""A view lives shorter than its key by one part in this; the broker's clock is less fast."""


def member_ttl_us(heartbeat_timeout_us: int | None, loop_budget_us: int) -> int:
    """Return how long a replica counts as alive after a heartbeat.

    Args:
        heartbeat_timeout_us: When a master counts as hung; None is as long as it takes.
        loop_budget_us: Longest time between two heartbeats of a master that is well.
    """
    needed_us = max(TTL_US_LEAST, loop_budget_us + _US)
    return needed_us if heartbeat_timeout_us is None else min(heartbeat_timeout_us, needed_us)


def key_ttl_s(ttl_us: int) -> int:
    """Return the life of a replica's key, whole seconds, as the broker counts: never less."""
    return max(1, -(-ttl_us // _US))


class Membership:
    """One replica's knowledge of its scope.

    Args:
        own: Its id.
        ttl_us: How long a heartbeat counts; see `member_ttl_us`.
    """

    __slots__ = ("_is_cut_off", "_life_us", "_own", "_requested_us", "_view")

    def __init__(self, own: str, ttl_us: int) -> None:
        assert ttl_us > 0, f"a time to live of {ttl_us} us"
        self._own = own
        self._life_us = ttl_us - ttl_us // TTL_SLEW
        self._requested_us = 0
        self._view: View | None = None
        self._is_cut_off = False

    def heard(self, requested_us: int, listed: Iterable[str]) -> None:
        """Note a heartbeat that was answered.

        Args:
            requested_us: When it was sent.
            listed: The ids that the broker listed.
        """
        self._requested_us = requested_us
        self._view = make_view(self._own, listed)
        self._is_cut_off = False

    def unheard(self) -> None:
        """Note a heartbeat without an answer."""
        self._is_cut_off = True

    def left(self) -> None:
        """Note that this replica left the scope; it is in again with the next heartbeat."""
        self._view, self._is_cut_off = None, False

    def view(self, now_us: int) -> View | None:
        """Return who shares now; None while only the next heartbeat can tell.

        That is so at the beginning, and when the process was stopped for longer than its view
        lives: a replica without a view leaves its workers as they are.
        """
        if self._view is not None and now_us < self._requested_us + self._life_us:
            return self._view
        return make_view(self._own, ()) if self._is_cut_off else None
