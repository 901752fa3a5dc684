"""Deliveries and plans for tests of the parts that need no broker."""

from __future__ import annotations

import msgspec

from atleastonce.system.client import Message
from atleastonce.system.jobs.application import Application
from atleastonce.system.jobs.batch import Batch
from atleastonce.system.jobs.context import JobContext
from atleastonce.system.jobs.delivery import Delivery, read_delivery

LEASE = "lease-1"


def make_app() -> Application:
    app = Application()

    @app.job("work")
    def work(context: JobContext, payload: object) -> None:
        del context, payload

    return app


def make_message(
    job_id: str,
    *,
    partition: str = "p-0000",
    attempts: int = 0,
    delivery_attempt: int = 1,
    offset: int = 0,
    data: bytes | None = None,
    txn: str | None = None,
) -> Message:
    """A delivered message; its partition id is its partition's name."""
    body = {"_job": {"job": "work", "id": job_id, "attempts": attempts, "data": {"n": job_id}}}
    return Message(
        id=f"m-{job_id}",
        transaction_id=txn or job_id,
        data=msgspec.Raw(msgspec.json.encode(body) if data is None else data),
        partition_id=partition,
        partition=partition,
        lease_id=LEASE,
        delivery_attempt=delivery_attempt,
        offset=offset,
    )


def make_delivery(message: Message) -> Delivery:
    return read_delivery(make_app(), message)


def make_batch(*partitions: str, delivery_attempt: int = 1) -> Batch:
    """A batch with one job per partition named: `j0`, `j1`, …"""
    messages = [
        make_message(f"j{n}", partition=partition, delivery_attempt=delivery_attempt, offset=n)
        for n, partition in enumerate(partitions)
    ]
    return Batch(LEASE, 8.0, 1000, tuple(make_delivery(message) for message in messages))
