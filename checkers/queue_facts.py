"""What a history of the workload `queue` says: each enqueue, each delivery, each pop."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..histories.ops import DRAIN
from ..histories.queue_ops import (
    ACK_AGAIN,
    DEQUEUE,
    ENQUEUE,
    ENQUEUE_AGAIN,
    MAY_HOLD,
    SETTLED,
    AckAgain,
    AckedAgain,
    AckOutcome,
    Delivery,
    Dequeue,
    Dequeued,
    Enqueue,
    Enqueued,
)
from .broker_evidence import OpEvidence, Paired, decode_value


@dataclass(frozen=True, slots=True)
class Put:
    """One enqueue.

    Attributes:
        op: Its records.
        asked: What was asked for.
        answer: What was answered, if it ended ok.
    """

    op: Paired
    asked: Enqueue
    answer: Enqueued | None


@dataclass(frozen=True, slots=True)
class Pop:
    """One dequeue whose pop was answered.

    Attributes:
        op: Its records.
        asked: What was asked for.
        popped_ns: When its pop was answered.
        deliveries: What it delivered, in the order of the answer.
    """

    op: Paired
    asked: Dequeue
    popped_ns: int
    deliveries: tuple[Delivery, ...]

    @property
    def invoke_ns(self) -> int:
        """When it began."""
        return self.op.invoke.time_ns

    @property
    def done_ns(self) -> int:
        """When its ack was answered, or given up."""
        assert self.op.end is not None, f"an answered pop without end: {self.op.invoke.index}"
        return self.op.end.time_ns

    def by_partition(self) -> dict[str, list[Delivery]]:
        """Group its deliveries by partition, each in the order of the answer."""
        found: dict[str, list[Delivery]] = defaultdict(list)
        for delivery in self.deliveries:
            found[delivery.partition].append(delivery)
        return found


@dataclass(frozen=True, slots=True)
class Unanswered:
    """One dequeue whose pop had no answer: it may have claimed something, and nobody knows what.

    Attributes:
        asked: What was asked for.
        invoke_ns: When it began.
        end_ns: When it was given up; None if it never ended.
    """

    asked: Dequeue
    invoke_ns: int
    end_ns: int | None


@dataclass(frozen=True, slots=True)
class Taken:
    """One delivery of one message."""

    pop: Pop
    delivery: Delivery

    @property
    def is_settled(self) -> bool:
        """Whether its ack certainly holds."""
        return self.delivery.ack in SETTLED

    @property
    def may_hold(self) -> bool:
        """Whether its ack may hold."""
        return self.delivery.ack in MAY_HOLD


@dataclass(frozen=True, slots=True)
class Again:
    """One ack that was asked for once more, and answered.

    Attributes:
        op: Its records.
        asked: What was asked for.
        acks: One outcome for each message.
    """

    op: Paired
    asked: AckAgain
    acks: tuple[AckOutcome, ...]


@dataclass(slots=True)
class QueueFacts:
    """The whole history.

    Attributes:
        puts: Enqueues by id.
        pops: Answered pops in order of invocation.
        taken: Deliveries by id, in order of their pops' invocation.
        puts_again: Enqueues that were asked for once more, and answered.
        again: Acks that were asked for once more, and answered.
        unanswered: Pops that failed, and those that never ended.
        open_pops: How many never ended.
        is_drained: Whether the drain reached its end.
    """

    puts: dict[str, Put] = field(default_factory=dict)
    pops: list[Pop] = field(default_factory=list)
    taken: dict[str, list[Taken]] = field(default_factory=lambda: defaultdict(list))
    puts_again: list[Put] = field(default_factory=list)
    again: list[Again] = field(default_factory=list)
    unanswered: list[Unanswered] = field(default_factory=list)
    open_pops: int = 0
    is_drained: bool = False


def derive_queue(pairs: Sequence[Paired], evidence: OpEvidence) -> QueueFacts:
    """Read all operations; what cannot be read is damage."""
    facts = QueueFacts()
    for pair in pairs:
        if pair.invoke.f == ENQUEUE:
            _add_put(facts, pair, evidence)
        elif pair.invoke.f == DEQUEUE:
            _add_pop(facts, pair, evidence)
        elif pair.invoke.f == ENQUEUE_AGAIN and pair.is_ok and pair.end is not None:
            put = decode_value(pair.invoke, Enqueue, evidence)
            if put is not None:
                told = decode_value(pair.end, Enqueued, evidence)
                facts.puts_again.append(Put(pair, put, told))
        elif pair.invoke.f == ACK_AGAIN and pair.is_ok and pair.end is not None:
            asked = decode_value(pair.invoke, AckAgain, evidence)
            done = decode_value(pair.end, AckedAgain, evidence)
            if asked is not None and done is not None:
                facts.again.append(Again(pair, asked, done.acks))
        elif pair.invoke.f == DRAIN:
            facts.is_drained = facts.is_drained or pair.is_ok
    return facts


def _add_put(facts: QueueFacts, pair: Paired, evidence: OpEvidence) -> None:
    asked = decode_value(pair.invoke, Enqueue, evidence)
    answer = None
    if pair.is_ok and pair.end is not None:
        answer = decode_value(pair.end, Enqueued, evidence)
    if asked is None:
        return
    if asked.id in facts.puts:
        evidence.damage(f"operation {pair.invoke.index}: {asked.id} was enqueued before")
    facts.puts[asked.id] = Put(pair, asked, answer)


def _add_pop(facts: QueueFacts, pair: Paired, evidence: OpEvidence) -> None:
    asked = decode_value(pair.invoke, Dequeue, evidence)
    if pair.end is None or pair.is_fail:
        facts.open_pops += pair.end is None
        if asked is not None:
            end_ns = None if pair.end is None else pair.end.time_ns
            facts.unanswered.append(Unanswered(asked, pair.invoke.time_ns, end_ns))
        return
    done = decode_value(pair.end, Dequeued, evidence)
    if asked is None or done is None:
        return
    if not pair.invoke.time_ns <= done.popped_ns <= pair.end.time_ns:
        evidence.damage(f"operation {pair.end.index}: popped_ns lies outside of it")
        return
    pop = Pop(pair, asked, done.popped_ns, done.deliveries)
    facts.pops.append(pop)
    for delivery in done.deliveries:
        facts.taken[delivery.id].append(Taken(pop, delivery))
