"""Put N jobs into RQ's or Celery's queue: `load.py rq|celery N DIRECTORY SLEEP_MS`."""

from __future__ import annotations

import os
import sys


def load_rq(count: int, directory: str, sleep_ms: float) -> None:
    """Enqueue in pipelines of 500, as RQ's own bulk call does."""
    import body
    import redis
    from rq import Queue

    queue = Queue("bench", connection=redis.Redis.from_url(os.environ["PEER_REDIS_URL"]))
    for start in range(0, count, 500):
        queue.enqueue_many(
            [
                Queue.prepare_data(body.work, args=(directory, sleep_ms), result_ttl=0)
                for _ in range(min(500, count - start))
            ]
        )


def load_celery(count: int, directory: str, sleep_ms: float) -> None:
    """Send one message a job, over one connection."""
    from celery_app import app, work

    with app.connection_for_write() as connection, connection.channel() as channel:
        producer = app.amqp.Producer(channel)
        for _ in range(count):
            work.apply_async((directory, sleep_ms), producer=producer)


if __name__ == "__main__":
    {"rq": load_rq, "celery": load_celery}[sys.argv[1]](
        int(sys.argv[2]), sys.argv[3], float(sys.argv[4])
    )
