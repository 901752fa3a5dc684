"""Settling a job that something follows: one transaction of its ack and all that comes of it.

The next job of its chain, the callbacks that are due, the counts of its batch: all of it happens
with the ack or dead letter, or none does. The counts are written under the versions that were
read; another worker that was first makes the transaction fail, and it is made again from what
that one left.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..client import TransactionResult
from ..client import calls as broker
from ..client.keyvalue import kv
from .batch import Batch
from .batches.state import (
    SETTLED_KEEP_S,
    Mark,
    count,
    get,
    member_key,
    put,
    read_mark,
    read_state,
    settled_key,
)
from .callbacks import callback_payload
from .chain import break_off
from .debts import REASON_DUPLICATE, REASON_KV, Code, ack_operation
from .links import Followers
from .log import log_event
from .payload import JobBody
from .session import WorkerSession
from .succession import follow
from .unique import free_operations

TRIES_MAX: Final = 200
"""Transactions that other workers of a batch may be first at, before the lease is given up."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job ended.

    Attributes:
        mark: For its batch.
        error: What its dead letter says; None when it has none.
    """

    mark: Mark
    error: str | None = None


def settle_with_followers(session: WorkerSession, batch: Batch, index: int, ending: Ending) -> bool:
    """Ack a job, or file its dead letter, with what follows.

    Returns:
        Whether the broker did so.

    Raises:
        BrokerError: It was refused, or its fate is unknown.
    """
    delivery = batch.deliveries[index]
    assert delivery.body is not None, f"followers of what is not a job: {index}"
    entry = batch.plan_entry(index)
    ack = ack_operation(entry, batch.lease, session.settings.consumer_group)
    tail: list[dict[str, object]] = []
    if ending.error is not None:
        ack |= {"status": "dlq", "error": ending.error}
        tail = batch.tail_operations(index, batch.queue, session.settings.consumer_group)
    known: set[str] = set()
    for _ in range(TRIES_MAX):
        followers = Followers()
        if ending.error is None:
            follow(delivery.body, followers)
        else:
            break_off(session.app, delivery.body, ending.error, followers)
        rows = _count(session, delivery.body, ending, followers)
        rows += free_operations(session, delivery, str(ack["status"]))
        if delivery.body.batch is not None and batch.codes[index] is Code.FOLLOWING:
            key = settled_key(delivery.body.batch, entry.copy_txn)
            rows.append(put(key, True, 0, SETTLED_KEEP_S))
        followers.drop(known)
        body = followers.body(ack, tail)
        if rows:
            body["kv"] = rows
        result = session.ask(broker.transaction(body)).value
        if result.success:
            return True
        if not _may_be_repeated(result, followers, known):
            log_event("end refused", job=delivery.job_id, error=result.error or result.reason)
            return False
    return False


def _may_be_repeated(result: TransactionResult, followers: Followers, known: set[str]) -> bool:
    """Whether a refusal leaves another transaction to try; `known` are messages that are there."""
    if result.reason == REASON_KV:
        return True
    if result.reason != REASON_DUPLICATE:
        return False
    named = followers.named_by(result.error or "")
    if named is None or named in known:
        return False
    known.add(named)
    return True


def _count(
    session: WorkerSession, body: JobBody, ending: Ending, followers: Followers
) -> list[dict[str, object]]:
    """The writes that count a member's end; its callbacks are added to the followers."""
    if body.batch is None:
        return []
    key = member_key(body.batch, body.id)
    batch_row, member_row = session.ask(kv([get(body.batch), get(key)])).value
    state = read_state(batch_row)
    if state is None:
        log_event("batch is not known any more", job=body.id, batch=body.batch)
        return []
    counted, occasions = count(state, read_mark(member_row), ending.mark)
    if counted is state:
        return []
    for occasion in occasions:
        link = state.callbacks.get(occasion)
        if link is None:
            continue
        facts = counted.facts()
        if occasion == "catch":
            facts |= {"job": body.job, "job_id": body.id, "error": ending.error}
        followers.add(link, callback_payload(session.app, link, facts))
    return [
        put(body.batch, counted, batch_row.version, state.keep_s),
        put(key, ending.mark, member_row.version, state.keep_s),
    ]
