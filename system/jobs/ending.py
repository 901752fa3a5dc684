"""How a worker leaves: what it holds is settled and handed back, uncharged, before it goes."""

from __future__ import annotations

import os
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from ..client import BrokerError, Popped, SyncClient
from ..client import calls as broker
from .ack_batching import confirm_handed_back, read_last_acks
from .batch import Batch, Stage
from .debts import Code, Debt, hand_back_operations
from .events import AttemptEnded, Cause, Outcome
from .exitmark import ExitMark, write_mark
from .log import log_event
from .received import make_batch
from .session import PendingPop, RunningAttempt, WorkerSession
from .settlement import confirm_ack, give_up
from .shared_state import SharedState
from .tries import ends_by_timeout

TIMEOUT_ENDING_S: Final = 20.0
"""A worker that a timed-out job ends is gone after this, whatever its hook does."""


_GiveBack = Callable[[WorkerSession, Batch], bool]


@dataclass(frozen=True, slots=True)
class _Held:
    """What a worker that ends has in hand.

    Attributes:
        batch: The batch that it works on.
        ahead: The one that it had asked for ahead.
    """

    batch: Batch | None
    ahead: Batch | None


def stop_gracefully(session: WorkerSession) -> None:
    """Settle the ack that is out, read the batch asked for ahead, hand back what did not start.

    What the broker did not confirm stays in the journal, for the master to try once more.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    give_back = hand_back
    if "retry-ack-on-graceful-stop" in session.bugs:
        give_back = _release_by_retry
    _let_go(session, _read_what_is_out(session), give_back)


def end_by_timeout(session: WorkerSession, attempt: RunningAttempt) -> NoReturn:
    """Called in the alarm's handler, in the middle of a job: settle, then die.

    The running job is given up on its last attempt. Otherwise it waits for its lease, or, when
    unstarted jobs wait behind it, is handed back before them with its run counted.
    """
    signal.signal(signal.SIGALRM, lambda _signal, _frame: _die(session))
    session.signals.arm(TIMEOUT_ENDING_S)
    try:
        _settle_timeout(session, attempt)
    except BaseException:
        # The process ends here whatever happened; the line says what did.
        log_event("timeout ended badly", level="error", error=traceback.format_exc())
    finally:
        _die(session)


def hand_back(session: WorkerSession, batch: Batch) -> bool:
    """Return a batch's jobs in one transaction fenced by its lease; nothing is charged.

    Returns:
        Whether the broker did so; if not, they return when the lease expires.

    Raises:
        LeaseChannelBrokenError: The master is gone.
    """
    session.forget(batch)
    plan = batch.plan(batch.queue, session.settings.consumer_group)
    body = hand_back_operations(Debt(plan, tuple(batch.codes)))
    if body is None:
        return True
    try:
        pending = session.acks.send(
            broker.transaction(body), deadline_s=session.settings.settle_timeout_s
        )
        result = session.acks.receive(pending).value
    except BrokerError as error:
        log_event("hand-back failed", lease=batch.lease, error=str(error))
        return False
    if not result.success:
        log_event("hand-back refused", lease=batch.lease, error=result.error or result.reason)
    else:
        confirm_handed_back(session, batch)
    return result.success


def _let_go(session: WorkerSession, held: _Held, give_back: _GiveBack) -> None:
    """Hand back what is held.

    Until the broker has confirmed it, the journal says that it is owed: if this worker dies or
    fails now, the master tries again, and is refused as a whole if the request had arrived.
    """
    if held.ahead is not None and give_back(session, held.ahead):
        session.journal.set_pop(None)
    if held.batch is not None and give_back(session, held.batch):
        session.journal.withdraw()


def _read_what_is_out(session: WorkerSession) -> _Held:
    """Read the answers that are in flight; returns what is held.

    The journal goes on saying what is owed: a worker that is killed here owes it still.
    """
    session.channel.shutdown()
    _read_last_ack(session)
    read_last_acks(session)
    return _Held(session.batch, _read_last_pop(session))


def _read_last_ack(session: WorkerSession) -> None:
    waiting = session.pending_ack
    if waiting is None:
        return
    session.pending_ack = None
    pending = waiting.pending or session.acks.send(waiting.call)
    session.acks.shorten(pending, session.settings.settle_timeout_s)
    try:
        results = session.acks.receive(pending).value
    except BrokerError as error:
        log_event("ack unanswered at the end", lease=waiting.batch.lease, error=str(error))
        return
    confirm_ack(session, waiting, results)


def _read_last_pop(session: WorkerSession) -> Batch | None:
    """Read the batch asked for ahead; the journal names its pop until nothing is owed for it."""
    waiting = session.pending_pop
    if waiting is None:
        return None
    session.pending_pop = None
    popped = _finish_pop(session, waiting)
    if popped is None:
        return None
    if not popped.messages:
        session.journal.set_pop(None)
        return None
    return make_batch(session, popped, waiting.requested_ns)


def _finish_pop(session: WorkerSession, waiting: PendingPop) -> Popped | None:
    timeout_s = session.settings.settle_timeout_s
    if waiting.pending.call.wait_s > 0:
        # Without an answer under way, the node has seen that nobody waits, and takes a claim back.
        return session.pops.abandon(waiting.pending, timeout_s) or Popped()
    session.pops.shorten(waiting.pending, timeout_s)
    try:
        return session.pops.receive(waiting.pending, again=False).value
    except BrokerError as error:
        log_event("pop unanswered at the end", error=str(error))
        return None


def _release_by_retry(session: WorkerSession, batch: Batch) -> bool:
    acknowledgments = [
        {
            "transactionId": delivery.message.transaction_id,
            "partitionId": delivery.message.partition_id,
            "status": "completed" if code is Code.ACK else "retry",
            "leaseId": batch.lease,
        }
        for delivery, code in zip(batch.deliveries, batch.codes, strict=True)
        if code is not Code.NOTHING
    ]
    if not acknowledgments:
        return True
    call = broker.ack_batch(acknowledgments, group=session.settings.consumer_group)
    try:
        pending = session.acks.send(call, deadline_s=session.settings.settle_timeout_s)
        results = session.acks.receive(pending).value
    except BrokerError:
        return False
    return all(result.success for result in results)


def _settle_timeout(session: WorkerSession, attempt: RunningAttempt) -> None:
    batch, index = attempt.batch, attempt.index
    delivery = batch.deliveries[index]
    limit_s = delivery.timeout_s(session.settings)
    error = f"TimeoutExceeded: attempt {delivery.attempt} ran longer than {limit_s:g} s"
    session.app.notify(
        AttemptEnded(
            delivery.job_id,
            delivery.job_name,
            delivery.attempt,
            attempt.run,
            batch.lease,
            Outcome.TIMED_OUT,
            error,
        )
    )
    held = _read_what_is_out(session)
    # Whatever the handler was doing, this connection was not part of it.
    options = replace(session.acks.options, deadline_s=session.settings.settle_timeout_s * 4)
    session.acks = SyncClient(session.settings.client_endpoints(), options)
    session.shared = SharedState(session.settings.client_endpoints(), options)
    for name, token in session.fences.items():
        session.shared.release(name, token)
    is_last = ends_by_timeout(session, delivery, attempt.tries)
    if is_last and batch.stages[index] is Stage.RUNNING:
        give_up(
            session,
            batch,
            index,
            Cause.TIMEOUT,
            error,
            run=attempt.run,
            payload=attempt.payload,
        )
    _let_go(session, held, hand_back)


def _die(session: WorkerSession) -> NoReturn:
    try:
        write_mark(session.settings.state_dir, session.pid, ExitMark.TIMEOUT)
    finally:
        os.kill(session.pid, signal.SIGKILL)
    raise AssertionError("still alive after SIGKILL")
