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
from atleastonce.system.jobs.delivery import read_delivery
from atleastonce.system.jobs.journal import (
    JournalWriter,
    ack_operation,
    copy_operation,
    hand_back_operations,
    read_debts,
)

from .deliveries import make_app
from .machine_broker import GROUP, QUEUE, MachineNode

PARTITIONS = ("p-0000", "p-0001", "p-0002")

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
    dropped: set[str] = field(default_factory=set)
    retried: set[str] = field(default_factory=set)

    def record(self) -> None:
        self.journal.write(self.batch.codes, self.batch.running, self.batch.since_ns)

    def deliver(self) -> None:
        """What is in flight reaches the broker."""
        if self.in_flight is not None:
            ask(self.node, *self.in_flight)
            self.in_flight = None

    def steps(self, endings: list[str]) -> Iterator[None]:
        """Every action of the worker, one by one; `endings` say how each job ends."""
        yield
        late: int | None = None
        for index, ending in enumerate(endings):
            if self.batch.stages[index] is not Stage.UNSTARTED:
                continue
            delivery = self.batch.deliveries[index]
            self.batch.start(index, 1)
            self.record()
            self.started.add(delivery.job_id)
            yield
            if late is not None:
                # The answer of the ack that was sent before this job.
                self.deliver()
                self.batch.close(late)
                self.record()
                late = None
                yield
            if ending == "completed":
                self.completed.add(delivery.job_id)
                self.batch.ack(index)
                self.record()
                yield
                self.in_flight = self.ack(index, "completed")
                late = index
                yield
                continue
            siblings = self.batch.siblings(index) if ending == "dlq" else ()
            if ending == "dlq":
                self.completed.add(delivery.job_id)
            self.batch.settle(index)
            for sibling in siblings:
                self.batch.close(sibling)
                self.dropped.add(self.batch.deliveries[sibling].job_id)
            self.record()
            yield
            self.in_flight = self.ack(index, "dlq") if ending == "dlq" else self.retry(index)
            yield
            self.deliver()
            if ending == "retry":
                self.retried.add(delivery.job_id)
            yield
            self.batch.close(index)
            self.record()
            yield

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

    def retry(self, index: int) -> Request:
        delivery, entry = self.batch.deliveries[index], self.batch.plan_entry(index)
        txn = delivery.copy_txn(f"retry:{delivery.attempt}")
        copy = copy_operation(entry, QUEUE, delivery.attempt, txn)
        body = {"operations": [ack_operation(entry, self.batch.lease, GROUP), copy]}
        return ("POST", "/api/v1/transaction", body)


def ask(node: MachineNode, method: str, target: str, body: Any = None) -> Response:
    data = b"" if body is None else msgspec.json.encode(body)
    answer = node.serve(method, target, data, os.urandom(8).hex())
    return Response(answer.status, answer.body)


def pop(node: MachineNode, batch: int) -> Any:
    call = calls.pop(QUEUE, group=GROUP, batch=batch, partitions=8, lease_s=30)
    return call.read(ask(node, call.method, call.target))


def begin(jobs: list[tuple[int, int]], redelivered: bool, folder: str) -> Run:
    node = MachineNode()
    for number, (partition, attempts) in enumerate(jobs):
        name = f"j{number}"
        payload = {"_job": {"job": "work", "id": name, "attempts": attempts, "data": number}}
        item = {
            "queue": QUEUE,
            "partition": PARTITIONS[partition],
            "transactionId": name,
            "payload": payload,
        }
        ask(node, "POST", "/api/v1/push", {"items": [item]})
    if redelivered:
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


def left(node: MachineNode) -> dict[str, list[int]]:
    """Numbers under which each job that is left comes back, all leases expired."""
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


@settings(max_examples=250, deadline=None)
@given(
    jobs=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=1, max_size=6),
    redelivered=st.booleans(),
    endings=st.lists(
        st.sampled_from(["completed", "completed", "retry", "dlq"]), min_size=6, max_size=6
    ),
    cut=st.integers(0, 40),
    arrives=st.sampled_from(["before", "after", "never"]),
)
def test_hand_back_of_any_moment_leaves_every_job_somewhere_once(
    jobs: list[tuple[int, int]],
    redelivered: bool,
    endings: list[str],
    cut: int,
    arrives: str,
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run = begin(jobs, redelivered, folder)
        for step, _ in enumerate(run.steps(endings[: len(jobs)])):
            if step == cut:
                break
        debts = read_debts(folder, os.getpid())
        run.journal.close()
    assert debts.refused is None
    check(run, debts.debts, arrives)


def check(run: Run, debts: Any, arrives: str) -> None:
    batch = run.batch
    attempts = {delivery.job_id: delivery.attempt for delivery in batch.deliveries}
    partition_of = {d.job_id: d.message.partition for d in batch.deliveries}
    unstarted = {
        delivery.job_id
        for delivery, stage in zip(batch.deliveries, batch.stages, strict=True)
        if stage is Stage.UNSTARTED
    }
    settling = {
        delivery.message.partition
        for delivery, stage in zip(batch.deliveries, batch.stages, strict=True)
        if stage is Stage.SETTLING
    }
    owed = {name for name in unstarted if partition_of[name] not in settling}
    assert {name for debt in debts for name in debt.unstarted} == owed
    if arrives == "before":
        run.deliver()
    for debt in debts:
        body = hand_back_operations(debt)
        answer = ask(run.node, "POST", "/api/v1/transaction", body)
        assert json.loads(answer.body)["success"], answer.body
    if arrives == "after":
        run.deliver()
    found = left(run.node)
    for name, number in attempts.items():
        numbers = found.pop(name, [])
        assert len(numbers) <= 1, f"{name} comes back {numbers}"
        if name in owed:
            assert numbers == [number], f"{name} was {number} and comes back {numbers}"
        elif name not in run.completed:
            assert numbers, f"{name} is lost"
            if partition_of[name] in settling:
                # Left to its lease, or to what was in flight: the number is the broker's to say.
                continue
            if name in run.dropped:
                # Its partition was released by a dead letter: a first delivery again at most.
                assert numbers[0] <= number, f"{name} was {number} and comes back {numbers}"
            elif name in run.retried:
                # A message of its own by now, behind whatever still holds the lease.
                assert numbers[0] > number, f"{name} ran as {number}, comes back {numbers}"
            else:
                assert name in run.started, f"{name} never started and is not owed"
                assert numbers == [number + 1], f"{name} ran as {number}, comes back {numbers}"
    assert found == {}
