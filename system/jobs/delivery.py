"""One delivered message, read as a job of this application."""

from __future__ import annotations

import hashlib

import msgspec

from ..client import Message
from .application import Application, JobSpec
from .payload import JobBody, NotAJobError, copy_txn, decode_job, payload_digest
from .settings import WorkerSettings


class Delivery(msgspec.Struct, frozen=True):
    """A message under a lease.

    Attributes:
        message: As the broker delivered it.
        body: The job in it; None when it holds none.
        spec: Its registration; None when there is none.
        problem: Why it cannot be run at all; None when it can.
        attempt: Attempt number: attempts in the payload + the broker's delivery count.
    """

    message: Message
    body: JobBody | None
    spec: JobSpec | None
    problem: str | None
    attempt: int

    @property
    def job_id(self) -> str:
        """The job's id; of what is not a job, the message's transaction id."""
        return self.message.transaction_id if self.body is None else self.body.id

    @property
    def job_name(self) -> str:
        """The job's name; empty for what is not a job."""
        return "" if self.body is None else self.body.job

    @property
    def digest(self) -> str:
        """SHA-256 of the job's data, or of a payload that is not a job, hex."""
        if self.body is None:
            return hashlib.sha256(bytes(self.message.data)).hexdigest()
        return payload_digest(self.body.data)

    def tries(self, settings: WorkerSettings) -> int:
        """Tries of the job: its own, else its registration's, else the worker's.

        A job with a deadline may be tried any number of times until then.
        """
        if self.body is not None and self.body.deadline is not None:
            return 0
        if self.body is not None and self.body.tries is not None:
            return self.body.tries
        if self.spec is not None and self.spec.tries is not None:
            return self.spec.tries
        return settings.tries

    def timeout_s(self, settings: WorkerSettings) -> float:
        """Timeout of the job: its own, else its registration's, else the worker's."""
        if self.body is not None and self.body.timeout_s is not None:
            return self.body.timeout_s
        if self.spec is not None and self.spec.timeout_s is not None:
            return self.spec.timeout_s
        return settings.timeout_s

    def pause_s(self, settings: WorkerSettings) -> float:
        """Pause between this attempt and the next."""
        pauses: tuple[float, ...] = settings.backoff_s
        if self.body is not None and self.body.backoff_s is not None:
            pauses = self.body.backoff_s
        elif self.spec is not None and self.spec.backoff_s is not None:
            pauses = self.spec.backoff_s
        return pauses[min(self.attempt, len(pauses)) - 1] if pauses else 0.0

    def copy_txn(self, reason: str) -> str:
        """Transaction id of a copy of this message; see `payload.copy_txn`."""
        return copy_txn(self.job_id, self.message.transaction_id, reason)


def read_delivery(app: Application, message: Message) -> Delivery:
    """Read a message; what is not a job is returned with its problem."""
    count = max(1, message.delivery_attempt)
    try:
        body = decode_job(message.data)
    except NotAJobError as error:
        return Delivery(message, None, None, str(error), count)
    spec = app.find(body.job)
    problem = None if spec is not None else f"not a job: nothing is registered as {body.job!r}"
    return Delivery(message, body, spec, problem, body.attempts + count)
