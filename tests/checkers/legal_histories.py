"""A small model of a system that keeps the contract, under faults that the contract allows.

It models the contract's words, not this project's broker: partitions are held by one worker at a
time, a started run counts, an unstarted job of a dead worker comes back uncharged unless
the node or the lease holder was lost, and an answer may be lost when its worker or a node dies.
With `ahead`, a worker claims its next batch as it starts its last job, and reads it after that.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from hypothesis import strategies as st

from atleastonce.histories.attempts import Outcome
from atleastonce.histories.notation import HistoryBuilder
from atleastonce.histories.ops import OpType

LEASE_S = 8.0
PREFETCH = 3
PARTITIONS = 3
STEP_S = 0.005
ACK_S = 0.12
Kind = Literal["ok", "flaky", "bad", "fails", "released", "overrun"]
FaultKind = Literal["kill-worker", "kill-leader", "kill-supervisor", "term-supervisor"]


@dataclass(frozen=True)
class JobPlan:
    at_s: float
    partition: int
    kind: Kind
    work_s: float
    tries: int
    delay_s: float
    answer: OpType
    resend: bool


@dataclass(frozen=True)
class FaultPlan:
    at_s: float
    kind: FaultKind
    worker: int
    popping: bool
    answer_arrived: bool


@dataclass(frozen=True)
class Plan:
    workers: int
    ahead: bool
    jobs: tuple[JobPlan, ...]
    faults: tuple[FaultPlan, ...]


def _tenths(low: int, high: int) -> st.SearchStrategy[float]:
    return st.integers(low, high).map(lambda tenths: tenths / 10)


JOBS = st.builds(
    JobPlan,
    at_s=_tenths(0, 60),
    partition=st.integers(0, PARTITIONS - 1),
    kind=st.sampled_from(["ok", "ok", "ok", "flaky", "bad", "fails", "released", "overrun"]),
    work_s=st.one_of(_tenths(1, 12), _tenths(1, 12), st.sampled_from([5.0, 9.0])),
    tries=st.integers(1, 3),
    delay_s=st.sampled_from([0.0, 0.0, 0.0, 0.7, 2.5]),
    answer=st.sampled_from(["ok", "ok", "ok", "info", "fail"]),
    resend=st.booleans(),
)
FAULTS = st.builds(
    FaultPlan,
    at_s=_tenths(3, 70).map(lambda at_s: at_s + 0.037),
    kind=st.sampled_from(
        ["kill-worker", "kill-worker", "kill-leader", "kill-supervisor", "term-supervisor"]
    ),
    worker=st.integers(0, 3),
    popping=st.booleans(),
    answer_arrived=st.booleans(),
)
PLANS = st.builds(
    Plan,
    workers=st.integers(2, 3),
    ahead=st.booleans(),
    jobs=st.lists(JOBS, min_size=4, max_size=14).map(tuple),
    faults=st.lists(FAULTS, max_size=3).map(tuple),
)


@dataclass(eq=False)
class Message:
    job: str
    plan: JobPlan
    number: int = 1


@dataclass(eq=False)
class Worker:
    name: str
    alive: bool = True
    batch: list[Message] = field(default_factory=list)
    ahead: list[Message] = field(default_factory=list)
    running: Message | None = None
    unacked: tuple[Message, Outcome] | None = None
    stopping: bool = False
    idle: bool = True
    doomed: FaultPlan | None = None


class Model:
    """Runs a plan and notes what a run of it would have recorded."""

    def __init__(self, plan: Plan):
        self.plan = plan
        self.notes = HistoryBuilder()
        self.queues: list[list[Message]] = [[] for _ in range(PARTITIONS)]
        self.held: list[list[Message]] = [[] for _ in range(PARTITIONS)]
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.order = itertools.count()
        self.workers: list[Worker] = []
        self.down_until = 0.0
        self.lost_until = 0.0
        self.now = 0.0

    def run(self) -> HistoryBuilder:
        for _ in range(self.plan.workers):
            self.start_worker(0.0)
        for number, job in enumerate(sorted(self.plan.jobs, key=lambda job: job.at_s)):
            self.dispatch(f"j{number}", job)
        last_ns = -10.0
        for fault in sorted(self.plan.faults, key=lambda fault: fault.at_s):
            if fault.at_s > last_ns + (0.5 if fault.kind == "kill-worker" else 4.0):
                last_ns = fault.at_s
                self.later(fault.at_s, partial(self.strike, fault=fault))
        while self.events:
            self.now, _, act = heapq.heappop(self.events)
            act(self.now)
        self.notes.drained(self.now + 10)
        self.notes.ask(self.now + 11, "stop", {})
        return self.notes

    def later(self, t: float, act: Callable[[float], None]) -> None:
        heapq.heappush(self.events, (t, next(self.order), act))

    def of_worker(self, t: float, worker: Worker, act: Callable[[float, Worker], None]) -> None:
        self.later(t, lambda t: act(t, worker) if worker.alive else None)

    def dispatch(self, name: str, job: JobPlan) -> None:
        def ask(t: float, answer: OpType, status: str, resend: bool) -> None:
            self.notes.dispatch(
                t,
                name,
                answer,
                status=status,
                p=str(job.partition),
                tries=job.tries,
                backoff_s=[0.4, 0.8],
                timeout_s=20.0 if job.work_s > 1.5 and job.kind != "overrun" else 1.5,
                delay_s=job.delay_s if not resend else 0.0,
                resend=resend,
            )

        ask(job.at_s, job.answer, "", False)
        if job.answer != "fail":
            self.later(job.at_s + job.delay_s + STEP_S, lambda t: self.put(t, Message(name, job)))
            if job.resend:
                ask(job.at_s + 0.5, "ok", "duplicate", True)

    def put(self, t: float, message: Message) -> None:
        self.queues[message.plan.partition].append(message)
        self.wake(t)

    def wake(self, t: float) -> None:
        for worker in self.workers:
            if worker.alive and worker.idle:
                self.of_worker(t + STEP_S, worker, self.claim)

    def start_worker(self, t: float) -> None:
        worker = Worker(f"w{len(self.workers)}")
        self.workers.append(worker)
        self.of_worker(t, worker, self.claim)

    def take(self) -> list[Message]:
        batch: list[Message] = []
        for partition, queue in enumerate(self.queues):
            if not self.held[partition] and queue:
                taken = queue[: PREFETCH - len(batch)]
                del queue[: len(taken)]
                self.held[partition] += taken
                batch += taken
        return batch

    def claim(self, t: float, worker: Worker) -> None:
        if not worker.idle:
            return
        if t < self.down_until and not worker.ahead:
            self.of_worker(self.down_until, worker, self.claim)
            return
        batch, worker.ahead = worker.ahead or self.take(), []
        if not batch:
            return
        if worker.doomed:
            self.strike_worker(t, worker, worker.doomed, batch)
            return
        worker.idle = False
        worker.batch = batch
        self.notes.got(t, worker.name, [(message.job, message.number) for message in batch])
        self.of_worker(t + STEP_S, worker, self.next_job)

    def next_job(self, t: float, worker: Worker) -> None:
        if worker.stopping:
            for message in worker.batch + worker.ahead:
                self.release(message)
                self.put(t, message)
            self.end_worker(t + STEP_S, worker, 0)
            return
        if not worker.batch:
            worker.idle = True
            self.claim(t, worker)
            return
        message = worker.batch.pop(0)
        if self.plan.ahead and not worker.batch and t >= self.down_until:
            worker.ahead = self.take()
        if message.number > message.plan.tries:
            self.notes.gave_up(t, worker.name, message.job, "max_attempts", message.number)
            self.release(message)
            self.of_worker(t + STEP_S, worker, self.next_job)
            return
        worker.running = message
        self.notes.start(t, worker.name, message.job, message.number)
        overrun = message.plan.kind == "overrun"
        self.of_worker(t + (1.5 if overrun else message.plan.work_s), worker, self.end_job)

    def end_job(self, t: float, worker: Worker) -> None:
        message = worker.running
        assert message is not None
        outcome: Outcome = {
            "ok": "completed",
            "flaky": "threw" if message.number == 1 else "completed",
            "bad": "threw",
            "fails": "failed",
            "released": "released" if message.number == 1 else "completed",
            "overrun": "timed_out",
        }[message.plan.kind]
        self.notes.end(t, worker.name, message.job, outcome)
        worker.running, worker.unacked = None, (message, outcome)
        self.of_worker(max(t, self.down_until) + ACK_S, worker, self.ack)

    def ack(self, t: float, worker: Worker) -> None:
        assert worker.unacked is not None
        message, outcome = worker.unacked
        last = message.number >= message.plan.tries
        if outcome == "timed_out" and not last:
            worker.unacked = None
            worker.running = message
            self.kill(t, worker, answer_arrived=False)
            self.later(t + 0.05, self.start_worker)
            return
        worker.unacked = None
        self.notes.ack(t, worker.name, message.job)
        self.settle(t, message, outcome)
        if outcome == "failed" or (last and outcome in ("threw", "timed_out")):
            self.notes.gave_up(t + 0.001, worker.name, message.job)
        self.of_worker(t + STEP_S, worker, self.next_job)

    def settle(self, t: float, message: Message, outcome: Outcome) -> None:
        self.release(message)
        again = Message(message.job, message.plan, message.number + 1)
        if outcome == "released":
            self.later(t + 0.3, lambda t: self.put(t, again))
        elif outcome == "threw" and message.number < message.plan.tries:
            wait_s = (0.4, 0.8)[min(message.number, 2) - 1]
            self.later(t + wait_s, lambda t: self.put(t, again))
        self.wake(t)

    def release(self, message: Message) -> None:
        self.held[message.plan.partition].remove(message)

    def strike(self, t: float, fault: FaultPlan) -> None:
        alive = [worker for worker in self.workers if worker.alive and not worker.stopping]
        if not alive:
            return
        if fault.kind == "kill-worker":
            worker = alive[fault.worker % len(alive)]
            if fault.popping:
                worker.doomed = fault
            else:
                self.strike_worker(t, worker, fault, [])
        elif fault.kind == "kill-leader":
            self.notes.fault(t, fault.kind, "n1", healed=t + 0.6, recovered=t + 1.0)
            self.down_until = self.lost_until = t + 1.0
        elif fault.kind == "kill-supervisor":
            self.notes.fault(t, fault.kind, "supervisor", healed=t + 0.6, recovered=t + 1.0)
            self.notes.died(t, "", role="master")
            self.lost_until = t + 1.0
            for worker in [worker for worker in self.workers if worker.alive]:
                self.kill(t, worker, fault.answer_arrived)
            for _ in alive:
                self.later(t + 1.0, self.start_worker)
        else:
            self.notes.fault(t, fault.kind, "supervisor", healed=t + 2.5, recovered=t + 3.0)
            for worker in alive:
                worker.stopping = True
                if worker.idle:
                    self.end_worker(t + STEP_S, worker, 0)
                self.later(t + 3.0, self.start_worker)

    def end_worker(self, t: float, worker: Worker, status: int, popping: bool = False) -> None:
        worker.alive = False
        if worker.name in {process.name for process in self.notes.processes}:
            self.notes.died(t, worker.name, status, popping)

    def strike_worker(
        self, t: float, worker: Worker, fault: FaultPlan, unread: list[Message]
    ) -> None:
        if worker.name not in {process.name for process in self.notes.processes}:
            self.notes.born(worker.name)
        self.notes.fault(t, fault.kind, worker.name, healed=t, recovered=t + 0.1)
        for message in unread:
            self.come_back(t + LEASE_S, message, message.number + 1)
        self.kill(t, worker, fault.answer_arrived, popping=fault.popping)
        self.later(t + 0.1, self.start_worker)

    def kill(self, t: float, worker: Worker, answer_arrived: bool, popping: bool = False) -> None:
        """A worker dies; its jobs come back by hand-back, by their lease, or not at all."""
        lost = t < self.lost_until
        self.end_worker(t + 0.001, worker, 9, popping or bool(worker.ahead))
        behind = {message.plan.partition for message in worker.batch}
        if worker.unacked:
            message, outcome = worker.unacked
            handed_back = message.plan.partition in behind and not lost
            if outcome in ("completed", "released") and (answer_arrived or handed_back):
                self.settle(t, message, outcome)
            else:
                worker.running = message
        for message in worker.batch + worker.ahead:
            self.come_back(t + (LEASE_S if lost else 0.05), message, message.number + lost)
        if worker.running:
            quick = worker.running.plan.partition in behind and not lost
            wait_s = 0.05 if quick else LEASE_S
            self.come_back(t + wait_s, worker.running, worker.running.number + 1)

    def come_back(self, t: float, message: Message, number: int) -> None:
        def back(t: float) -> None:
            self.release(message)
            self.put(t, Message(message.job, message.plan, number))

        self.later(t, back)
