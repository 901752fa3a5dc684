"""After any prefix of a worker's actions, its journal settles exactly what is owed.

The worker's actions are replayed against the real machine and cut off anywhere; then the journal's
hand-back is sent, and whatever request was in flight arrives before or after it. Every job must be
somewhere exactly once, under the right number.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from atleastonce.system.client import calls
from atleastonce.system.client.wire import Response
from atleastonce.system.jobs.batch import Batch, Stage
from atleastonce.system.jobs.debts import (
    Debt,
    ack_operation,
    after_refusal,
    hand_back_operations,
    retry_operations,
)
from atleastonce.system.jobs.delivery import read_delivery
from atleastonce.system.jobs.journal import JournalWriter, read_debts
from atleastonce.system.jobs.links import Followers
from atleastonce.system.jobs.succession import follow

from .deliveries import make_app
from .machine_broker import GROUP, QUEUE, MachineNode

PARTITIONS = ("p-0000", "p-0001", "p-0002")
WAITING_MAX = 3

Request = tuple[str, str, Any]


@dataclass
class Run:
    """A worker on one batch, with the request that is in flight."""

    node: MachineNode
    batch: Batch
    journal: JournalWriter
    in_flight: Request | None = None
    completed: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    pause_ms: int = 0
    waiting: list[int] = field(default_factory=list)

    def record(self) -> None:
        batch = self.batch
        self.journal.write(batch.codes, batch.running, batch.since_ns, batch.retry_delay_ms)

    def deliver(self) -> None:
        """What is in flight reaches the broker."""
        if self.in_flight is not None:
            ask(self.node, *self.in_flight)
            self.in_flight = None

    def steps(self, endings: list[str]) -> Iterator[None]:
        """Every action of the worker, one by one; `endings` say how each job ends."""
        yield
        late: int | None = None
        for index, delivery in enumerate(self.batch.deliveries):
            if self.batch.stages[index] is not Stage.UNSTARTED:
                continue
            ending = endings[int(delivery.job_id.removeprefix("j"))]
            if ending == "unrun":
                yield from self.waiting_is_sent()
            if ending == "unrun":
                self.unacked_is_settled(late)
                late = None
                yield from self.unrun(index)
                continue
            self.batch.start(index, 1)
            self.record()
            self.started.add(delivery.job_id)
            yield
            if late is not None:
                self.unacked_is_settled(late)
                late = None
                yield
            if ending == "deferred":
                self.completed.add(delivery.job_id)
                self.waiting.append(index)
                if len(self.waiting) == WAITING_MAX or self.batch.next_unstarted(index) is None:
                    yield from self.waiting_is_sent()
                else:
                    self.batch.defer(index)
                    self.record()
                    yield
                continue
            yield from self.waiting_is_sent()
            if ending == "completed":
                self.completed.add(delivery.job_id)
                self.batch.ack(index)
                self.record()
                yield
                self.in_flight = self.ack(index, "completed")
                late = index
                yield
                continue
            if ending == "retry":
                self.batch.retry(index, self.pause_ms)
            elif ending == "follow":
                self.completed.add(delivery.job_id)
                self.batch.follow(index)
            else:
                self.batch.bury(index)
            self.record()
            yield
            self.in_flight = self.request(index, ending)
            yield
            self.deliver()
            yield
            siblings = self.batch.siblings(index) if ending == "dlq" else ()
            for place in (index, *siblings):
                self.batch.close(place)
            self.record()
            yield

    def waiting_is_sent(self) -> Iterator[None]:
        """What waited goes out in one request."""
        if not self.waiting:
            return
        for index in self.waiting:
            self.batch.ack(index)
        self.record()
        yield
        acks = [self.ack(index, "completed")[2] for index in self.waiting]
        body = {"consumerGroup": GROUP, "acknowledgments": acks}
        self.in_flight = ("POST", "/api/v1/ack/batch", body)
        yield
        self.deliver()
        yield
        for index in self.waiting:
            self.batch.close(index)
        self.waiting.clear()
        self.record()
        yield

    def unacked_is_settled(self, late: int | None) -> None:
        """The answer of the ack that was sent before this job."""
        if late is not None:
            self.deliver()
            self.batch.close(late)
            self.record()

    def unrun(self, index: int) -> Iterator[None]:
        """A job that is given up without a run, at its pickup."""
        self.batch.bury(index)
        self.record()
        yield
        self.in_flight = self.dead_letter(index)
        yield
        self.deliver()
        yield
        for place in (index, *self.batch.siblings(index)):
            self.batch.close(place)
        self.record()
        yield

    def request(self, index: int, ending: str) -> Request:
        """What says how a job ended, if it is not its plain ack."""
        if ending == "retry":
            return self.retry(index)
        if ending == "dlq":
            return self.dead_letter(index)
        body, followers = self.batch.deliveries[index].body, Followers()
        assert body is not None
        follow(body, followers)
        ack = ack_operation(self.batch.plan_entry(index), self.batch.lease, GROUP)
        return ("POST", "/api/v1/transaction", followers.body(ack))

    def ack(self, index: int, status: str) -> Request:
        message = self.batch.deliveries[index].message
        body = {
            "transactionId": message.transaction_id,
            "partitionId": message.partition_id,
            "status": status,
            "leaseId": self.batch.lease,
            "consumerGroup": GROUP,
        }
        return ("POST", "/api/v1/ack", body)

    def dead_letter(self, index: int) -> Request:
        """Alone, or with those behind it whose number it would forget."""
        method, target, body = self.ack(index, "dlq")
        tail = self.batch.tail_operations(index, QUEUE, GROUP)
        if not tail:
            return (method, target, body)
        bundle = {"operations": [{"type": "ack", **body}, *tail]}
        return ("POST", "/api/v1/transaction", bundle | {"requiredLeases": [self.batch.lease]})

    def retry(self, index: int) -> Request:
        entry = self.batch.plan_entry(index)
        body = retry_operations(entry, self.batch.lease, QUEUE, GROUP, self.pause_ms)
        return ("POST", "/api/v1/transaction", body)


def ask(node: MachineNode, method: str, target: str, body: Any = None) -> Response:
    data = b"" if body is None else msgspec.json.encode(body)
    answer = node.serve(method, target, data, os.urandom(8).hex())
    return Response(answer.status, answer.body)


def pop(node: MachineNode, batch: int) -> Any:
    call = calls.pop(QUEUE, group=GROUP, batch=batch, partitions=8, lease_s=30)
    return call.read(ask(node, call.method, call.target))


def chain_of(name: str, pause_ms: int) -> dict[str, object]:
    """A chain of one job, which goes to a partition of its own."""
    following = f"{name}.next"
    body = {"job": "work", "id": following, "partition": "p-next", "data": None}
    link = {"queue": QUEUE, "partition": "p-next", "id": following, "body": body}
    return {"id": name, "links": [link | ({"delay_s": pause_ms / 1000} if pause_ms else {})]}


def begin(
    jobs: list[tuple[int, int]],
    redeliveries: int,
    folder: str,
    endings: list[str],
    pause_ms: int,
) -> Run:
    node = MachineNode()
    for number, (partition, attempts) in enumerate(jobs):
        name = f"j{number}"
        job: dict[str, object] = {"job": "work", "id": name, "attempts": attempts, "data": number}
        if endings[number] == "follow":
            job["chain"] = chain_of(name, pause_ms)
        payload = {"_job": job}
        item = {
            "queue": QUEUE,
            "partition": PARTITIONS[partition],
            "transactionId": name,
            "payload": payload,
        }
        ask(node, "POST", "/api/v1/push", {"items": [item]})
    for _ in range(redeliveries):
        pop(node, 100)
        node.expire_leases()
    popped = pop(node, 100)
    app = make_app()
    deliveries = tuple(read_delivery(app, message) for message in popped.messages)
    assert len(deliveries) == len(jobs)
    batch = Batch(popped.lease_id, 30.0, 1, deliveries)
    journal = JournalWriter(folder, os.getpid())
    journal.begin(batch.plan(QUEUE, GROUP), batch.codes)
    return Run(node, batch, journal)


def hand_back(node: MachineNode, debt: Debt) -> None:
    """What the supervisor sends: the debt, and what is left of it if that is refused for good."""
    owed: Debt | None = debt
    for _ in range(2):
        if owed is None:
            return
        answer = json.loads(ask(node, "POST", "/api/v1/transaction", send(owed)).body)
        if answer["success"]:
            return
        owed = after_refusal(owed, answer["reason"])
    assert owed is None, f"refused twice: {answer}"


def send(debt: Debt) -> dict[str, object]:
    body = hand_back_operations(debt)
    assert body is not None
    return body


def left(node: MachineNode) -> dict[str, list[int]]:
    """Numbers under which each job that is left comes back, all leases and timers run out."""
    node.expire_leases()
    found: dict[str, list[int]] = {}
    while (popped := pop(node, 100)).messages:
        for message in popped.messages:
            body = json.loads(bytes(message.data))["_job"]
            number = body.get("attempts", 0) + message.delivery_attempt
            found.setdefault(body["id"], []).append(number)
            body_ack = {
                "transactionId": message.transaction_id,
                "partitionId": message.partition_id,
                "consumerGroup": GROUP,
            }
            ask(node, "POST", "/api/v1/ack", body_ack)
    return found


def dead_letters(node: MachineNode) -> list[str]:
    call = calls.dlq(QUEUE, GROUP)
    rows = call.read(ask(node, call.method, call.target)).messages
    return [json.loads(bytes(row.data))["_job"]["id"] for row in rows]


@settings(max_examples=400)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6),
    redeliveries=st.integers(0, 2),
    endings=st.lists(
        st.sampled_from(
            ["completed", "completed", "deferred", "deferred", "follow", "retry", "dlq", "unrun"]
        ),
        min_size=6,
        max_size=6,
    ),
    pause_ms=st.sampled_from([0, 40]),
    cut=st.integers(0, 40),
    arrives=st.sampled_from(["before", "fired", "after", "never"]),
)
def test_hand_back_of_any_moment_leaves_every_job_somewhere_once(
    jobs: list[tuple[int, int]],
    redeliveries: int,
    endings: list[str],
    pause_ms: int,
    cut: int,
    arrives: str,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = begin(jobs, redeliveries, folder, endings, pause_ms)
        run.pause_ms = pause_ms
        for step, _ in enumerate(run.steps(endings[: len(jobs)])):
            if step == cut:
                break
        debts = read_debts(folder, os.getpid())
        run.journal.close()
    assert debts.refused is None
    check(run, debts.debts, arrives)


def check(run: Run, debts: tuple[Debt, ...], arrives: str) -> None:
    batch = run.batch
    if arrives in ("before", "fired"):
        run.deliver()
    if arrives == "fired":
        run.node.advance(100_000)
    for debt in debts:
        hand_back(run.node, debt)
    if arrives == "after":
        run.deliver()
    found = left(run.node)
    buried = dead_letters(run.node)
    assert len(set(buried)) == len(buried), f"buried twice: {buried}"
    for delivery, stage in zip(batch.deliveries, batch.stages, strict=True):
        name, number = delivery.job_id, delivery.attempt
        numbers = found.pop(name, [])
        times = len(numbers) + buried.count(name)
        assert times <= 1, f"{name} comes back {numbers}, buried {buried.count(name)}"
        if name in run.completed and stage is not Stage.RUNNING:
            assert stage is not Stage.DEFERRED or numbers == [], f"{name} runs again: {numbers}"
            # Its ack may be lost, and then it comes back with its run counted: at least once.
            assert numbers in ([], [number + 1]), f"{name} completed as {number}: {numbers}"
            assert delivery.body is not None
            due_next = [1] if delivery.body.chain is not None and not numbers else []
            following = found.pop(f"{name}.next", [])
            assert following == due_next, f"{name} comes back {numbers}, its next {following}"
            continue
        assert times == 1, f"{name} is lost"
        due = number + 1 if name in run.started else number
        assert numbers in ([], [due]), f"{name} is due as {due}, comes back {numbers}"
    assert found == {}
