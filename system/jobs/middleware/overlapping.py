"""One run at a time for a key, by a lock on the broker."""

from __future__ import annotations

from typing import Any

from ..context import JobContext
from ..delays import check_delay_s
from ..names import shared_name
from ..rules import Proceed
from .key import Key, key_of, require_least, shared_of


class WithoutOverlapping:
    """Runs a job only while no other job of the same key runs.

    The lock's owner is the job, so the next attempt of a job whose worker was killed gets it at
    once, under a new fencing token: `context.fences` has it by the lock's name, and `guard` makes
    of it the condition by which a broker transaction of the handler holds. Other jobs of the key
    wait until that attempt ends, or until `expire_after_s` have passed since the lock was taken.
    """

    def __init__(
        self,
        key: Key,
        release_after_s: float | None = 1.0,
        expire_after_s: float = 3600.0,
        *,
        shared: bool = False,
    ) -> None:
        """Say what must not overlap.

        Args:
            key: The key, or what makes it of the payload.
            release_after_s: When a job that has to wait comes back, its attempt counted; None drops
                it instead.
            expire_after_s: The lock's lifetime; must exceed the longest run.
            shared: Whether jobs of other names with this key are kept out, too.

        Raises:
            ValueError: A number that cannot work.
        """
        require_least("WithoutOverlapping", "expire_after_s", expire_after_s, 1)
        if release_after_s is not None:
            check_delay_s("release_after_s of WithoutOverlapping", release_after_s)
        self._key = key
        self._release_after_s = release_after_s
        self._expire_after_s = expire_after_s
        self._shared = shared

    def __call__(self, context: JobContext, payload: Any, proceed: Proceed) -> None:
        """Take the lock and go on; end the attempt while another job has it."""
        name = self.lock_name(context.name, payload)
        broker = shared_of(context)
        token = broker.acquire(name, context.job_id, self._expire_after_s)
        if token is None:
            if self._release_after_s is None:
                context.skip(f"another job holds {name}")
            context.release(self._release_after_s)
        context.fences[name] = token
        try:
            proceed(context, payload)
        finally:
            # Known until it is given back: a timeout in between gives it back once more.
            broker.release(name, context.fences[name])
            del context.fences[name]

    def lock_name(self, job_name: str, payload: Any) -> str:
        """The lock that a job of this name and payload takes."""
        key = key_of(self._key, payload)
        return shared_name("overlap", *(() if self._shared else (job_name,)), key)
