"""When a lease is renewed, and when its worker must be stopped because it cannot be.

A worker whose lease runs out while it works would share its jobs with the next one, so a worker
is fenced (SIGTERM, then SIGKILL) a margin before that. `LeaseWatch` schedules attempts so that
two of them, a second apart, always fit before the fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

RETRY_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class RenewalPolicy:
    """Bounds of renewal.

    Attributes:
        interval_us: Time between a renewal and the next one when all goes well.
        timeout_us: Longest wait for one endpoint's answer.
        endpoints: How many endpoints one attempt may ask in turn.
        grace_us: Time from SIGTERM to SIGKILL of a worker that is fenced.
        margin_us: A fenced worker is dead this long before its lease ends.
    """

    interval_us: int
    timeout_us: int
    endpoints: int
    grace_us: int
    margin_us: int

    @property
    def budget_us(self) -> int:
        """Longest duration of one attempt, all endpoints asked."""
        return self.timeout_us * self.endpoints

    @property
    def reserve_us(self) -> int:
        """What must remain of a lease when its renewal begins: two attempts and the fence."""
        return 2 * self.budget_us + RETRY_US + self.grace_us + self.margin_us

    def next_attempt_us(self, now_us: int, expiry_us: int) -> int:
        """Return when the next renewal of a lease that ends at `expiry_us` begins."""
        return min(now_us + self.interval_us, max(now_us, expiry_us - self.reserve_us))

    def fits(self, now_us: int, expiry_us: int) -> bool:
        """Tell whether an attempt that starts now would certainly end before the fence."""
        return now_us + self.budget_us + self.margin_us < expiry_us


class Step(Enum):
    """What to do about a lease now."""

    WAIT = "wait"
    RENEW = "renew"
    TERM = "term"
    KILL = "kill"


class LeaseWatch:
    """The renewal of one lease, from the pop that took it to its end.

    Args:
        requested_us: When the pop was requested; the lease cannot have begun earlier.
        lease_us: Length of the lease.
        now_us: Now, when the holder reports it.
        policy: Bounds.
    """

    __slots__ = ("_hopeless", "_kill_us", "_lease_us", "_policy", "expiry_us", "next_us")

    def __init__(
        self, requested_us: int, lease_us: int, now_us: int, policy: RenewalPolicy
    ) -> None:
        assert requested_us <= now_us, f"requested at {requested_us}, which is after {now_us}"
        self._policy = policy
        self._lease_us = lease_us
        self._kill_us: int | None = None
        self._hopeless = False
        self.expiry_us = requested_us + lease_us
        self.next_us = policy.next_attempt_us(now_us, self.expiry_us)

    @property
    def is_fenced(self) -> bool:
        """Whether the holder has been told to stop because the lease cannot be kept."""
        return self._kill_us is not None

    def step(self, now_us: int) -> Step:
        """Decide what to do now; call again at `next_us`, or after the attempt it asked for."""
        if self._kill_us is not None:
            return Step.KILL if now_us >= self._kill_us else Step.WAIT
        if now_us < self.next_us:
            return Step.WAIT
        if not self._hopeless and self._policy.fits(now_us, self.expiry_us):
            return Step.RENEW
        last_us = self.expiry_us - self._policy.margin_us
        self._kill_us = self.next_us = min(now_us + self._policy.grace_us, last_us)
        return Step.TERM if self._kill_us > now_us else Step.KILL

    def renewed(self, requested_us: int, now_us: int) -> None:
        """Note a success; the new lease is counted from the request, not from the answer."""
        self.expiry_us = max(self.expiry_us, requested_us + self._lease_us)
        self.next_us = self._policy.next_attempt_us(now_us, self.expiry_us)

    def failed(self, now_us: int) -> None:
        """Note an attempt without an answer: once more in a second, or the fence at once."""
        retry_us = now_us + RETRY_US
        self._hopeless = not self._policy.fits(retry_us, self.expiry_us)
        self.next_us = now_us if self._hopeless else retry_us

    def give_up(self, now_us: int) -> None:
        """Note that the broker no longer knows the lease: its holder must be dead by now."""
        self._kill_us = self.next_us = now_us
