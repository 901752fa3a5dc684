"""What a worker tells the broker about a delivery: done, again, or never again.

Every function leaves the journal right before and after its request, and gives the lease up when
the broker refuses or its answer stays unknown.
"""

from __future__ import annotations

import time

from ..client import AckResult, BrokerError, Call
from ..client import calls as broker
from .ack_batching import defer_ack, may_wait, settle_deferred
from .batch import Batch, Stage
from .batches.state import Mark
from .context import error_text
from .debts import REASON_DUPLICATE, retry_operations
from .delays import wall_us
from .delivery import Delivery
from .events import AttemptAcked, Cause, JobGaveUp
from .failed import FailedJob
from .following import Ending, settle_with_followers
from .log import log_event
from .session import PendingAck, WorkerSession
from .succession import has_followers
from .unique import ack_with, free_operations


def ack_completed(
    session: WorkerSession, batch: Batch, index: int, run: str, mark: Mark = Mark.DONE
) -> None:
    """Ack a completed job; with `ack_async` its answer is read later, with `ack_batch` it waits.

    A job that something follows is acked together with that, and its answer is waited for.

    Args:
        session: The worker.
        batch: The job's batch.
        index: The job.
        run: The run that completed.
        mark: How the batch that it is a member of counts it.
    """
    if session.deferred is not None and may_wait(batch.deliveries[index]):
        defer_ack(session, batch, index, run)
        return
    # One write of the journal, below, tells both ends: until then it owes an ack that was
    # confirmed, as it does while that answer is on its way.
    settle_ack(session, record=False)
    if has_followers(batch.deliveries[index].body):
        _complete_with_followers(session, batch, index, run, mark)
        return
    call = _ack_call(session, batch, index, "completed")
    batch.ack(index)
    session.record(batch)
    if batch.is_last_open(index):
        session.forget(batch)
    if not session.settings.ack_async:
        session.pending_ack = PendingAck(batch, index, run, call, session.acks.send(call))
        settle_ack(session)
    elif "async-ack-unwritten" in session.bugs:
        session.pending_ack = PendingAck(batch, index, run, call, None)
    else:
        session.pending_ack = PendingAck(batch, index, run, call, session.acks.send(call))


def _complete_with_followers(
    session: WorkerSession, batch: Batch, index: int, run: str, mark: Mark
) -> None:
    batch.follow(index)
    session.record(batch)
    if batch.is_last_open(index):
        session.pause(batch)
    try:
        is_settled = settle_with_followers(session, batch, index, Ending(mark))
    except BrokerError:
        is_settled = False
    if not is_settled:
        session.abandon(batch)
        return
    batch.close(index)
    session.record(batch)
    if not batch.is_open:
        session.forget(batch)
    session.app.notify(AttemptAcked(batch.deliveries[index].job_id, run))


def settle_ack(session: WorkerSession, *, record: bool = True) -> None:
    """Read the answer of an ack that is out, if one is, and send the acks that wait.

    Args:
        session: The worker.
        record: Whether to bring the journal up to date; the caller does so next, if not.
    """
    if session.deferred is not None:
        settle_deferred(session)
    waiting = session.pending_ack
    if waiting is None:
        return
    pending = waiting.pending or session.acks.send(waiting.call)
    session.pending_ack = None
    try:
        results = session.receive(session.acks, pending).value
    except BrokerError:
        session.abandon(waiting.batch)
        return
    confirm_ack(session, waiting, results, record=record)


def confirm_ack(
    session: WorkerSession,
    waiting: PendingAck,
    results: tuple[AckResult, ...],
    *,
    record: bool = True,
) -> None:
    """Take the answer of an ack; see `settle_ack`."""
    if not _succeeded(results):
        session.abandon(waiting.batch)
        return
    waiting.batch.close(waiting.index)
    if record:
        session.record(waiting.batch)
    session.app.notify(AttemptAcked(waiting.batch.deliveries[waiting.index].job_id, waiting.run))


def requeue(session: WorkerSession, batch: Batch, index: int, run: str, delay_s: float) -> bool:
    """Have a job that ran come back after a delay, in one transaction.

    Returns:
        Whether the broker did so.
    """
    settle_ack(session)
    assert batch.deliveries[index].body is not None, f"retry of what is not a job: {index}"
    delay_ms = round(_pause_s(session, delay_s) * 1000)
    batch.retry(index, delay_ms)
    session.record(batch)
    if batch.is_last_open(index):
        session.forget(batch)
    queue, group = batch.queue, session.settings.consumer_group
    body = retry_operations(batch.plan_entry(index), batch.lease, queue, group, delay_ms)
    try:
        result = session.ask(broker.transaction(body)).value
    except BrokerError:
        session.abandon(batch)
        return False
    if not result.success and result.reason != REASON_DUPLICATE:
        session.abandon(batch)
        return False
    batch.close(index)
    session.record(batch)
    session.app.notify(AttemptAcked(batch.deliveries[index].job_id, run))
    return True


