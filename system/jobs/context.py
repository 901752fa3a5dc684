"""What a handler is given, and the ways by which it ends an attempt itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, NoReturn

from .delays import check_delay_s, delay_until_s

if TYPE_CHECKING:
    from .shared_state import SharedState


class JobReleased(BaseException):
    """Ends the handler; the job comes back after `delay_s`, its attempt counted."""

    def __init__(self, delay_s: float) -> None:
        """Hold the delay, seconds."""
        super().__init__(delay_s)
        self.delay_s = delay_s


class JobFailed(BaseException):
    """Ends the handler; the job is given up whatever tries it has left."""

    def __init__(self, error: str) -> None:
        """Hold what the dead letter will say."""
        super().__init__(error)
        self.error = error


class JobSkipped(BaseException):
    """Ends the attempt without the handler; the job is done."""

    def __init__(self, reason: str) -> None:
        """Hold why, for the log."""
        super().__init__(reason)
        self.reason = reason


class MissingModel(Exception):  # noqa: N818
    """Raised by a job's `resolve`: something that its payload names is gone."""


@dataclass(frozen=True, slots=True)
class JobContext:
    """One attempt, as its handler sees it.

    Attributes:
        job_id: The job.
        name: Name it is registered under.
        attempt: Attempt number, from 1.
        tries: Tries it has; 0 is unlimited, as it is with a deadline.
        run: Unique id of this run.
        lease: Lease it runs under.
        queue: Queue it came from.
        partition: Partition it came from.
        retry_until_us: Until when it may be tried, microseconds since 1970; None is for ever.
        shared: Keys and locks of the broker; None outside of a worker.
        fences: Fencing tokens of the locks that this attempt holds, by lock name.
    """

    job_id: str
    name: str
    attempt: int
    tries: int
    run: str
    lease: str
    queue: str
    partition: str
    retry_until_us: int | None = None
    shared: SharedState | None = field(default=None, repr=False, compare=False)
    fences: dict[str, int] = field(default_factory=dict, compare=False)

    def release(self, delay_s: float = 0.0) -> NoReturn:
        """End the attempt and have the job come back after `delay_s`; does not return.

        Raises:
            ValueError: The delay is negative or beyond 90 days.
        """
        raise JobReleased(check_delay_s("delay_s", delay_s))

    def release_until(self, when: datetime) -> NoReturn:
        """End the attempt and have the job come back at an instant; does not return.

        Raises:
            ValueError: The instant has no time zone, or is more than 90 days ahead.
        """
        raise JobReleased(delay_until_s("when", when))

    def skip(self, reason: str) -> NoReturn:
        """End the attempt without the handler; the job is done. Does not return."""
        raise JobSkipped(reason)

    def fail(self, error: str | BaseException) -> NoReturn:
        """End the attempt and give the job up; does not return."""
        raise JobFailed(error if isinstance(error, str) else error_text(error))


ERROR_CHARACTERS_MAX = 4000


def error_text(error: BaseException) -> str:
    """One text that every store and the wire can carry."""
    return clean_text(f"{type(error).__name__}: {error}")


def clean_text(text: str) -> str:
    """The text, cut to a sane length, without characters that UTF-8 cannot encode."""
    cut = text if len(text) <= ERROR_CHARACTERS_MAX else text[: ERROR_CHARACTERS_MAX - 1] + "…"
    return cut.encode("utf-8", "backslashreplace").decode("utf-8")
