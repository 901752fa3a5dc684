"""No more runs for a while once a key's jobs have thrown too often, counted on the broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..context import JobContext
from ..delays import check_delay_s
from ..names import shared_name
from ..rules import Proceed
from ..shared_state import number
from .key import Key, key_of, require_least, shared_of


class ThrottlesExceptions:
    """After `limit` throws, jobs of the key come back without running until the count has decayed.

    What is throttled counts as a release, not as a throw: `max_exceptions` does not see it. A run
    that completes clears the count.
    """

    def __init__(
        self,
        limit: int,
        decay_s: int,
        *,
        key: Key | None = None,
        retry_after_s: float = 0.0,
        when: Callable[[Exception], bool] | None = None,
    ) -> None:
        """Say how many.

        Args:
            limit: Throws after which nothing runs.
            decay_s: How long after the first of them, whole seconds.
            key: The key, or what makes it of the payload; None is the job's name.
            retry_after_s: When a job that threw comes back, as long as the limit is not reached.
            when: Which exceptions are throttled; None means all. Others are throws as usual.

        Raises:
            ValueError: A number that cannot work.
        """
        require_least("ThrottlesExceptions", "limit", limit, 1)
        require_least("ThrottlesExceptions", "decay_s", decay_s, 1)
        if decay_s != int(decay_s):
            text = f"decay_s of ThrottlesExceptions is {decay_s:g}; allowed: whole seconds"
            raise ValueError(text)
        check_delay_s("retry_after_s of ThrottlesExceptions", retry_after_s)
        self._limit = limit
        self._decay_s = int(decay_s)
        self._key = key
        self._retry_after_s = retry_after_s
        self._when = when

    def __call__(self, context: JobContext, payload: Any, proceed: Proceed) -> None:
        """Go on unless too much was thrown; count what is thrown now."""
        key = context.name if self._key is None else key_of(self._key, payload)
        name = shared_name("throttle", key)
        broker = shared_of(context)
        row = broker.get(name)
        thrown = number(row)
        if thrown >= self._limit:
            context.release(broker.remaining_s(row.expires_at, self._decay_s))
        try:
            proceed(context, payload)
        except Exception as error:
            if self._when is not None and not self._when(error):
                raise
            counted = broker.count(name, self._decay_s)
            if number(counted) < self._limit:
                context.release(self._retry_after_s)
            context.release(broker.remaining_s(counted.expires_at, self._decay_s))
        if thrown:
            broker.delete(name)
