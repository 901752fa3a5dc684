"""What ephemeral queues answer, as HTTP answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

from ..broker.ephemeral_options import RingDeclared, RingOptions
from ..broker.ring import Delivered, Outcome
from ..broker.rings import Pushed, RingGauges
from .answer import Answer, error_answer, json_answer

_REFUSALS: Final = {
    "queue_full": (429, "the queue is at its bound and refuses what is new"),
    "ephemeral_unavailable": (503, "this node holds as much for ephemeral queues as it may"),
}


class RingPushedBody(msgspec.Struct):
    """How many messages were taken."""

    pushed: int


class RingMessageBody(msgspec.Struct):
    """One delivered message."""

    id: str
    partition: str
    attempts: int
    payload: Raw


class RingPoppedBody(msgspec.Struct):
    """A pop's messages, maybe none."""

    queue: str
    messages: list[RingMessageBody]


class RingOutcomeBody(msgspec.Struct):
    """What became of one ack."""

    id: str
    outcome: str


class RingAckedBody(msgspec.Struct):
    """In request order."""

    results: list[RingOutcomeBody]


class RingDeclaredBody(msgspec.Struct):
    """The declaration as it was written."""

    queue: str
    options: Raw


class RingResetBody(msgspec.Struct):
    """How many messages went."""

    queue: str
    dropped: int


class RingDeletedBody(msgspec.Struct):
    """Whether there was a queue, and whether it was declared."""

    queue: str
    deleted: bool
    declared: bool


class WindowBody(msgspec.Struct):
    """See `ephemeral_options.Window`."""

    ms: int
    count: int


class RingOptionsBody(msgspec.Struct, rename="camel"):
    """The options in force."""

    max_bytes: int
    max_length: int
    policy: str
    ttl_seconds: int
    lease_seconds: int
    retry_limit: int
    window_buffer: WindowBody


class RingDropsBody(msgspec.Struct):
    """Messages dropped, by cause."""

    bounds: int
    ttl: int
    retry: int


class RingQueueBody(msgspec.Struct):
    """One queue of the list."""

    queue: str
    tier: str
    depth: int
    bytes: int
    partitions: int
    groups: int
    drops: RingDropsBody
    options: RingOptionsBody


class RingQueuesBody(msgspec.Struct, rename="camel"):
    """All queues, and what the node holds for them."""

    queues: list[RingQueueBody]
    count: int
    cell_bytes: int


class RingPartitionBody(msgspec.Struct):
    """One partition."""

    partition: str
    pending: int
    bytes: int


class RingGroupBody(msgspec.Struct):
    """One group."""

    group: str
    pending: int
    skipped: int


class RingDepthBody(msgspec.Struct, rename="camel"):
    """One queue in detail."""

    queue: str
    group: str | None
    tier: str
    pending: int
    partitions_pending: int
    bytes: int
    partitions: list[RingPartitionBody]
    groups: list[RingGroupBody]
    drops: RingDropsBody
    options: RingOptionsBody


def pushed(result: Pushed) -> Answer:
    """201, or the refusal of the whole push."""
    if result.refusal:
        status, text = _REFUSALS[result.refusal]
        return error_answer(status, result.refusal, text, retry_after_s=1)
    return json_answer(RingPushedBody(result.pushed), 201)


def popped(queue: str, messages: Sequence[tuple[str, Delivered]]) -> Answer:
    """200 with (id, message) each, also when there is none."""
    bodies = [
        RingMessageBody(name, message.partition, message.attempts, Raw(message.payload))
        for name, message in messages
    ]
    return json_answer(RingPoppedBody(queue, bodies))


def acked(results: Sequence[tuple[str, Outcome]]) -> Answer:
    """200, one outcome for each id."""
    return json_answer(RingAckedBody([RingOutcomeBody(*result) for result in results]))


def declared(reply: RingDeclared) -> Answer:
    """201 with the declaration."""
    return json_answer(RingDeclaredBody(reply.queue, Raw(reply.given)), 201)


def was_reset(queue: str, dropped: int) -> Answer:
    """200, whatever there was."""
    return json_answer(RingResetBody(queue, dropped))


def deleted(queue: str, existed: bool, was_declared: bool) -> Answer:
    """200, whatever there was."""
    return json_answer(RingDeletedBody(queue, existed or was_declared, was_declared))


def listed(gauges: Sequence[RingGauges], node_bytes: int) -> Answer:
    """200 with all queues."""
    queues = [
        RingQueueBody(
            each.queue,
            _tier(each),
            each.depth,
            each.bytes,
            len(each.partitions),
            len(each.groups),
            RingDropsBody(*each.drops),
            _options(each.options),
        )
        for each in gauges
    ]
    return json_answer(RingQueuesBody(queues, len(queues), node_bytes))


def depth(
    gauges: RingGauges | None, group: str | None, partitions: Sequence[tuple[str, int, int]]
) -> Answer:
    """200, or the one 404 of these routes."""
    if gauges is None:
        return error_answer(404, "ephemeral_queue_not_found", "no such ephemeral queue")
    rows = [RingPartitionBody(*row) for row in partitions]
    return json_answer(
        RingDepthBody(
            gauges.queue,
            group,
            _tier(gauges),
            sum(row.pending for row in rows),
            sum(1 for row in rows if row.pending),
            gauges.bytes,
            rows,
            [RingGroupBody(*row) for row in gauges.groups],
            RingDropsBody(*gauges.drops),
            _options(gauges.options),
        )
    )


def _tier(gauges: RingGauges) -> str:
    return "declared" if gauges.is_declared else "implicit"


def _options(options: RingOptions) -> RingOptionsBody:
    window = WindowBody(options.window.ms, options.window.count)
    return RingOptionsBody(
        options.max_bytes,
        options.max_length,
        options.policy,
        options.ttl_s,
        options.lease_s,
        options.retry_limit,
        window,
    )
