"""Acks that wait for each other (`ack_batch`): up to N finished jobs in one request.

A job whose ack waits owes that ack and nothing else, and the journal says so: if the worker dies,
its master sends the acks, and the jobs do not run again. What waits goes out when it is complete,
at the end of its batch, before any other word about a job, and at the latest when a quarter of the
lease has passed, in the middle of a job if need be.

The worker waits for the answer, except at the end of a batch when the next one was asked for ahead:
that is another lease, whose jobs do not depend on these acks. Then the answer is read when the
first of them has ended.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from ..client import AckResult, BrokerError
from ..client import calls as broker
from .batch import Batch
from .deferred_acks import DEFER_SHARE
from .delivery import Delivery
from .events import AttemptAcked
from .log import log_event
from .session import RunningAttempt, WorkerSession
from .succession import has_followers
from .tries import counts_exceptions

_LEFT_S_MIN: Final = 0.001


def may_wait(delivery: Delivery) -> bool:
    """Whether nothing else goes with a completed job's ack."""
    body = delivery.body
    if body is None or body.unique is not None or has_followers(body):
        return False
    return not counts_exceptions(delivery)


def defer_ack(session: WorkerSession, batch: Batch, index: int, run: str) -> None:
    """Have the ack of a job that has completed wait, or send it with those that do.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    deferred = session.deferred
    assert deferred is not None, "no ack may wait"
    if deferred.pending is not None:
        settle_deferred(session)
    now_ns = time.monotonic_ns()
    deferred.add(batch, index, run, now_ns)
    if batch.next_unstarted(index) is None:
        send_at_end(session)
    elif deferred.is_complete(now_ns):
        settle_deferred(session)
    else:
        batch.defer(index)
        session.record(batch)


def send_at_end(session: WorkerSession) -> None:
    """Send what waits at the end of a batch; read the answer only if no batch comes next.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    deferred = session.deferred
    if deferred is None or deferred.batch is None:
        return
    # An answer that got lost must be missed while the lease still has time for another try.
    is_quick = session.last_job_s < deferred.batch.lease_s * DEFER_SHARE
    if session.pending_pop is not None and is_quick:
        _send(session)
    else:
        settle_deferred(session)


def attend_deferred(session: WorkerSession) -> None:
    """Before a job: send what has waited long enough, and read what has come.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    deferred = session.deferred
    if deferred is None or deferred.batch is None:
        return
    pending = deferred.pending
    # A connection that broke is seen here: what was lost with it is not left for another job.
    has_news = pending is not None and pending.has_news()
    if has_news or deferred.is_due(time.monotonic_ns()):
        settle_deferred(session)


def settle_deferred(session: WorkerSession) -> None:
    """Send what waits, if it is not on the wire already, and read the answer.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    deferred = session.deferred
    if deferred is None or deferred.batch is None:
        return
    _send(session)
    batch, jobs, pending = deferred.batch, deferred.jobs, deferred.pending
    assert pending is not None, "acks that were sent and are not on their way"
    deferred.clear()
    try:
        results = session.receive(session.acks, pending).value
    except BrokerError:
        session.abandon(batch)
        return
    _confirm(session, batch, jobs, results)


def send_in_time(session: WorkerSession, attempt: RunningAttempt) -> float | None:
    """In the alarm's handler: send what has waited long enough while a job runs.

    Returns:
        Seconds until the job's timeout, 0 when it has none; None when this is its timeout.
    """
    deferred = session.deferred
    if deferred is None or not deferred.is_due(time.monotonic_ns()):
        return None
    batch = attempt.batch
    limit_s = batch.deliveries[attempt.index].timeout_s(session.settings)
    if limit_s > 0 and _ran_s(batch) >= limit_s:
        return None
    # The handler runs on another connection, and the journal is not being written now.
    _send(session)
    return 0.0 if limit_s <= 0 else max(_LEFT_S_MIN, limit_s - _ran_s(batch))


def read_last_acks(session: WorkerSession) -> None:
    """At the worker's end: read the answer of what is on the wire, for a moment only.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    deferred = session.deferred
    if deferred is None or deferred.pending is None:
        return
    batch, jobs, pending = deferred.batch, deferred.jobs, deferred.pending
    assert batch is not None, "acks of no batch"
    deferred.clear()
    session.acks.shorten(pending, session.settings.settle_timeout_s)
    try:
        results = session.acks.receive(pending).value
    except BrokerError as error:
        log_event("acks unanswered at the end", lease=batch.lease, error=str(error))
        return
    _confirm(session, batch, jobs, results)


def confirm_handed_back(session: WorkerSession, batch: Batch) -> None:
    """The broker has carried out a hand-back, with the acks that waited."""
    deferred = session.deferred
    if deferred is None or deferred.batch is not batch:
        return
    jobs = deferred.jobs
    deferred.clear()
    _note(session, batch, jobs)


def _ran_s(batch: Batch) -> float:
    return (time.monotonic_ns() - batch.since_ns) / 1e9


def _send(session: WorkerSession) -> None:
    deferred = session.deferred
    assert deferred is not None, "no ack may wait"
    batch = deferred.batch
    if batch is None or deferred.pending is not None:
        return
    group = session.settings.consumer_group
    indexes = [index for index, _ in deferred.jobs]
    for index in indexes:
        batch.ack(index)
    session.record(batch)
    if batch.is_last_open(*indexes):
        session.forget(batch)
    messages = [batch.deliveries[index].message for index in indexes]
    acknowledgments = [
        {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "status": "completed",
            "leaseId": batch.lease,
        }
        for message in messages
    ]
    deferred.pending = session.acks.send(broker.ack_batch(acknowledgments, group=group))


def _confirm(
    session: WorkerSession,
    batch: Batch,
    jobs: Sequence[tuple[int, str]],
    results: tuple[AckResult, ...],
) -> None:
    confirmed = [job for job, result in zip(jobs, results, strict=False) if result.success]
    _note(session, batch, confirmed)
    if len(confirmed) < len(jobs):
        session.abandon(batch)


def _note(session: WorkerSession, batch: Batch, jobs: Sequence[tuple[int, str]]) -> None:
    for index, _ in jobs:
        batch.close(index)
    session.record(batch)
    for index, run in jobs:
        session.app.notify(AttemptAcked(batch.deliveries[index].job_id, run))