def _pause_s(session: WorkerSession, delay_s: float) -> float:
    """The pause that the broker is asked for; `retry-by-time-of-day` shortens it."""
    if "retry-by-time-of-day" not in session.bugs:
        return delay_s
    ahead_s = (wall_us() - session.shared.now_us()) / 1e6
    return min(delay_s, max(0.0, delay_s + ahead_s))


def give_up(
    session: WorkerSession,
    batch: Batch,
    index: int,
    cause: Cause,
    error: str,
    *,
    run: str | None,
    payload: object = None,
) -> bool:
    """Give a job up: dead letter with its error, then hook, then failed-job row.

    The dead letter releases the partition, so the jobs behind it are dropped: they come back at
    once, uncharged, and where their number would be forgotten, as copies that carry it.

    Args:
        session: The worker.
        batch: The job's batch.
        index: The job.
        cause: Why.
        error: What the dead letter says.
        run: The run that failed; None when the pickup did not run.
        payload: What the hook is called with.

    Returns:
        Whether the broker filed the dead letter; if not, hook and row wait for its next pickup.
    """
    settle_ack(session)
    if batch.stages[index] is Stage.CLOSED:
        # That ack was refused: the lease is lost, and with it this job.
        return False
    siblings = batch.siblings(index)
    batch.bury(index)
    session.record(batch)
    if batch.is_last_open(index, *siblings):
        session.pause(batch)
    if not _file_dead_letter(session, batch, index, error):
        session.abandon(batch)
        return False
    for sibling in (index, *siblings):
        batch.close(sibling)
    session.record(batch)
    if not batch.is_open:
        session.forget(batch)
    delivery = batch.deliveries[index]
    if run is not None:
        session.app.notify(AttemptAcked(delivery.job_id, run))
    report_give_up(session, batch, delivery, cause, error, ran=run is not None, payload=payload)
    return True


def _file_dead_letter(session: WorkerSession, batch: Batch, index: int, error: str) -> bool:
    try:
        if has_followers(batch.deliveries[index].body):
            return settle_with_followers(session, batch, index, Ending(Mark.FAILED, error))
        return _succeeded(session.ask(_ack_call(session, batch, index, "dlq", error)).value)
    except BrokerError:
        return False


def report_give_up(
    session: WorkerSession,
    batch: Batch,
    delivery: Delivery,
    cause: Cause,
    error: str,
    *,
    ran: bool,
    payload: object,
) -> None:
    """Tell the listeners, call the hook, store the row; the dead letter is filed."""
    attempts = delivery.attempt if ran else delivery.attempt - 1
    digest = delivery.digest
    session.app.notify(
        JobGaveUp(
            delivery.job_id, cause, delivery.attempt, attempts, ran, error, digest, batch.lease
        )
    )
    if delivery.spec is not None and delivery.spec.failed is not None:
        try:
            delivery.spec.failed(payload, error)
        except Exception as hook_error:
            # The application's fault must not keep the row from being stored.
            log_event("failed hook threw", job=delivery.job_id, error=error_text(hook_error))
    if session.store is not None and not session.is_foreign():
        message = delivery.message
        session.store.add(
            FailedJob(
                id=delivery.job_id,
                job=delivery.job_name,
                queue=batch.queue,
                payload=bytes(message.data).decode("utf-8", "backslashreplace"),
                digest=digest,
                cause=cause.value,
                error=error,
                attempts=attempts,
                failed_at=time.time(),
                partition=message.partition,
                partition_id=message.partition_id,
                txn=message.transaction_id,
            )
        )


def _ack_call(
    session: WorkerSession, batch: Batch, index: int, status: str, error: str | None = None
) -> Call[tuple[AckResult, ...]]:
    message = batch.deliveries[index].message
    settings = session.settings
    free = free_operations(session, batch.deliveries[index], status)
    tail: list[dict[str, object]] = []
    if status == "dlq":
        tail = batch.tail_operations(index, batch.queue, settings.consumer_group)
    if free or tail:
        fields: dict[str, object] = {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "status": status,
            "consumerGroup": settings.consumer_group,
            "leaseId": batch.lease,
            "error": error,
        }
        return ack_with(fields, batch.lease, free, tail)
    return broker.ack(
        message.transaction_id,
        message.partition_id,
        group=settings.consumer_group,
        lease=batch.lease,
        status=status,
        error=error,
    )


def _succeeded(results: tuple[AckResult, ...]) -> bool:
    return len(results) == 1 and results[0].success
