"""What a dead worker's leases owe the broker, and the transaction that settles it. Pure.

A batch's *plan* says how each delivery would be handed back; its *codes* say what of that is owed
now. One transaction, fenced by the lease, acks every delivery that is owed and pushes a copy of it.

A request of the worker may be in flight when it dies, and nobody knows whether it arrived. Of an
ack that does not matter: the hand-back repeats it. A retry or a dead letter is what the hand-back
tries to be first at: its own version of them is sent along, and if the broker refuses that for the
one reason which proves that the worker's request had arrived (`after_refusal`), the rest is sent
without them. A definite refusal changed nothing, so the second transaction doubles nothing.
What a dead letter forgets the numbers of goes with it, under the ids that a hand-back gives them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Literal

import msgspec

from ..client import calls as broker
from .batches.state import unsettled
from .links import Followers
from .payload import JobBody, copy_payload, encode_payload
from .succession import follow

REASON_DUPLICATE: Final = "duplicate"
"""Of a transaction whose copy is there already."""
REASON_ACK: Final = "rejected_ack"
"""Of a transaction with an ack whose lease does not hold in its partition."""
REASON_KV: Final = "kv_precondition"
"""Of a transaction that counts on a row which another has changed."""


class Code(StrEnum):
    """What is owed for one delivery."""

    NOTHING = "."
    ACK = "a"
    UNSTARTED = "u"
    RAN = "r"
    RETRYING = "t"
    """It ran and its retry may be on the wire: the retry again, under the retry's own id."""
    FOLLOWING = "f"
    """It completed and its ack may be on the wire with what follows it: the next job of its chain
    again, under that job's own id; of a member of a batch a copy, its run counted."""
    BURYING_RAN = "b"
    """It ran and its dead letter may be on the wire: a copy, its run counted."""
    BURYING = "v"
    """It did not run and its dead letter may be on the wire: a copy with the number it had."""


UNCOUNTED: Final = frozenset({Code.UNSTARTED, Code.BURYING})
COUNTED: Final = frozenset({Code.RAN, Code.RETRYING, Code.BURYING_RAN, Code.FOLLOWING})


