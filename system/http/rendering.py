"""Replies of the machine to HTTP answers."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw

from ..broker.ephemeral_options import RingDeclared
from ..broker.position_records import PositionResult, PositionsReply
from ..broker.replies import (
    AckedItem,
    AckReply,
    ConfigureReply,
    DeadLetter,
    DeleteDeadLetterReply,
    DeleteQueueReply,
    DepthReply,
    DlqReply,
    ExtendReply,
    FetchedEntry,
    FetchReply,
    FireReply,
    PopReply,
    PushReply,
    Reply,
    TakeBackReply,
    TimerCountReply,
    TimerListReply,
    TimerReply,
    TimerResult,
    TimerRow,
    TimersReply,
    TransactionPushed,
    TransactionReply,
)
from . import bodies, render_ephemeral, render_positions
from .answer import Answer, empty_pop_answer, error_answer, json_answer
from .render_inspection import INSPECTION_RENDERERS
from .render_kv import KV_RENDERERS, KvBody, kv_body
from .render_streams import STREAM_RENDERERS
from .request import ReadRequest, Rendered, Write
from .timestamps import rfc3339


def render(request: Rendered, reply: Reply) -> Answer:
    """Give a reply the shape that the request's route promises."""
    if isinstance(reply, TimersReply) and isinstance(request, Write) and request.shape:
        return json_answer(_timer(reply.results[0]))
    renderer = _RENDERERS.get(type(reply))
    if renderer is not None:
        return renderer(reply)
    shape = request.shape if isinstance(request, Write | ReadRequest) else ""
    return _SHAPED[type(reply)](reply, shape)


def _push(reply: PushReply) -> Answer:
    results = [
        bodies.PushedBody(
            index, item.message_id, item.transaction_id, item.queue, item.status, item.offset
        )
        for index, item in enumerate(reply.items)
    ]
    return json_answer(results, 201)


def _pop(reply: PopReply) -> Answer:
    if reply.is_empty:
        return _nothing_popped(reply)
    messages = [
        bodies.PoppedBody(
            message.message_id,
            message.transaction_id,
            message.trace_id,
            Raw(message.payload),
            message.producer_sub,
            rfc3339(message.created_us),
            run.partition_id,
            run.partition,
            run.queue,
            reply.lease_id,
            reply.group,
            run.attempt,
            message.offset,
        )
        for run in reply.runs
        for message in run.messages
    ]
    first = reply.runs[0]
    body = bodies.PopBody(
        True,
        reply.queue,
        first.partition,
        first.partition_id,
        reply.lease_id,
        reply.group,
        messages,
        len(reply.runs),
        UNSET if reply.autopilot is None else bodies.AutopilotBody(*reply.autopilot),
        reply.conflates or UNSET,
        reply.conflicts or UNSET,
    )
    return json_answer(body)


def _nothing_popped(reply: PopReply) -> Answer:
    """204, but a consumer that asked for last-value delivery is always told whether it has it."""
    if not reply.conflates and not reply.conflicts:
        return empty_pop_answer()
    body = bodies.PopBody(True, reply.queue, "", "", "", reply.group, [], 0)
    body.conflation = reply.conflates or UNSET
    body.conflation_conflict = reply.conflicts or UNSET
    return json_answer(body)


def _ack(reply: AckReply) -> Answer:
    results = [
        bodies.AckedBody(
            index,
            item.transaction_id,
            item.success,
            item.error or None,
            item.lease_released,
            item.dlq,
            item.noop,
            UNSET if item.conflated is None else item.conflated,
        )
        for index, item in enumerate(reply.items)
    ]
    return json_answer(results)


def _extend(reply: ExtendReply) -> Answer:
    deadline = None if reply.expires_us is None else rfc3339(reply.expires_us)
    renewed = reply.renewed
    return json_answer(
        bodies.ExtendBody(reply.lease_id, renewed > 0, renewed, deadline, deadline, deadline)
    )


def _transaction(reply: TransactionReply) -> Answer:
    results: list[bodies.TransactionElement | KvBody] = []
    timers = kv = positions = 0
    for index, result in enumerate(reply.results):
        match result:
            case AckedItem():
                results.append(
                    bodies.TransactionAckBody(
                        index, "ack", True, result.transaction_id, None, result.dlq
                    )
                )
            case TransactionPushed():
                results.append(_transaction_push(index, result))
            case TimerResult():
                body = _timer(result)
                body.index, body.op_index, body.type = index, timers, "timer"
                timers += 1
                results.append(body)
            case PositionResult():
                results.append(render_positions.in_transaction(index, positions, result))
                positions += 1
            case _:
                element = kv_body(result, index)
                element.op_index, element.type = kv, "kv"
                kv += 1
                results.append(element)
    if not reply.reason:
        return json_answer(
            bodies.TransactionBody(reply.transaction_id, True, UNSET, UNSET, results)
        )
    refused = bodies.TransactionBody(reply.transaction_id, False, reply.reason, reply.error, [])
    lost = reply.lost
    if lost is not None:
        refused.ok, refused.failed_index, refused.kv_reason = False, lost.failed_index, lost.reason
        refused.version = lost.version
        refused.value = None if lost.value is None else Raw(lost.value)
    return json_answer(refused)


def _transaction_push(index: int, result: TransactionPushed) -> bodies.TransactionPushBody:
    return bodies.TransactionPushBody(
        index,
        "push",
        True,
        result.transaction_id,
        result.message_id,
        result.queue,
        True if result.duplicate else UNSET,
    )


