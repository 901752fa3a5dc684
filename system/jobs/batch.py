"""What a claimed batch owes the broker at any moment. Pure: no I/O, no clock.

Every delivery is unstarted, running, deferred (completed, its ack not sent), acking (completed, its
ack not confirmed), following (the same, and other jobs are pushed with the ack), retrying or
burying (its retry or dead letter not confirmed) or closed. Because an ack completes everything
before it in its partition, what is owed is decided per partition of the lease:

- an unstarted job owes an ack and a copy with its number unchanged;
- a running job owes an ack and a copy with its run counted, but only if unstarted jobs wait behind
  it; alone it returns by its lease;
- a completed job whose ack was not sent owes that ack;
- one whose ack was sent and is not confirmed owes it, on the same condition as a running job;
- a job whose retry is not confirmed, or its ack with what follows, owes that same retry or ack
  with what follows, on the same condition;
- a job whose dead letter is not confirmed owes what it owed before: its run counted if it ran.

A dead letter makes the broker count what is behind it in its partition anew. Where that would
forget a number above 1, the same request settles those jobs as a hand-back would: as copies with
their number. Their code stays that of an unstarted job: whichever of the two requests comes first,
the other is refused.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

import msgspec

from .debts import Code, Plan, PlanEntry, tail_operations
from .delivery import Delivery

TAIL_BYTES_MAX: Final = 32 << 20
"""Payloads behind a dead letter that are copied with it; a broker takes 64 MiB at once."""
_NULL = msgspec.Raw(b"null")


class Stage(Enum):
    """Where a delivery stands."""

    UNSTARTED = auto()
    RUNNING = auto()
    DEFERRED = auto()
    ACKING = auto()
    FOLLOWING = auto()
    RETRYING = auto()
    BURYING_RAN = auto()
    BURYING = auto()
    CLOSED = auto()


class Batch:
    """Deliveries under one lease, in order, with what each of them owes."""

    def __init__(
        self,
        lease: str,
        lease_s: float,
        requested_ns: int,
        deliveries: tuple[Delivery, ...],
        queue: str = "",
    ) -> None:
        """Start with every delivery unstarted.

        Args:
            lease: Lease id that all share.
            lease_s: How long it was granted, seconds.
            requested_ns: CLOCK_MONOTONIC when the pop was requested.
            deliveries: In order of delivery; of one partition in order of offset.
            queue: Where they come from.
        """
        self.lease = lease
        self.lease_s = lease_s
        self.requested_ns = requested_ns
        self.deliveries = deliveries
        self.queue = queue
        self.stages = [Stage.UNSTARTED] * len(deliveries)
        self.codes = [Code.NOTHING] * len(deliveries)
        self.running: int | None = None
        self.since_ns = 0
        self.retry_delay_ms = 0
        self._open = len(deliveries)
        self._groups: dict[str, list[int]] = {}
        for index, delivery in enumerate(deliveries):
            self._groups.setdefault(delivery.message.partition_id, []).append(index)
        for group in self._groups.values():
            self._recode(group)

    def plan(self, queue: str, consumer_group: str) -> Plan:
        """How each delivery would be handed back."""
        return Plan(
            lease=self.lease,
            lease_s=self.lease_s,
            requested_ns=self.requested_ns,
            queue=queue,
            consumer_group=consumer_group,
            entries=tuple(self.plan_entry(index) for index in range(len(self.deliveries))),
        )

    def plan_entry(self, index: int) -> PlanEntry:
        """How one delivery would be handed back; the same every time it is asked."""
        delivery = self.deliveries[index]
        message = delivery.message
        return PlanEntry(
            txn=message.transaction_id,
            partition_id=message.partition_id,
            partition=message.partition,
            copy_txn=delivery.copy_txn(self.lease),
            retry_txn=delivery.copy_txn(f"retry:{delivery.attempt}"),
            attempt=delivery.attempt,
            body=delivery.body,
            raw=_NULL if delivery.body is not None else message.data,
        )

    def next_unstarted(self, after: int = -1) -> int | None:
        """Index of the first unstarted delivery behind index `after`."""
        for index in range(after + 1, len(self.stages)):
            if self.stages[index] is Stage.UNSTARTED:
                return index
        return None

    @property
    def is_open(self) -> bool:
        """Whether any delivery is not closed."""
        return self._open > 0

    def is_last_open(self, *indexes: int) -> bool:
        """Whether closing these deliveries releases the whole lease."""
        stages = self.stages
        return self._open == len([i for i in indexes if stages[i] is not Stage.CLOSED])

    def siblings(self, index: int) -> tuple[int, ...]:
        """Unstarted deliveries behind this one in its partition."""
        group = self._group(index)
        return tuple(i for i in group if i > index and self.stages[i] is Stage.UNSTARTED)

    def tail_operations(self, index: int, queue: str, group: str) -> list[dict[str, object]]:
        """What must go with this delivery's dead letter, which makes the rest count anew.

        Returns:
            An ack and a copy of each sibling up to the last job, the numbers unchanged. None where
            the broker's count is 1, so that nothing is forgotten, or where they are beyond
            `TAIL_BYTES_MAX`, because a dead letter must be filed at some time.
        """
        tail = list(self.siblings(index))
        # What is not a job needs no number.
        while tail and not _is_numbered(self.deliveries[tail[-1]]):
            tail.pop()
        if sum(len(bytes(self.deliveries[i].message.data)) for i in tail) > TAIL_BYTES_MAX:
            return []
        entries = [self.plan_entry(i) for i in tail]
        return tail_operations(entries, self.lease, queue, group)

    def start(self, index: int, now_ns: int) -> None:
        """Its handler is called next."""
        assert self.running is None, f"delivery {self.running} runs while {index} starts"
        assert self.stages[index] is Stage.UNSTARTED, f"{self.stages[index]} delivery starts"
        self.running = index
        self.since_ns = now_ns
        self._move(index, Stage.RUNNING)

    def defer(self, index: int) -> None:
        """It completed; its ack waits for others."""
        assert self.stages[index] is Stage.RUNNING, f"{self.stages[index]} delivery is deferred"
        self._stop_running(index)
        self._move(index, Stage.DEFERRED)

    def ack(self, index: int) -> None:
        """It completed; its ack goes out next."""
        stage = self.stages[index]
        assert stage in (Stage.RUNNING, Stage.DEFERRED), f"{stage} delivery is acked"
        self._stop_running(index)
        self._move(index, Stage.ACKING)

    def follow(self, index: int) -> None:
        """It completed; its ack goes out next, with what follows it."""
        assert self.stages[index] is Stage.RUNNING, f"{self.stages[index]} delivery is acked"
        self._stop_running(index)
        self._move(index, Stage.FOLLOWING)

    def retry(self, index: int, delay_ms: int) -> None:
        """It ran and is to run again; its retry, after this pause, goes out next."""
        assert self.stages[index] is Stage.RUNNING, f"{self.stages[index]} delivery is retried"
        self._stop_running(index)
        self.retry_delay_ms = delay_ms
        self._move(index, Stage.RETRYING)

    def bury(self, index: int) -> None:
        """It is given up; its dead letter, which frees its partition, goes out next."""
        stage = self.stages[index]
        assert stage in (Stage.RUNNING, Stage.UNSTARTED), f"{stage} delivery is buried"
        self._stop_running(index)
        self._move(index, Stage.BURYING if stage is Stage.UNSTARTED else Stage.BURYING_RAN)

    def close(self, index: int) -> None:
        """The broker confirmed it, or it was dropped: it is no longer this worker's."""
        if self.stages[index] is not Stage.CLOSED:
            self._stop_running(index)
            self._open -= 1
            self._move(index, Stage.CLOSED)

    def give_up_lease(self) -> None:
        """The lease is lost: only what has run is still to be settled, for what it is worth."""
        for index, stage in enumerate(self.stages):
            if stage is not Stage.RUNNING:
                self.close(index)

    def _stop_running(self, index: int) -> None:
        if self.running == index:
            self.running = None
            self.since_ns = 0

    def _move(self, index: int, stage: Stage) -> None:
        self.stages[index] = stage
        self._recode(self._group(index))

    def _group(self, index: int) -> list[int]:
        return self._groups[self.deliveries[index].message.partition_id]

    def _recode(self, group: list[int]) -> None:
        waits_behind = False
        for index in reversed(group):
            stage = self.stages[index]
            self.codes[index] = _code(stage, waits_behind)
            waits_behind = waits_behind or stage is Stage.UNSTARTED


_OWED: Final = {
    Stage.BURYING: Code.BURYING,
    Stage.RUNNING: Code.RAN,
    Stage.ACKING: Code.ACK,
    Stage.FOLLOWING: Code.FOLLOWING,
    Stage.RETRYING: Code.RETRYING,
    Stage.BURYING_RAN: Code.BURYING_RAN,
}


def _is_numbered(delivery: Delivery) -> bool:
    return delivery.body is not None and delivery.message.delivery_attempt > 1


def _code(stage: Stage, waits_behind: bool) -> Code:
    if stage is Stage.UNSTARTED:
        return Code.UNSTARTED
    if stage is Stage.DEFERRED:
        return Code.ACK
    if stage is Stage.CLOSED or not (waits_behind or stage is Stage.BURYING):
        return Code.NOTHING
    return _OWED[stage]
