"""So many runs in so many seconds for a key, counted on the broker."""

from __future__ import annotations

import random
from typing import Any

from ..context import JobContext
from ..delays import DELAY_S_MAX, check_delay_s
from ..names import shared_name
from ..rules import Proceed
from .key import Key, key_of, require_least, shared_of


class RateLimited:
    """Lets `limit` jobs of a key run in each window of `per_s` seconds; others come back later.

    A window begins with the first run after the one before has ended.
    """

    def __init__(
        self, key: Key, limit: int, per_s: int, *, spread_s: float = 0.0, drop: bool = False
    ) -> None:
        """Say how often.

        Args:
            key: The key, or what makes it of the payload.
            limit: Runs in one window.
            per_s: The window, whole seconds.
            spread_s: A job comes back at the end of the window, its attempt counted, and at random
                up to this much later.
            drop: Drop a job instead of having it come back.

        Raises:
            ValueError: A number that cannot work.
        """
        require_least("RateLimited", "limit", limit, 1)
        require_least("RateLimited", "per_s", per_s, 1)
        if per_s != int(per_s):
            raise ValueError(f"per_s of RateLimited is {per_s:g}; allowed: whole seconds")
        self._spread_s = check_delay_s("spread_s of RateLimited", spread_s)
        self._key = key
        self._limit = limit
        self._per_s = int(per_s)
        self._drop = drop

    def __call__(self, context: JobContext, payload: Any, proceed: Proceed) -> None:
        """Count the run and go on; end the attempt when the window is full."""
        name = shared_name("rate", key_of(self._key, payload))
        broker = shared_of(context)
        counted = broker.count(name, self._per_s, limit=self._limit)
        if counted.applied:
            proceed(context, payload)
            return
        if self._drop:
            context.skip(f"the window of {name} is full")
        pause_s = broker.remaining_s(counted.expires_at, self._per_s)
        pause_s += random.uniform(0, self._spread_s)
        context.release(min(pause_s, DELAY_S_MAX))
