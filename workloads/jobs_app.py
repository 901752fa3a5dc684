"""The application that the workers run: job bodies, and listeners that write the attempt log.

Everything here runs in the worker's process. The attempt log is this workload's own record; the
engine under test neither writes nor sees it.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import msgspec

from ..histories.attempts import AttemptLog
from ..histories.attempts import Outcome as Ending
from ..system.jobs import (
    Application,
    AttemptAcked,
    AttemptEnded,
    AttemptStarting,
    BatchReceived,
    JobContext,
    JobGaveUp,
    Outcome,
)
from .jobs import JOB_NAME, JobKind

_ENDINGS: Final[dict[Outcome, Ending]] = {
    Outcome.COMPLETED: "completed",
    Outcome.THREW: "threw",
    Outcome.RELEASED: "released",
    Outcome.FAILED: "failed",
    Outcome.TIMED_OUT: "timed_out",
}
"""What an attempt log calls them; no job of this workload is skipped."""

ATTEMPTS_VARIABLE: Final = "ATLEASTONCE_ATTEMPTS"
CODE_VARIABLE: Final = "ATLEASTONCE_CODE"
CODE_FILE_VARIABLE: Final = "ATLEASTONCE_CODE_FILE"
WORKER_VARIABLE: Final = "ATLEASTONCE_WORKER"
_DIGEST_CHARS: Final = 32


class BadJobError(Exception):
    """What a job of kind `bad` always throws, and one of kind `flaky` on its first attempt."""


class _Payload(msgspec.Struct):
    kind: JobKind
    work_ms: int


def work(context: JobContext, payload: object) -> None:
    """Run one job's body.

    Raises:
        BadJobError: The kind says so.
    """
    job = msgspec.convert(payload, _Payload)
    time.sleep(job.work_ms / 1000)
    if job.kind is JobKind.BAD:
        raise BadJobError("this job always fails")
    if job.kind is JobKind.FLAKY and context.attempt == 1:
        raise BadJobError("this job fails on its first attempt")


class AttemptRecorder:
    """Turns the driver's events into records; a record that cannot be written ends the worker."""

    def __init__(self, log: AttemptLog) -> None:
        self._log = log
        self._last: tuple[str, str] | None = None

    def listen(self, app: Application) -> None:
        """Hear everything that the driver tells about attempts."""
        app.listen(BatchReceived, self.on_batch)
        app.listen(AttemptStarting, self.on_starting)
        app.listen(AttemptEnded, self.on_ended)
        app.listen(AttemptAcked, self.on_acked)
        app.listen(JobGaveUp, self.on_gave_up)

    def on_batch(self, event: BatchReceived) -> None:
        """A batch was delivered."""
        for job, attempt, lease in event.jobs:
            self._log.prefetched(job, attempt, lease)

    def on_starting(self, event: AttemptStarting) -> None:
        """The body runs next."""
        self._last = (event.job_id, event.run)
        self._log.started(event.job_id, event.run, event.attempt, event.lease)

    def on_ended(self, event: AttemptEnded) -> None:
        """The body has done its last act."""
        assert event.outcome in _ENDINGS, f"job {event.job_id} ended as {event.outcome}"
        self._log.ended(event.job_id, event.run, _ENDINGS[event.outcome], event.error)

    def on_acked(self, event: AttemptAcked) -> None:
        """The broker confirmed the run's end."""
        self._log.acked(event.job_id, event.run)

    def on_gave_up(self, event: JobGaveUp) -> None:
        """The job was given up, after its last run or instead of one."""
        run = self._last[1] if event.ran and self._last else None
        self._log.gave_up(
            event.job_id,
            run,
            event.cause.value,
            event.attempts,
            event.ran,
            event.digest[:_DIGEST_CHARS],
            event.lease,
        )


def _worker_name() -> str:
    """Return the name that a worker's attempts carry: its supervisor's, if there are several."""
    return os.environ.get(WORKER_VARIABLE, "worker")


def _code_version() -> str:
    """Return the version of the code that is being loaded: what a file says, if one is named."""
    path = os.environ.get(CODE_FILE_VARIABLE)
    if path is None:
        return os.environ.get(CODE_VARIABLE, "")
    return Path(path).read_text(encoding="ascii").strip()


def make_recorded() -> Application:
    """Build an application without jobs whose attempts are recorded, as the environment says.

    Raises:
        KeyError: The environment names no folder for the attempt log.
    """
    folder = Path(os.environ[ATTEMPTS_VARIABLE])
    log = AttemptLog(folder, _code_version(), _worker_name())
    app = Application()
    AttemptRecorder(log).listen(app)
    return app


def make_application() -> Application:
    """Build the application, for the folder and the code version that the environment names.

    Raises:
        KeyError: The environment names no folder for the attempt log.
    """
    app = make_recorded()
    app.job(JOB_NAME)(work)
    return app
