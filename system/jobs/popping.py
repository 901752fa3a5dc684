"""Claiming batches: an idle pop that waits at the broker, and one ahead of time."""

from __future__ import annotations

import time
from typing import Final

from ..client import BrokerError, Call, Interrupted, Popped
from ..client import calls as broker
from .batch import Batch
from .ending import hand_back
from .events import BatchReceived
from .log import log_event
from .payload import decode_job
from .received import make_batch
from .session import LEASE_SHARE, PendingPop, WorkerSession, new_pop_id
from .settings import POP_PARTITIONS_MAX
from .settlement import settle_ack

AGE_SHARE_MAX: Final = 0.5
"""Share of its lease after which a batch is not run before the lease is renewed."""

AHEAD_SHARE_MAX: Final = 1 / 3
"""A job that took this share of the lease or more is not run beside a batch that waits."""


def next_batch(session: WorkerSession) -> Batch | None:
    """Read the batch that was asked for ahead, or ask for one and wait.

    Returns:
        A planned batch; None when there was nothing, or the worker was asked to stop.

    Raises:
        BrokerError: No node answered.
        LeaseChannelBrokenError: The master is gone.
    """
    if session.pending_pop is None:
        settle_ack(session)
        if session.signals.stopping:
            return None
        settings = session.settings
        if settings.queues:
            return _pop_in_order(session)
        send_pop(session, min(settings.block_for_s, settings.lease_s * LEASE_SHARE))
    return read_pop(session)


def _pop_in_order(session: WorkerSession) -> Batch | None:
    """Ask each queue in turn, the most important first; the first one with jobs wins.

    When all are empty and pops may wait, one waits at the first queue, for no longer than the
    others may be left alone.
    """
    settings = session.settings
    for queue in settings.queues:
        session.queue = queue
        send_pop(session, 0.0)
        batch = read_pop(session)
        if batch is not None or session.signals.stopping:
            return batch
    if settings.block_for_s <= 0:
        return None
    session.queue = settings.queues[0]
    send_pop(session, min(settings.idle_s, settings.lease_s * LEASE_SHARE))
    return read_pop(session)


def pop_ahead(session: WorkerSession, batch: Batch, index: int) -> None:
    """Ask for the next batch if this job is the last of a full one and jobs are quick."""
    settings = session.settings
    if (
        not settings.pop_ahead
        or settings.queues
        or session.pending_pop is not None
        or session.signals.stopping
    ):
        return
    is_full = len(batch.deliveries) >= session.asked or "pop-ahead-always" in session.bugs
    if not is_full or batch.next_unstarted(index) is not None:
        return
    if session.last_job_s >= settings.lease_s * AHEAD_SHARE_MAX:
        return
    # An ack that is out goes by another connection and another lease: nothing waits for it here.
    send_pop(session, 0.0)


def send_pop(session: WorkerSession, wait_s: float) -> None:
    """Put a pop on the wire.

    It carries one id until it has brought a batch: when a node claimed for it and died before it
    could answer, the next pop is a repeat of that one and gets that claim, uncharged.
    """
    if session.sizing is not None:
        session.asked = session.sizing.jobs
    session.journal.set_pop(session.pop_id)
    requested_ns = time.monotonic_ns()
    pending = session.pops.send(_pop_call(session, wait_s), request_id=session.pop_id)
    session.pending_pop = PendingPop(pending, requested_ns)


def read_pop(session: WorkerSession) -> Batch | None:
    """Read the answer of a pop and plan its batch.

    Raises:
        BrokerError: No node answered.
        LeaseChannelBrokenError: The master is gone.
    """
    waiting = session.pending_pop
    assert waiting is not None, "no pop is out"
    popped: Popped | None = None
    while popped is None:
        if session.signals.stopping:
            return None
        try:
            popped = session.pops.receive(waiting.pending, interruptible=True).value
        except Interrupted:
            session.signals.drain()
        except BrokerError as error:
            session.pending_pop = None
            # A pop of unknown fate may have claimed: a death soon after would charge that claim.
            if error.definite:
                session.journal.set_pop(None)
            raise
    session.pending_pop = None
    if not popped.messages:
        session.journal.set_pop(None)
        return None
    session.pop_id = new_pop_id()
    batch = make_batch(session, popped, waiting.requested_ns)
    age_s = (time.monotonic_ns() - batch.requested_ns) / 1e9
    if age_s > batch.lease_s * AGE_SHARE_MAX and not _renew(session, batch):
        # Copies go to the ends of their partitions: that it was held is put on record.
        _tell(session, batch)
        hand_back(session, batch)
        session.journal.set_pop(None)
        return None
    begin_batch(session, batch)
    return batch


def _renew(session: WorkerSession, batch: Batch) -> bool:
    """Renew the lease of a batch whose answer was read late; false when that is not certain."""
    now_ns = time.monotonic_ns()
    call = broker.extend(batch.lease, batch.lease_s)
    try:
        # What is left of the lease must do for the hand-back, too.
        pending = session.acks.send(call, deadline_s=batch.lease_s * LEASE_SHARE)
        result = session.acks.receive(pending).value
    except BrokerError as error:
        log_event("late batch not renewed", lease=batch.lease, error=str(error))
        return False
    if not result.success or result.renewed < 1:
        return False
    batch.requested_ns = now_ns
    return True


def _tell(session: WorkerSession, batch: Batch) -> None:
    session.app.notify(
        BatchReceived(tuple((d.job_id, d.attempt, batch.lease) for d in batch.deliveries))
    )


def begin_batch(session: WorkerSession, batch: Batch) -> None:
    """Have its lease renewed, plan its hand-back, tell the listeners.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    session.hold(batch)
    plan = batch.plan(batch.queue, session.settings.consumer_group)
    session.batch = batch
    session.journal.begin(plan, batch.codes)
    _tell(session, batch)
    if "string-timeout-refused" in session.bugs:
        _refuse_strings(batch)


def _refuse_strings(batch: Batch) -> None:
    """Be as strict about numbers as a planted defect wants it; the error ends the worker."""
    for delivery in batch.deliveries:
        if delivery.body is not None:
            decode_job(delivery.message.data, strict=True)


def _pop_call(session: WorkerSession, wait_s: float) -> Call[Popped]:
    settings = session.settings
    return broker.pop(
        session.queue,
        group=settings.consumer_group,
        batch=session.asked,
        partitions=min(settings.partitions, POP_PARTITIONS_MAX),
        lease_s=settings.lease_s,
        wait_s=wait_s,
    )
