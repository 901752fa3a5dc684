"""Celery's side of the comparison: early acks, results ignored, one job prefetched."""

from __future__ import annotations

import os

import body
from celery import Celery

app = Celery("peers", broker=os.environ["PEER_REDIS_URL"])
app.conf.update(
    task_ignore_result=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=False,
)


@app.task(name="work")
def work(directory: str, sleep_ms: float) -> None:
    """Run the shared body."""
    body.work(directory, sleep_ms)


@app.task(name="run")
def run(directory: str, number: int, sent_ns: int, sleep_ms: float) -> None:
    """Run the shared body that logs starts, too."""
    body.run(directory, number, sent_ns, sleep_ms)
