"""One pickup of a job: refuse it, or run its handler and settle how it ended."""

from __future__ import annotations

import os
import time

from .application import JobSpec
from .batch import Batch, Stage
from .batches.handle import BatchHandle
from .batches.state import Mark
from .context import (
    JobContext,
    JobFailed,
    JobReleased,
    JobSkipped,
    clean_text,
    error_text,
)
from .delivery import Delivery
from .encryption import UnsealError
from .events import AttemptEnded, AttemptStarting, Cause, Outcome
from .log import log_event
from .running import run_handler
from .session import RunningAttempt, WorkerSession
from .settlement import ack_completed, give_up, requeue
from .tries import ends_by_throw, refusal


def pick_up(session: WorkerSession, batch: Batch, index: int) -> None:
    """Take the next job of a batch.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    delivery = batch.deliveries[index]
    if delivery.problem is not None:
        if "poison-left-alone" in session.bugs:
            session.abandon(batch)
            return
        error = clean_text(delivery.problem)
        give_up(session, batch, index, Cause.NOT_A_JOB, error, run=None)
        return
    assert delivery.body is not None, "a delivery without a problem and without a job"
    assert delivery.spec is not None, "a delivery without a problem and without a handler"
    try:
        payload = session.app.decode_data(delivery.body)
    except UnsealError as unreadable:
        text = clean_text(f"not readable: {unreadable}")
        give_up(session, batch, index, Cause.NOT_A_JOB, text, run=None)
        return
    tries = delivery.tries(session.settings)
    refused = refusal(session, delivery, tries)
    if refused is not None:
        give_up(session, batch, index, *refused, run=None, payload=payload)
        return
    attempt = RunningAttempt(batch, index, os.urandom(8).hex(), payload, tries)
    _run(session, attempt, delivery.spec)


def _run(session: WorkerSession, attempt: RunningAttempt, spec: JobSpec) -> None:
    batch, index, run = attempt.batch, attempt.index, attempt.run
    delivery = batch.deliveries[index]
    context = _context(session, attempt)
    session.fences = context.fences
    timeout_s = delivery.timeout_s(session.settings)
    started_ns = time.monotonic_ns()
    batch.start(index, started_ns)
    session.record(batch)
    session.app.notify(
        AttemptStarting(
            context.job_id, context.name, context.attempt, run, batch.lease, attempt.payload
        )
    )
    outcome, error, delay_s = _call(session, attempt, spec, context, timeout_s)
    if session.is_foreign():
        # A process that was forked on the way must not settle its parent's job.
        os._exit(0)
    session.last_job_s = (time.monotonic_ns() - started_ns) / 1e9
    session.handled += 1
    session.app.notify(
        AttemptEnded(
            context.job_id, context.name, context.attempt, run, batch.lease, outcome, error
        )
    )
    if outcome in (Outcome.COMPLETED, Outcome.SKIPPED):
        ack_completed(session, batch, index, run, _mark(context))
    elif outcome is Outcome.RELEASED:
        requeue(session, batch, index, run, delay_s)
    elif outcome is Outcome.THREW and not ends_by_throw(session, delivery, attempt.tries):
        requeue(session, batch, index, run, delivery.pause_s(session.settings))
    else:
        cause = Cause.FAILED if outcome is Outcome.FAILED else Cause.EXCEPTION
        text = error or outcome.value
        give_up(session, batch, index, cause, text, run=run, payload=attempt.payload)
    assert batch.stages[index] is not Stage.RUNNING, f"job {delivery.job_id} was not settled"


def _context(session: WorkerSession, attempt: RunningAttempt) -> JobContext:
    delivery = attempt.batch.deliveries[attempt.index]
    deadline = None if delivery.body is None else delivery.body.deadline
    return JobContext(
        delivery.job_id,
        delivery.job_name,
        delivery.attempt,
        attempt.tries,
        attempt.run,
        attempt.batch.lease,
        attempt.batch.queue,
        delivery.message.partition,
        None if deadline is None else deadline.until_us,
        session.shared,
        batch=_batch_of(session, delivery),
    )


def _call(
    session: WorkerSession,
    attempt: RunningAttempt,
    spec: JobSpec,
    context: JobContext,
    timeout_s: float,
) -> tuple[Outcome, str | None, float]:
    """Call the handler. Returns outcome, error and, for a release, its delay in seconds."""
    try:
        # The alarm ends the attempt only between these two assignments.
        session.attempt = attempt
        session.signals.arm(_alarm_s(session, timeout_s))
        delivery = attempt.batch.deliveries[attempt.index]
        run_handler(session, delivery, spec, context, attempt.payload)
    except JobReleased as released:
        return Outcome.RELEASED, None, released.delay_s
    except JobFailed as failed:
        return Outcome.FAILED, clean_text(failed.error), 0.0
    except JobSkipped as skipped:
        log_event("job skipped", level="info", job=context.job_id, reason=skipped.reason)
        return Outcome.SKIPPED, None, 0.0
    except Exception as error:
        if "error-text-unclean" in session.bugs:
            return Outcome.THREW, str(error), 0.0
        return Outcome.THREW, error_text(error), 0.0
    else:
        return Outcome.COMPLETED, None, 0.0
    finally:
        session.attempt = None
        session.signals.disarm()


def _alarm_s(session: WorkerSession, timeout_s: float) -> float:
    deferred = session.deferred
    return timeout_s if deferred is None else deferred.alarm_s(timeout_s, time.monotonic_ns())


def _batch_of(session: WorkerSession, delivery: Delivery) -> BatchHandle | None:
    if delivery.body is None or delivery.body.batch is None:
        return None
    return BatchHandle(session.shared.client, delivery.body.batch)


def _mark(context: JobContext) -> Mark:
    skipped = context.batch is not None and context.batch.is_skipped
    return Mark.SKIPPED if skipped else Mark.DONE
