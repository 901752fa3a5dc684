"""When a job has no try left: by its tries, its deadline, what it threw, or a timeout."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from ..client import BrokerError
from .delays import DELAY_S_MAX, wall_us
from .delivery import Delivery
from .events import Cause
from .log import log_event
from .names import shared_name
from .session import WorkerSession
from .shared_state import number

EXCEPTIONS_LIFE_S: Final = DELAY_S_MAX + 86_400
"""How long a job's throws are remembered; longer than any pause between two tries."""


def refusal(session: WorkerSession, delivery: Delivery, tries: int) -> tuple[Cause, str] | None:
    """Why a pickup is given up without running; None when it may run.

    A job whose deadline has passed is not run any more. A job without one is not run when it was
    picked up more often than it has tries.
    """
    if is_past_deadline(session, delivery):
        assert delivery.body is not None, "a deadline without a job"
        assert delivery.body.deadline is not None, "past no deadline"
        until = datetime.fromtimestamp(delivery.body.deadline.until_us / 1e6, UTC)
        text = f"picked up as attempt {delivery.attempt} after {until.isoformat()}"
        return Cause.DEADLINE, f"DeadlineExceeded: {text}"
    if 0 < tries < delivery.attempt:
        text = f"MaxAttemptsExceeded: picked up as attempt {delivery.attempt} of {tries}"
        return Cause.MAX_ATTEMPTS, text
    return None


def is_last_attempt(attempt: int, tries: int) -> bool:
    """Whether no try is left after this attempt; 0 tries are unlimited."""
    return 0 < tries <= attempt


def is_past_deadline(session: WorkerSession, delivery: Delivery) -> bool:
    """Whether the job had a deadline and it has passed, by this host's clock and the broker's.

    A host whose clock is ahead would give jobs up that have time left, and nothing brings them
    back: the broker is asked before. One whose clock is behind tries them for longer.
    """
    deadline = None if delivery.body is None else delivery.body.deadline
    if deadline is None or deadline.until_us > wall_us():
        return False
    try:
        return deadline.until_us <= session.shared.now_us()
    except BrokerError as error:
        log_event("broker's time not known", job=delivery.job_id, error=str(error))
        return True


def ends_by_throw(session: WorkerSession, delivery: Delivery, tries: int) -> bool:
    """Whether a job that threw is given up: called once for each throw, which it counts."""
    over = is_last_attempt(delivery.attempt, tries) or is_past_deadline(session, delivery)
    return over or _reaches_limit(session, delivery)


def ends_by_timeout(session: WorkerSession, delivery: Delivery, tries: int) -> bool:
    """Whether a job that timed out is given up; its timeout counts as a throw."""
    if delivery.spec is not None and delivery.spec.rules.fail_on_timeout:
        return True
    return ends_by_throw(session, delivery, tries)


def exceptions_key(job_id: str) -> str:
    """The counter of what a job threw."""
    return shared_name("exceptions", job_id)


def counts_exceptions(delivery: Delivery) -> bool:
    """Whether the job has such a counter."""
    return delivery.spec is not None and delivery.spec.rules.max_exceptions is not None


def _reaches_limit(session: WorkerSession, delivery: Delivery) -> bool:
    limit = None if delivery.spec is None else delivery.spec.rules.max_exceptions
    if limit is None:
        return False
    try:
        counted = session.shared.count(exceptions_key(delivery.job_id), EXCEPTIONS_LIFE_S)
    except BrokerError as error:
        # Its tries still bound it.
        log_event("throw not counted", job=delivery.job_id, error=str(error))
        return False
    return number(counted) >= limit
