"""An application with one job for each rule, for a supervisor that is a process of its own."""

from __future__ import annotations

import os
from typing import Any

from atleastonce.system.jobs import (
    Application,
    AttemptEnded,
    AttemptStarting,
    JobContext,
    JobGaveUp,
    MissingModel,
    RateLimited,
    Skip,
    ThrottlesExceptions,
    WithoutOverlapping,
)

from .supervised_app import note, rest


def make_app() -> Application:
    """Make the application; its log is the file that `SUPERVISED_LOG` names."""
    app = Application()
    app.job("back-off", tries=3, backoff_s=(0.2, 0.6))(throw)
    app.job("deadline", tries=1, backoff_s=(0.3,), retry_for_s=3.0)(throw)
    app.job("exceptions", tries=10, backoff_s=(0.1,), max_exceptions=2)(throw)
    app.job("overruns", tries=5, timeout_s=0.3, fail_on_timeout=True)(overrun)
    app.job("alone", tries=0, middleware=[WithoutOverlapping("k", 0.3)])(be_alone)
    app.job("limited", tries=0, middleware=[RateLimited("r", 1, 2)])(run)
    app.job("throttled", tries=0, middleware=[ThrottlesExceptions(2, 3, retry_after_s=0.1)])(
        throw_twice
    )
    app.job("skipped", middleware=[Skip(when=lambda context, payload: True)])(run)
    app.job("unique", unique_for_s=600)(run)
    app.job("missing", resolve=find_nothing, delete_when_missing=True)(run)
    app.job("released")(release_once)
    app.job("never", tries=3)(release)
    app.job("plain")(run)
    app.listen(AttemptStarting, lambda e: note("started", e.job_id, e.attempt, os.getpid()))
    app.listen(AttemptEnded, lambda e: note("ended", e.job_id, e.attempt, e.outcome))
    app.listen(JobGaveUp, lambda e: note("gave_up", e.job_id, e.cause, e.attempt, e.attempts))
    return app


def run(context: JobContext, payload: Any) -> None:
    """Leave a note."""
    note("ran", context.job_id, context.attempt)


def throw(context: JobContext, payload: Any) -> None:
    """Throw."""
    raise ValueError("no luck")


def throw_twice(context: JobContext, payload: Any) -> None:
    """Throw in the first two attempts."""
    note("ran", context.job_id, context.attempt)
    if context.attempt <= 2:
        raise ValueError("no luck")


def overrun(context: JobContext, payload: Any) -> None:
    """Take too long."""
    rest(30)


def be_alone(context: JobContext, payload: Any) -> None:
    """Be inside for a while."""
    note("in", context.job_id)
    rest(0.2)
    note("out", context.job_id)


def release(context: JobContext, payload: Any) -> None:
    """Come back, always."""
    context.release()


def release_once(context: JobContext, payload: Any) -> None:
    """Come back once."""
    if context.attempt == 1:
        context.release(0.5)


def find_nothing(payload: Any) -> Any:
    """Resolve nothing."""
    raise MissingModel("gone")
