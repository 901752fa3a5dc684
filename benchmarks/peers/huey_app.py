"""Huey's side of the comparison: results are not kept."""

from __future__ import annotations

import os

import body
from huey import RedisHuey

huey = RedisHuey("bench", url=os.environ["PEER_REDIS_URL"], results=False)


@huey.task()
def run(directory: str, number: int, sent_ns: int, sleep_ms: float) -> None:
    """Run the shared body that logs starts, too."""
    body.run(directory, number, sent_ns, sleep_ms)
