"""Histories of the workload `queue`: a small broker that keeps its word, and ways to break one."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from hypothesis import strategies as st

from atleastonce.histories.ops import DRAIN
from atleastonce.histories.queue_ops import (
    ACK_AGAIN,
    DEQUEUE,
    ENQUEUE,
    ENQUEUE_AGAIN,
    AckAgain,
    AckedAgain,
    AckOutcome,
    Delivery,
    Dequeue,
    Dequeued,
    Enqueue,
    Enqueued,
)

from .op_histories import OpHistory, at

LEASE_S = 3
END_S = 60.0


@dataclass(frozen=True)
class Step:
    """One operation of a client, and what becomes of its answers."""

    at_s: float
    puts: bool
    partition: int
    batch: int
    before_s: float
    after_s: float
    hold_s: float
    fate: Literal["ok", "ok", "unknown-done", "unknown-not", "fail", "hang-up"]


STEPS = st.lists(
    st.builds(
        Step,
        at_s=st.integers(10, 300).map(lambda tenths: tenths / 10),
        puts=st.booleans(),
        partition=st.integers(0, 2),
        batch=st.integers(1, 4),
        before_s=st.sampled_from([0.001, 0.05, 1.5]),
        after_s=st.sampled_from([0.001, 0.05, 1.5]),
        hold_s=st.sampled_from([0.01, 0.2, 3.5]),
        fate=st.sampled_from(["ok", "ok", "unknown-done", "unknown-not", "fail", "hang-up"]),
    ),
    min_size=1,
    max_size=40,
)


@dataclass
class Partition:
    """One partition's log, its cursor and its lease."""

    log: list[str] = field(default_factory=list)
    committed: int = -1
    lease: tuple[str, int, float] | None = None
    """Name, last offset, end in seconds."""
    claims: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    """By offset, how often it was claimed and not taken back."""

    def is_held(self, now_s: float) -> bool:
        return self.lease is not None and now_s < self.lease[2]


