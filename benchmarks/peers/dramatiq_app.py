"""Dramatiq's side of the comparison: its defaults on Redis."""

from __future__ import annotations

import os

import body
import dramatiq
from dramatiq.brokers.redis import RedisBroker

dramatiq.set_broker(RedisBroker(url=os.environ["PEER_REDIS_URL"]))


@dramatiq.actor
def run(directory: str, number: int, sent_ns: int, sleep_ms: float) -> None:
    """Run the shared body that logs starts, too."""
    body.run(directory, number, sent_ns, sleep_ms)
