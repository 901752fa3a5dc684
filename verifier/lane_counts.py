"""Asks the broker what it has counted of a lane's jobs."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

import msgspec
import trio

from ..checkers.lane_counts import COUNT_JOBS, JobCounts
from ..system.client import BrokerError, Call
from ..system.client.calls import depth
from ..system.client.reading import reader
from .activities import Stage
from .config import CONSUMER_GROUP

_POLL_S: Final = 0.05
_SETTLED_S_MAX: Final = 30.0


class _Bucket(msgspec.Struct, rename="camel"):
    queue_name: str
    ack_success: int = 0
    ack_failed: int = 0


class _Operations(msgspec.Struct):
    series: list[_Bucket]


class _Messages(msgspec.Struct, rename="camel"):
    dead_letter: int = 0


class _Queue(msgspec.Struct):
    messages: _Messages


_OPERATIONS: Final = msgspec.json.Decoder(_Operations)
_QUEUE: Final = msgspec.json.Decoder(_Queue)


async def count_jobs(stage: Stage, queue: str) -> None:
    """Wait until nothing is left in the queue, then record what the broker has counted."""
    op = stage.recorder.invoke(COUNT_JOBS)
    try:
        with trio.move_on_after(_SETTLED_S_MAX):
            while (await stage.client.call(depth(queue, CONSUMER_GROUP))).value.pending:
                await trio.sleep(_POLL_S)
        ops = (await stage.client.call(_operations_call())).value
        dead = (await stage.client.call(_queue_call(queue))).value.messages.dead_letter
    except BrokerError as error:
        stage.recorder.complete(op, "info", error=str(error))
        return
    own = [bucket for bucket in ops.series if bucket.queue_name == queue]
    counts = JobCounts(
        processed=sum(bucket.ack_success for bucket in own),
        failed=sum(bucket.ack_failed for bucket in own),
        dead=dead,
    )
    stage.recorder.complete(op, "ok", msgspec.to_builtins(counts))


def _operations_call() -> Call[_Operations]:
    return Call("queue operations", "GET", "/api/v1/analytics/queue-ops", b"", reader(_OPERATIONS))


def _queue_call(queue: str) -> Call[_Queue]:
    target = f"/api/v1/resources/queues/{quote(queue, safe='')}"
    return Call("queue", "GET", target, b"", reader(_QUEUE))