class PlanEntry(msgspec.Struct, frozen=True):
    """How one delivery would be handed back.

    Attributes:
        txn: The message's transaction id, which its ack names.
        partition_id: The broker's id of its partition, which its ack names.
        partition: Name of the partition that a copy is pushed to.
        copy_txn: Transaction id of a copy, whether it ran or not.
        retry_txn: Transaction id of the copy that the worker's own retry makes.
        attempt: The attempt number of this delivery.
        body: The job; None for a message that is not a job.
        raw: The payload of a message that is not a job, copied as it is.
    """

    txn: str
    partition_id: str
    partition: str
    copy_txn: str
    retry_txn: str
    attempt: int
    body: JobBody | None
    raw: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def job_id(self) -> str:
        """The job's id; of what is not a job, the message's transaction id."""
        return self.txn if self.body is None else self.body.id

    @property
    def is_member(self) -> bool:
        """Whether the job is a member of a batch."""
        return self.body is not None and self.body.batch is not None


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A batch, as its hand-back needs it.

    Attributes:
        lease: The lease id that all its deliveries share.
        lease_s: How long the broker granted it, seconds.
        requested_ns: CLOCK_MONOTONIC when the pop was requested.
        queue: Queue name.
        consumer_group: Group of the pop.
        entries: One per delivery, in order of delivery.
    """

    v: Literal[2] = 2
    lease: str
    lease_s: float
    requested_ns: int
    queue: str
    consumer_group: str
    entries: tuple[PlanEntry, ...]


@dataclass(frozen=True, slots=True)
class Debt:
    """A plan and its codes: what is owed under one lease.

    Attributes:
        plan: The batch.
        codes: One for each of its deliveries.
        retry_delay_ms: Pause of the retry that is on the wire; only `RETRYING` asks for it.
    """

    plan: Plan
    codes: tuple[Code, ...]
    retry_delay_ms: int = 0

    @property
    def lease(self) -> str:
        """The lease that the hand-back is fenced by."""
        return self.plan.lease

    @property
    def is_owed(self) -> bool:
        """Whether anything is owed at all."""
        return any(code is not Code.NOTHING for code in self.codes)

    @property
    def unstarted(self) -> tuple[str, ...]:
        """Ids of the jobs that come back with the number they had."""
        return self._jobs(UNCOUNTED)

    @property
    def ran(self) -> tuple[str, ...]:
        """Ids of the jobs that come back with their run counted."""
        return self._jobs(COUNTED)

    def _jobs(self, wanted: frozenset[Code]) -> tuple[str, ...]:
        pairs = zip(self.plan.entries, self.codes, strict=True)
        return tuple(
            entry.job_id
            for entry, code in pairs
            if code in wanted and not (code is Code.FOLLOWING and not entry.is_member)
        )


def after_refusal(debt: Debt, reason: str) -> Debt | None:
    """What is left to hand back once the broker refused a debt as a whole.

    A retry that had arrived makes its repeat a duplicate: the others are still owed. So does the
    next job of a chain; of a member's end a row tells that it had arrived. A dead letter
    that had arrived released its partition, whose jobs are free already, or copied: only those of
    other partitions are owed.

    Args:
        debt: What was refused.
        reason: The transaction's reason.

    Returns:
        What to send instead; None when the reason proves nothing, or nothing is left.
    """
    entries = debt.plan.entries
    settled: set[int] = set()
    for index, code in enumerate(debt.codes):
        arrived = REASON_KV if entries[index].is_member else REASON_DUPLICATE
        if (code is Code.RETRYING and reason == REASON_DUPLICATE) or (
            code is Code.FOLLOWING and reason == arrived
        ):
            settled.add(index)
        elif code in (Code.BURYING, Code.BURYING_RAN) and reason == REASON_ACK:
            own = entries[index].partition_id
            settled.update(i for i, entry in enumerate(entries) if entry.partition_id == own)
    codes = tuple(
        Code.NOTHING if index in settled else code for index, code in enumerate(debt.codes)
    )
    rest = replace(debt, codes=codes)
    return rest if settled and rest.is_owed else None


def hand_back_operations(debt: Debt) -> dict[str, object] | None:
    """The transaction that settles a debt: acks and copies, fenced by its lease.

    Returns:
        The body of `POST /api/v1/transaction`, or None when nothing is owed.
    """
    operations: list[dict[str, object]] = []
    timers: list[dict[str, object]] = []
    checks: list[dict[str, object]] = []
    plan = debt.plan
    for entry, code in zip(plan.entries, debt.codes, strict=True):
        if code is Code.NOTHING:
            continue
        operations.append(ack_operation(entry, plan.lease, plan.consumer_group))
        if code is Code.FOLLOWING:
            assert entry.body is not None, f"followers of {entry.job_id}, which is not a job"
            if entry.body.batch is None:
                _add_followers(entry.body, operations, timers)
                continue
            checks.append(unsettled(entry.body.batch, entry.copy_txn))
        if code is Code.RETRYING and debt.retry_delay_ms > 0:
            timers.append(retry_timer(entry, plan.queue, debt.retry_delay_ms))
        elif code is not Code.ACK:
            attempts = entry.attempt if code in COUNTED else entry.attempt - 1
            txn = entry.retry_txn if code is Code.RETRYING else entry.copy_txn
            operations.append(copy_operation(entry, plan.queue, attempts, txn))
    if not operations:
        return None
    body: dict[str, object] = {"operations": operations, "requiredLeases": [plan.lease]}
    if timers:
        body["timers"] = timers
    if checks:
        body["kv"] = checks
    return body


def _add_followers(
    body: JobBody, operations: list[dict[str, object]], timers: list[dict[str, object]]
) -> None:
    followers = Followers()
    follow(body, followers)
    if followers.items:
        operations.append({"type": "push", "items": followers.items})
    timers.extend(followers.timers)


def retry_operations(
    entry: PlanEntry, lease: str, queue: str, consumer_group: str, delay_ms: int
) -> dict[str, object]:
    """The transaction by which a worker has a job that ran come back: an ack, and copy or timer.

    The copy's id depends on message and attempt alone, so a repeat of the transaction is refused
    as a duplicate and a repeat of the timer replaces it.
    """
    ack = ack_operation(entry, lease, consumer_group)
    if delay_ms > 0:
        return {"operations": [ack], "timers": [retry_timer(entry, queue, delay_ms)]}
    copy = copy_operation(entry, queue, entry.attempt, entry.retry_txn)
    return {"operations": [ack, copy]}


def tail_operations(
    entries: Sequence[PlanEntry], lease: str, queue: str, consumer_group: str
) -> list[dict[str, object]]:
    """What goes with a dead letter for those behind it: the acks and copies of a hand-back.

    All acks of a transaction in one partition are judged together, so the dead letter and these
    leave nothing of the batch behind that could count anew. A copy carries the number that its
    delivery had, uncharged, under the id that a hand-back under this lease would give it.
    """
    operations: list[dict[str, object]] = []
    for entry in entries:
        operations.append(ack_operation(entry, lease, consumer_group))
        operations.append(copy_operation(entry, queue, entry.attempt - 1, entry.copy_txn))
    return operations


def retry_timer(entry: PlanEntry, queue: str, delay_ms: int) -> dict[str, object]:
    """The timer that pushes a job that ran again after a pause."""
    assert entry.body is not None, f"retry of {entry.job_id}, which is not a job"
    return broker.schedule_operation(
        queue,
        f"retry:{entry.retry_txn}",
        delay_s=delay_ms / 1000,
        txn=entry.retry_txn,
        partition=entry.partition,
        payload=encode_payload(copy_payload(entry.body, entry.attempt)),
    )


def ack_operation(entry: PlanEntry, lease: str, consumer_group: str) -> dict[str, object]:
    """The fenced ack that completes a delivery."""
    return {
        "type": "ack",
        "transactionId": entry.txn,
        "partitionId": entry.partition_id,
        "status": "completed",
        "consumerGroup": consumer_group,
        "leaseId": lease,
    }


def copy_operation(entry: PlanEntry, queue: str, attempts: int, txn: str) -> dict[str, object]:
    """The push of a delivery's copy.

    Args:
        entry: The delivery.
        queue: Its queue.
        attempts: Attempts that the copy says were used up: its next pickup is one more.
        txn: Transaction id of the copy.
    """
    item: dict[str, object] = {
        "queue": queue,
        "partition": entry.partition,
        "transactionId": txn,
        "payload": entry.raw if entry.body is None else copy_payload(entry.body, attempts),
    }
    return {"type": "push", "items": [item]}
