"""What a worker tells its application, in the worker's process, synchronously.

A listener that raises ends the worker: what cannot be recorded must not go on.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """How an attempt ended."""

    COMPLETED = "completed"
    THREW = "threw"
    RELEASED = "released"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"
    """The job is done although its handler was not called."""


class Cause(StrEnum):
    """Why a job was given up."""

    EXCEPTION = "exception"
    FAILED = "failed"
    TIMEOUT = "timeout"
    MAX_ATTEMPTS = "max_attempts"
    DEADLINE = "deadline"
    NOT_A_JOB = "not_a_job"


class BatchReceived(msgspec.Struct, frozen=True):
    """A batch was claimed; `jobs` are `(job id, attempt number, lease)` in order of delivery."""

    jobs: tuple[tuple[str, int, str], ...]


class AttemptStarting(msgspec.Struct, frozen=True):
    """The handler is called next, or what stands before it.

    Attributes:
        job_id: The job.
        name: Name it is registered under.
        attempt: Attempt number, from 1.
        run: Unique id of this run.
        lease: Lease it runs under.
        payload: What the handler is called with.
    """

    job_id: str
    name: str
    attempt: int
    run: str
    lease: str
    payload: object


class AttemptEnded(msgspec.Struct, frozen=True):
    """The handler has done its last act; nothing was said to the broker yet."""

    job_id: str
    name: str
    attempt: int
    run: str
    lease: str
    outcome: Outcome
    error: str | None


class AttemptAcked(msgspec.Struct, frozen=True):
    """The broker confirmed the end of a run: its ack, its release or its dead letter."""

    job_id: str
    run: str


class JobGaveUp(msgspec.Struct, frozen=True):
    """A job was given up: its dead letter is filed, hook and failed-job row follow.

    Attributes:
        job_id: The job, or the transaction id of a message that is not one.
        cause: Why.
        attempt: Attempt number of the last pickup.
        attempts: Attempts used up: `attempt`, or one less when the pickup did not run.
        ran: Whether the last pickup ran the handler.
        error: What the dead letter says.
        digest: SHA-256 of the job's data, hex.
        lease: Lease of the last pickup.
    """

    job_id: str
    cause: Cause
    attempt: int
    attempts: int
    ran: bool
    error: str
    digest: str
    lease: str


class QueueBusy(msgspec.Struct, frozen=True):
    """A monitored queue holds more than it should; told by whoever monitors, not by a worker.

    Attributes:
        queue: Its name.
        size: Jobs that are not settled.
        size_max: How many are allowed.
    """

    queue: str
    size: int
    size_max: int


Event = BatchReceived | AttemptStarting | AttemptEnded | AttemptAcked | JobGaveUp | QueueBusy