def _timer(result: TimerResult) -> bodies.TimerBody:
    return bodies.TimerBody(
        result.ok,
        result.status,
        result.queue,
        result.key,
        result.transaction_id,
        result.message_id,
        None if result.deliver_us is None else rfc3339(result.deliver_us),
    )


def _timers(reply: TimersReply) -> Answer:
    return json_answer(bodies.TimersBody([_timer(result) for result in reply.results]))


def _timer_row(row: TimerRow) -> bodies.TimerRowBody:
    return bodies.TimerRowBody(
        row.queue,
        row.key,
        row.partition,
        rfc3339(row.deliver_us),
        row.transaction_id,
        row.message_id,
        base64.b64encode(row.payload).decode("ascii"),
    )


def _timer_get(reply: TimerReply) -> Answer:
    if reply.row is None:
        return json_answer(bodies.TimerMissingBody(False, reply.queue, reply.key))
    body = _timer_row(reply.row)
    body.found = True
    return json_answer(body)


def _timer_list(reply: TimerListReply) -> Answer:
    rows = [_timer_row(row) for row in reply.rows]
    after = reply.rows[-1].key if reply.truncated else None
    return json_answer(bodies.TimerListBody(rows, reply.truncated, after))


def _timer_count(reply: TimerCountReply) -> Answer:
    return json_answer({"count": reply.count})


def _configure(reply: ConfigureReply) -> Answer:
    return json_answer(
        bodies.ConfigureBody(
            True,
            reply.queue_id,
            None,
            reply.queue,
            reply.namespace,
            reply.task,
            "segments",
            reply.options,
        )
    )


def _delete_queue(reply: DeleteQueueReply) -> Answer:
    message = UNSET if reply.existed else "Queue not found"
    return json_answer(bodies.DeletedQueueBody(reply.existed, reply.queue, reply.existed, message))


def _delete_dead_letter(reply: DeleteDeadLetterReply) -> Answer:
    if not reply.deleted:
        return error_answer(404, "not_found", "Message not found")
    return json_answer(
        bodies.DeletedLettersBody(True, reply.partition_id, reply.transaction_id, reply.deleted)
    )


def _depth(reply: DepthReply) -> Answer:
    counts = reply.partitions
    if counts is None:
        return error_answer(404, "queue_not_found", "Queue not found")
    pending = sum(count.pending for count in counts)
    ready = sum(count.ready for count in counts)
    partitions_pending = sum(1 for count in counts if count.pending)
    partitions_ready = sum(1 for count in counts if count.ready)
    body = bodies.DepthBody(
        queue=reply.queue,
        group=reply.group,
        pending=pending,
        processing=sum(count.processing for count in counts),
        ready=ready,
        partitions_pending=partitions_pending,
        partitions_ready=partitions_ready,
        conflation=reply.conflates,
        effective_pending=partitions_pending if reply.conflates else pending,
        effective_ready=partitions_ready if reply.conflates else ready,
        partitions=[
            bodies.PartitionDepthBody(count.partition, count.pending, count.processing, count.ready)
            for count in counts
        ],
    )
    return json_answer(body)


def _dead_letter(letter: DeadLetter) -> bodies.DeadLetterBody:
    message = letter.message
    return bodies.DeadLetterBody(
        letter.dead_letter_id,
        message.transaction_id,
        letter.partition_id,
        letter.queue,
        letter.partition,
        letter.group,
        letter.error,
        letter.retry_count,
        Raw(message.payload),
        message.producer_sub,
        rfc3339(message.created_us),
        rfc3339(letter.failed_us),
    )


def _dlq(reply: DlqReply) -> Answer:
    page = [_dead_letter(letter) for letter in reply.letters]
    pagination = bodies.PaginationBody(reply.limit, reply.offset)
    return json_answer(bodies.DlqBody(page, pagination, len(page)))


def _fetched(entry: FetchedEntry) -> bodies.FetchEntryBody:
    records = [
        bodies.FetchRecordBody(
            message.offset,
            message.transaction_id,
            Raw(message.payload),
            rfc3339(message.created_us),
        )
        for message in entry.records
    ]
    return bodies.FetchEntryBody(
        entry.queue,
        entry.partition,
        records,
        entry.high_watermark,
        entry.log_start,
        entry.error or UNSET,
    )


def _fetch(reply: FetchReply) -> Answer:
    return json_answer(bodies.FetchBody([_fetched(entry) for entry in reply.entries]))


def _fire(reply: FireReply) -> Answer:
    return json_answer({"fired": reply.fired})


def _take_back(reply: TakeBackReply) -> Answer:
    return json_answer({"takenBack": reply.taken_back})


_RENDERERS: Final[dict[type, Callable[..., Answer]]] = {
    PushReply: _push,
    PopReply: _pop,
    AckReply: _ack,
    ExtendReply: _extend,
    TransactionReply: _transaction,
    TimersReply: _timers,
    TimerReply: _timer_get,
    TimerListReply: _timer_list,
    TimerCountReply: _timer_count,
    ConfigureReply: _configure,
    DeleteQueueReply: _delete_queue,
    DeleteDeadLetterReply: _delete_dead_letter,
    DepthReply: _depth,
    DlqReply: _dlq,
    FetchReply: _fetch,
    FireReply: _fire,
    TakeBackReply: _take_back,
    RingDeclared: render_ephemeral.declared,
    PositionsReply: render_positions.positions,
}

_SHAPED: Final[dict[type, Callable[..., Answer]]] = {
    **KV_RENDERERS,
    **INSPECTION_RENDERERS,
    **STREAM_RENDERERS,
}