class Model:
    """Carries steps out one effect at a time; an effect lies inside of its operation."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.history = OpHistory()
        self._partitions: dict[int, Partition] = defaultdict(Partition)
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._names = 0
        for step in steps:
            self._at(step.at_s, lambda now_s, step=step: self._begin(step, now_s))  # type: ignore[misc]

    def _at(self, at_s: float, act: Callable[[float], None]) -> None:
        self._names += 1
        heapq.heappush(self._events, (at_s, self._names, act))

    def run(self) -> OpHistory:
        self._work_off()
        for partition in range(3):
            at_s = 40.0
            while self._partitions[partition].committed + 1 < len(self._partitions[partition].log):
                step = Step(at_s, False, partition, 20, 0.01, 0.01, 0.02, "ok")
                self._begin(step, at_s)
                self._work_off()
                at_s += 1
        self.history.op(DRAIN, END_S - 1, END_S)
        return self.history

    def _work_off(self) -> None:
        while self._events:
            now_s, _, act = heapq.heappop(self._events)
            act(now_s)

    def _begin(self, step: Step, now_s: float) -> None:
        if step.puts:
            self._put(step, now_s)
        else:
            self._pop(step, now_s)

    def _put(self, step: Step, now_s: float) -> None:
        self._names += 1
        id_ = f"m{self._names}"
        partition = self._partitions[step.partition]
        done = Enqueued(status="queued", offset=len(partition.log))
        if step.fate not in ("fail", "unknown-not"):
            partition.log.append(id_)
        asked = Enqueue(id=id_, partition=str(step.partition), digest=f"d-{id_}")
        span = (now_s - step.before_s, now_s + step.after_s)
        if step.fate == "ok":
            self.history.op(ENQUEUE, *span, asked, done)
        else:
            type_: Literal["fail", "info"] = "fail" if step.fate == "fail" else "info"
            self.history.op(ENQUEUE, *span, asked, type_=type_)

    def _pop(self, step: Step, now_s: float) -> None:
        partition = self._partitions[step.partition]
        invoked_s, popped_s = now_s - step.before_s, now_s + step.after_s
        first = partition.committed + 1
        ids = [] if partition.is_held(now_s) else partition.log[first : first + step.batch]
        asked = ask()
        if step.fate == "hang-up":
            # The claim, if there was one, was taken back at once.
            asked = ask(hang_up_ms=100)
            self.history.op(DEQUEUE, invoked_s, popped_s, asked, dequeued(popped_s, ()))
            return
        for offset in range(first, first + len(ids)):
            partition.claims[offset] += 1
        if step.fate == "fail":
            # The claim is made and nobody hears of it: it comes back when its lease ends.
            if ids:
                partition.lease = ("nobody", first + len(ids) - 1, now_s + LEASE_S)
            self.history.op(DEQUEUE, invoked_s, popped_s, asked, type_="fail")
            return
        if not ids:
            self.history.op(DEQUEUE, invoked_s, popped_s, asked, dequeued(popped_s, ()))
            return
        self._names += 1
        lease = f"lease{self._names}"
        taken = [(id_, partition.claims[first + place]) for place, id_ in enumerate(ids)]
        partition.lease = (lease, first + len(ids) - 1, now_s + LEASE_S)
        self._at(
            popped_s + step.hold_s,
            lambda ack_s: self._ack(step, ack_s, (invoked_s, popped_s), lease, (first, taken)),
        )

    def _ack(
        self,
        step: Step,
        now_s: float,
        span: tuple[float, float],
        lease: str,
        batch: tuple[int, list[tuple[str, int]]],
    ) -> None:
        partition, (first, ids) = self._partitions[step.partition], batch
        is_live = partition.is_held(now_s) and partition.lease and partition.lease[0] == lease
        if is_live and step.fate != "unknown-not":
            partition.committed, partition.lease = first + len(ids) - 1, None
        known: AckOutcome = "acked" if is_live else "rejected"
        ack: AckOutcome = known if step.fate == "ok" else "unknown"
        deliveries = tuple(
            delivery(id_, step.partition, first + place, lease, ack, attempt)
            for place, (id_, attempt) in enumerate(ids)
        )
        type_: Literal["ok", "info"] = "ok" if step.fate == "ok" else "info"
        done = dequeued(span[1], deliveries)
        self.history.op(DEQUEUE, span[0], now_s + 0.01, ask(), done, type_)


def ask(lease_s: int = LEASE_S, hang_up_ms: int | None = None) -> Dequeue:
    return Dequeue(partition=None, batch=5, wait_ms=0, lease_s=lease_s, hang_up_ms=hang_up_ms)


def dequeued(popped_s: float, deliveries: tuple[Delivery, ...]) -> Dequeued:
    return Dequeued(popped_ns=at(popped_s), deliveries=deliveries)


def delivery(
    id_: str,
    partition: int,
    offset: int,
    lease: str,
    ack: AckOutcome = "acked",
    attempt: int = 1,
) -> Delivery:
    return Delivery(
        id=id_,
        partition=str(partition),
        offset=offset,
        lease=lease,
        attempt=attempt,
        digest=f"d-{id_}",
        ack=ack,
    )


def put(history: OpHistory, at_s: float, id_: str, offset: int) -> None:
    """One acknowledged enqueue into partition 9."""
    asked = Enqueue(id=id_, partition="9", digest=f"d-{id_}")
    history.op(ENQUEUE, at_s, at_s + 0.01, asked, Enqueued(status="queued", offset=offset))


def take(
    history: OpHistory, from_s: float, until_s: float, *deliveries: Delivery, known: bool = True
) -> None:
    """One dequeue whose pop is answered 0.1 s after it began."""
    done = dequeued(from_s + 0.1, deliveries)
    history.op(DEQUEUE, from_s, until_s, ask(), done, "ok" if known else "info")


def break_lost(history: OpHistory) -> None:
    put(history, 1, "x", 0)


def break_lost_with_every_ack_rejected(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 6, delivery("x", 9, 0, "a", "rejected"))


def break_unexpected(history: OpHistory) -> None:
    take(history, 2, 3, delivery("stranger", 9, 0, "a"))


def break_unexpected_by_a_failed_enqueue(history: OpHistory) -> None:
    asked = Enqueue(id="x", partition="9", digest="d-x")
    history.op(ENQUEUE, 1, 1.1, asked, type_="fail")
    take(history, 2, 3, delivery("x", 9, 0, "a"))


def break_unexpected_by_time_travel(history: OpHistory) -> None:
    take(history, 2, 3, delivery("x", 9, 0, "a"))
    put(history, 5, "x", 0)


def break_acked_twice(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 7, delivery("x", 9, 0, "a"))
    take(history, 6, 8, delivery("x", 9, 0, "b"))


def break_redelivered_after_ack(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 3, delivery("x", 9, 0, "a"))
    take(history, 6, 7, delivery("x", 9, 0, "b", "noop"))


def break_lease_overlap(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 8, delivery("x", 9, 0, "a", "unknown"), known=False)
    take(history, 3, 4, delivery("x", 9, 0, "b"))


def break_offset_value_mismatch(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    put(history, 1.5, "y", 0)
    take(history, 2, 3, delivery("x", 9, 0, "a"), delivery("y", 9, 1, "a"))


def break_offset_by_a_repeat(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 3, delivery("x", 9, 0, "a"))
    asked = Enqueue(id="x", partition="9", digest="d-x")
    history.op(ENQUEUE_AGAIN, 4, 4.1, asked, Enqueued(status="queued", offset=1))


def break_pop_internal_gap(history: OpHistory) -> None:
    for offset, id_ in enumerate("xyz"):
        put(history, 1 + offset / 10, id_, offset)
    take(history, 2, 3, delivery("x", 9, 0, "a"), delivery("z", 9, 2, "a"))
    take(history, 6, 7, delivery("y", 9, 1, "b"))


def break_pop_skip(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    put(history, 1.1, "y", 1)
    take(history, 2, 3, delivery("y", 9, 1, "a"))
    take(history, 6, 7, delivery("x", 9, 0, "b"))


def break_payload_mismatch(history: OpHistory) -> None:
    history.op(
        ENQUEUE,
        1,
        1.1,
        Enqueue(id="x", partition="9", digest="other"),
        Enqueued(status="queued", offset=0),
    )
    take(history, 2, 3, delivery("x", 9, 0, "a"))


def ack_again(history: OpHistory, from_s: float, ack: AckOutcome) -> None:
    """Ask once more for the ack of x under lease a."""
    asked = AckAgain(partition="9", lease="a", ids=("x",))
    history.op(ACK_AGAIN, from_s, from_s + 0.1, asked, AckedAgain(acks=(ack,)))


def break_ack_not_recalled(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 3, delivery("x", 9, 0, "a"))
    ack_again(history, 4, "rejected")


def break_claim_left_behind(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    take(history, 2, 3, delivery("x", 9, 0, "a", attempt=2))


def break_claim_left_behind_by_a_client_that_hung_up(history: OpHistory) -> None:
    put(history, 1, "x", 0)
    history.op(DEQUEUE, 2, 2.1, ask(hang_up_ms=100), dequeued(2.1, ()))
    take(history, 6, 7, delivery("x", 9, 0, "a", attempt=2))


def break_stalled(history: OpHistory) -> None:
    for at_s in (40, 45, 50):
        asked = Enqueue(id=f"late{at_s}", partition="9", digest="d")
        history.op(ENQUEUE, at_s, at_s + 4.9, asked, type_="info", node="n2")


BREAKS: dict[Callable[[OpHistory], None], str] = {
    break_lost: "lost",
    break_lost_with_every_ack_rejected: "lost",
    break_unexpected: "unexpected",
    break_unexpected_by_a_failed_enqueue: "unexpected",
    break_unexpected_by_time_travel: "unexpected",
    break_acked_twice: "acked-twice",
    break_redelivered_after_ack: "redelivered-after-ack",
    break_lease_overlap: "lease-overlap",
    break_offset_value_mismatch: "offset-value-mismatch",
    break_offset_by_a_repeat: "offset-value-mismatch",
    break_pop_internal_gap: "pop-internal-gap",
    break_pop_skip: "pop-skip",
    break_payload_mismatch: "payload-mismatch",
    break_ack_not_recalled: "ack-not-recalled",
    break_claim_left_behind: "claim-left-behind",
    break_claim_left_behind_by_a_client_that_hung_up: "claim-left-behind",
    break_stalled: "stalled",
}
