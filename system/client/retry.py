"""When a call is tried again, where and how soon. No I/O, no clock: times are arguments."""

from __future__ import annotations

import ssl
from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Final

from .errors import CODE_LOST, CODE_REFUSED, CODE_TIMEOUT, BrokerError
from .reading import refusal
from .records import Endpoint
from .wire import Response

PAUSE_S_FIRST: Final = 0.05
PAUSE_S_MAX: Final = 0.5
RETRY_AFTER_S_MAX: Final = 5.0
HOLD_SHARE: Final = 0.9
"""Share of a try's time after which the node should rather say that it knows nothing."""
HOLD_MS_MAX: Final = 60_000


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """How patient a client is, and how it is known.

    Attributes:
        try_timeout_s: How long one try may take, beyond what the call may wait on purpose.
        deadline_s: How long a call is tried in all, beyond what it may wait on purpose.
        first_endpoint: Index of the node that is asked first.
        tls: Speak TLS, with what this context trusts and shows; see `security`.
        bearer: The token that every request carries.
    """

    try_timeout_s: float = 5.0
    deadline_s: float = 30.0
    first_endpoint: int = 0
    tls: ssl.SSLContext | None = None
    bearer: str | None = field(default=None, repr=False)


def hold_ms(try_s: float) -> int:
    """How long a node may hold a request for want of a leader, when a try takes `try_s` at most."""
    return max(1, min(HOLD_MS_MAX, int(try_s * HOLD_SHARE * 1000)))


class Retry:
    """The tries of one call. Each try ends in exactly one of `answered`, `refused` or `lost`."""

    def __init__(self, endpoints: Sequence[Endpoint], first: int, deadline_s: float) -> None:
        """Start at endpoint `first`; `deadline_s` is a point in the caller's time."""
        assert endpoints, "a call without endpoints"
        self._endpoints = endpoints
        self._deadline_s = deadline_s
        self.index = first % len(endpoints)
        self.tries = 0
        self._in_round = 0
        self._pause_s = PAUSE_S_FIRST
        self._ambiguous = False
        self._last: BrokerError | None = None

    @property
    def endpoint(self) -> Endpoint:
        """Where the next try goes."""
        return self._endpoints[self.index]

    def begin(self) -> None:
        """A try starts."""
        self.tries += 1
        self._in_round += 1

    def answered(self, response: Response, finals: Container[int] = ()) -> float | None:
        """An answer came.

        Args:
            response: The answer.
            finals: Statuses that this call takes for an answer although others try again.

        Returns:
            None when it is final, else the pause before the next try, seconds.
        """
        status = response.status
        if status in finals:
            return None
        if status == 429:
            self._last = refusal(response, definite=not self._ambiguous)
            return self._rotate(_retry_after_s(response))
        if status >= 500:
            self._ambiguous = True
            self._last = refusal(response, definite=False)
            return self._rotate(0.0)
        return None

    def refused(self, text: str) -> float:
        """No connection: this try was certainly not applied. Returns the pause before the next."""
        self._last = BrokerError(None, CODE_REFUSED, text, definite=not self._ambiguous)
        return self._rotate(0.0)

    def lost(self, text: str, *, timed_out: bool = False) -> float:
        """The connection broke or was too slow: this try may have been applied."""
        self._ambiguous = True
        code = CODE_TIMEOUT if timed_out else CODE_LOST
        self._last = BrokerError(None, code, text, definite=False)
        return self._rotate(0.0)

    def error(self, name: str) -> BrokerError:
        """What to raise when the deadline has passed."""
        last = self._last
        if last is None:
            return BrokerError(None, CODE_TIMEOUT, f"{name}: no time for a try", definite=True)
        text = f"{name} after {self.tries} tries: {last.text}"
        return BrokerError(last.status, last.code, text, definite=not self._ambiguous)

    def final(self, error: BrokerError) -> BrokerError:
        """A refusal that ends the call; earlier tries may make it less than definite."""
        if not self._ambiguous:
            return error
        return BrokerError(error.status, error.code, error.text, definite=False)

    def remaining_s(self, now_s: float) -> float:
        """Time left until the deadline, seconds."""
        return self._deadline_s - now_s

    def shorten(self, deadline_s: float) -> None:
        """Move the deadline forward, never back."""
        self._deadline_s = min(self._deadline_s, deadline_s)

    def _rotate(self, at_least_s: float) -> float:
        self.index = (self.index + 1) % len(self._endpoints)
        if self._in_round < len(self._endpoints):
            return at_least_s
        self._in_round = 0
        pause_s = self._pause_s
        self._pause_s = min(PAUSE_S_MAX, pause_s * 2)
        return max(at_least_s, pause_s)


def _retry_after_s(response: Response) -> float:
    try:
        seconds = float(response.headers.get("retry-after", ""))
    except ValueError:
        return PAUSE_S_MAX
    return min(max(seconds, 0.0), RETRY_AFTER_S_MAX)
