"""Put jobs into a peer's queue: `produce.py rq|celery|dramatiq|huey PLAN` (JSON)."""

from __future__ import annotations

import json
import os
import sys

from producing import Arguments, produce


def produce_rq(plan: dict[str, object]) -> None:
    """Enqueue one by one, or with its own bulk call."""
    import body
    import redis
    from rq import Queue

    queue = Queue("bench", connection=redis.Redis.from_url(os.environ["PEER_REDIS_URL"]))

    def send_bulk(jobs: list[Arguments]) -> None:
        queue.enqueue_many([Queue.prepare_data(body.run, args=job, result_ttl=0) for job in jobs])

    produce(plan, lambda job: queue.enqueue(body.run, args=job, result_ttl=0), send_bulk)


def produce_celery(plan: dict[str, object]) -> None:
    """Send one message a job, over one connection; it has no bulk call."""
    from celery_app import app, run

    with app.connection_for_write() as connection, connection.channel() as channel:
        producer = app.amqp.Producer(channel)

        def send(job: Arguments) -> None:
            run.apply_async(job, producer=producer)

        produce(plan, send, lambda jobs: [send(job) for job in jobs])


def produce_dramatiq(plan: dict[str, object]) -> None:
    """Send one message a job; it has no bulk call."""
    from dramatiq_app import run

    produce(plan, lambda job: run.send(*job), lambda jobs: [run.send(*job) for job in jobs])


def produce_huey(plan: dict[str, object]) -> None:
    """Call the task, once a job; it has no bulk call."""
    from huey_app import run

    produce(plan, lambda job: run(*job), lambda jobs: [run(*job) for job in jobs])


if __name__ == "__main__":
    {
        "rq": produce_rq,
        "celery": produce_celery,
        "dramatiq": produce_dramatiq,
        "huey": produce_huey,
    }[sys.argv[1]](json.loads(sys.argv[2]))
