"""Keys and locks of the broker, as the jobs of all workers share them."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from ..client import BrokerError, ClientOptions, Endpoint, SyncClient
from ..client.keyvalue import KvAnswer, kv
from ..client.locking import LOCK_NAMESPACE, LockAnswer, locks
from .log import log_event

COUNTERS: Final = "job-counters"
"""The key/value namespace of what is counted."""

_CLOCK: Final = "job-clock"
"""The namespace of the row by which the broker is asked for its time."""


def whole_seconds(seconds: float) -> int:
    """A lifetime as the broker takes it: whole seconds, at least as long."""
    return max(1, math.ceil(seconds))


def guard(name: str, token: int) -> dict[str, object]:
    """The key/value operation of a transaction that holds while a lock's token is the newest."""
    return {
        "op": "check",
        "ns": LOCK_NAMESPACE,
        "key": f"{name}#0",
        "expect": token,
        "required": True,
    }


class SharedState:
    """The broker's keys and locks, over a connection of its own in each process."""

    def __init__(self, endpoints: Sequence[Endpoint], options: ClientOptions) -> None:
        """Open nothing yet."""
        self._endpoints = tuple(endpoints)
        self._options = options
        self._client: SyncClient | None = None
        self._pid = 0

    def acquire(self, name: str, owner: str, ttl_s: float) -> int | None:
        """Take a lock; an owner that has it already gets it under a new fencing token.

        Returns:
            The token; None while another owner has the lock.

        Raises:
            BrokerError: No node answered.
        """
        lifetime_s = whole_seconds(ttl_s)
        took = self._lock(op="acquire", name=name, owner=owner, ttlSeconds=lifetime_s)
        if not took.acquired:
            return None
        if not took.already:
            return took.token
        # Whoever had it as the same owner, such as a worker that is frozen, is fenced out.
        again = self._lock(
            op="renew", name=name, owner=owner, token=took.token, ttlSeconds=lifetime_s
        )
        return again.token if again.renewed else None

    def release(self, name: str, token: int) -> bool:
        """Give a lock back; false when it is another's by now, or no node answered.

        A lock that could not be given back is free when its lifetime ends.
        """
        try:
            return self._lock(op="release", name=name, token=token).released
        except BrokerError as error:
            log_event("lock not released", lock=name, error=str(error))
            return False

    def get(self, key: str, ns: str = COUNTERS) -> KvAnswer:
        """Read a row.

        Raises:
            BrokerError: No node answered.
        """
        return self._kv(op="get", ns=ns, key=key)

    def count(self, key: str, ttl_s: float, *, limit: int | None = None) -> KvAnswer:
        """Add 1 to a counter, whose lifetime begins when it is made.

        Args:
            key: The counter.
            ttl_s: Its lifetime.
            limit: Where it stops: what would exceed this is not applied.

        Raises:
            BrokerError: No node answered.
        """
        bound = {} if limit is None else {"max": limit}
        lifetime_s = whole_seconds(ttl_s)
        return self._kv(op="incr", ns=COUNTERS, key=key, delta=1, ttlSeconds=lifetime_s, **bound)

    def delete(self, key: str, *, expect: int | None = None, ns: str = COUNTERS) -> bool:
        """Remove a row, only at a version if one is given; whether it was there.

        Raises:
            BrokerError: No node answered.
        """
        condition = {} if expect is None else {"expect": expect}
        return self._kv(op="delete", ns=ns, key=key, **condition).applied

    def now_us(self) -> int:
        """What time it is for the broker, microseconds since 1970.

        This host's time of day may be wrong by hours, and be stepped at any moment. A new row of a
        known lifetime is written, and the end that it is given tells. One call.

        Raises:
            BrokerError: No node answered.
        """
        made = self._kv(op="put", ns=_CLOCK, key="now", value=None, ttlSeconds=1)
        assert made.expires_at is not None, "a row with a lifetime that does not end"
        return _microseconds(made.expires_at) - 1_000_000

    def remaining_s(self, expires_at: str | None, at_most_s: float) -> float:
        """Seconds until a row's lifetime ends, by the broker's clock: 0 to `at_most_s`.

        Raises:
            BrokerError: No node answered.
        """
        if expires_at is None:
            return at_most_s
        return min(max(0.0, (_microseconds(expires_at) - self.now_us()) / 1e6), at_most_s)

    def close(self) -> None:
        """Close the connections of this process."""
        if self._client is not None and self._pid == os.getpid():
            self._client.close()
        self._client = None

    def _lock(self, **operation: object) -> LockAnswer:
        (answer,) = self.client().call(locks([operation])).value
        return answer

    def _kv(self, **operation: object) -> KvAnswer:
        (answer,) = self.client().call(kv([operation])).value
        return answer

    def client(self) -> SyncClient:
        """The client of this process."""
        # A process that a job forked must not speak over its parent's connections.
        if self._client is None or self._pid != os.getpid():
            self._client = SyncClient(self._endpoints, self._options)
            self._pid = os.getpid()
        return self._client


def _microseconds(instant: str) -> int:
    return round(datetime.fromisoformat(instant).timestamp() * 1_000_000)


def number(answer: KvAnswer) -> int:
    """The value of a counter; 0 where there is none."""
    value: Any = msgspec.json.decode(answer.value)
    return value if isinstance(value, int) else 0
