"""What a handler is given, and the two ways by which it ends an attempt itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from .batches.handle import BatchHandle


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


@dataclass(frozen=True, slots=True)
class JobContext:
    """One attempt, as its handler sees it.

    Attributes:
        job_id: The job.
        name: Name it is registered under.
        attempt: Attempt number, from 1.
        tries: Tries it has; 0 is unlimited.
        run: Unique id of this run.
        lease: Lease it runs under.
        queue: Queue it came from.
        partition: Partition it came from.
        batch: The batch that the job is a member of; None when it is of none.
    """

    job_id: str
    name: str
    attempt: int
    tries: int
    run: str
    lease: str
    queue: str
    partition: str
    batch: BatchHandle | None = None

    def release(self, delay_s: float = 0.0) -> NoReturn:
        """End the attempt and have the job come back after `delay_s`; does not return."""
        if delay_s < 0:
            raise ValueError(f"delay_s is {delay_s:g}; it must not be negative")
        raise JobReleased(delay_s)

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
