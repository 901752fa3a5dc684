"""What operators asked and did: replies to HTTP answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import UNSET, Raw

from ..broker import inspection_replies as replies
from . import inspection_bodies as bodies
from .answer import Answer, error_answer, json_answer
from .timestamps import rfc3339


def _trace_added(reply: replies.TraceAdded, _: str) -> Answer:
    return json_answer({"success": True, "traceId": reply.trace_id}, 201)


def _traces(reply: replies.TracesReply, _: str) -> Answer:
    rows = [
        bodies.TraceBody(
            row.trace_id,
            row.transaction_id,
            row.partition_id,
            row.group,
            list(row.names),
            row.event,
            Raw(row.data),
            rfc3339(row.created_us),
        )
        for row in reply.rows
    ]
    return json_answer({"traces": rows, "total": len(rows)})


def _trace_names(reply: replies.TraceNamesReply, _: str) -> Answer:
    names = [{"traceName": name, "count": count} for name, count in reply.names]
    return json_answer({"traceNames": names, "total": len(names)})


def _group_deleted(reply: replies.GroupDeleted, _: str) -> Answer:
    queue = UNSET if reply.queue is None else reply.queue
    return json_answer(
        bodies.GroupDeletedBody(True, reply.group, reply.cursors, reply.metadata, queue)
    )


def _group_sought(reply: replies.GroupSought, _: str) -> Answer:
    if reply.moved is None:
        return error_answer(404, "not_found", "Queue has no such partitions")
    since_us = reply.since_us
    body = bodies.GroupSoughtBody(
        True,
        reply.group,
        reply.queue,
        since_us is None,
        None if since_us is None else rfc3339(since_us),
        reply.moved,
    )
    if reply.partition is not None:
        body.partition, body.updated = reply.partition, True
    return json_answer(body)


def _resubscribed(reply: replies.GroupResubscribed, _: str) -> Answer:
    return json_answer(
        bodies.ResubscribedBody(True, reply.group, rfc3339(reply.since_us), reply.registrations)
    )


def _groups(reply: replies.GroupsReply, shape: str) -> Answer:
    if shape == "lagging":
        return json_answer([_lagging(view) for view in reply.groups])
    if shape == "list":
        return json_answer([_group(view) for view in reply.groups])
    if not reply.groups:
        return error_answer(404, "not_found", "Consumer group not found")
    return json_answer({view.queue: _group(view) for view in reply.groups})


def _group(view: replies.GroupView) -> bodies.GroupBody:
    since_us = view.since_us if view.is_registered else None
    mode = None
    if since_us is not None:
        mode = "new" if since_us else "all"
    return bodies.GroupBody(
        view.group,
        [view.queue],
        view.queue,
        0,
        view.cursors,
        view.lagging_cursors,
        view.lag,
        view.lag_s,
        "Lagging" if view.lag else "Stable",
        mode,
        rfc3339(since_us) if since_us else None,
        view.conflates,
    )


def _lagging(view: replies.GroupView) -> bodies.LaggingBody:
    return bodies.LaggingBody(view.group, view.queue, view.lagging_cursors, view.lag, view.lag_s)


def _replayed(reply: replies.DeadLetterReplayed, shape: str) -> Answer:
    if not reply.dead_letter_id:
        gone = {"success": False, "result": "gone", "error": f"no dead letter {shape}"}
        return json_answer({**gone, "code": "not_found"}, 404)
    status = "duplicate" if reply.is_duplicate else "queued"
    pushed = bodies.ReplayedAsBody(
        0, reply.message_id, reply.transaction_id, reply.queue, status, reply.offset
    )
    body = bodies.ReplayedBody(
        True,
        "duplicate" if reply.is_duplicate else "moved",
        reply.queue,
        reply.partition,
        reply.group,
        reply.dead_letter_id,
        reply.original_transaction_id,
        pushed,
        True,
    )
    return json_answer(body)


def _purged(reply: replies.DeadLettersPurged, _: str) -> Answer:
    return json_answer(bodies.PurgedBody(True, reply.deleted, reply.queue, reply.group))


def _message(view: replies.MessageView) -> bodies.MessageBody:
    message = view.message
    groups = [
        bodies.ConsumptionBody(
            group.group, group.group, group.consumed, _instant(group.lease_expires_us)
        )
        for group in view.groups
    ]
    leases = [group.lease_expires_us for group in view.groups if group.lease_expires_us]
    data = Raw(message.payload)
    return bodies.MessageBody(
        message.message_id,
        message.transaction_id,
        message.trace_id,
        message.producer_sub,
        data,
        data,
        rfc3339(message.created_us),
        view.partition_id,
        view.partition,
        view.queue,
        view.namespace,
        view.task,
        message.offset,
        view.status,
        view.error or None,
        view.retries,
        _instant(min(leases, default=None)),
        groups,
    )


def _message_get(reply: replies.MessageReply, _: str) -> Answer:
    if reply.view is None:
        return error_answer(404, "not_found", "Message not found")
    return json_answer(_message(reply.view))


def _messages(reply: replies.MessagesReply, _: str) -> Answer:
    page = [_message(view) for view in reply.views]
    return json_answer(bodies.MessagesBody(page, {"limit": reply.limit, "offset": reply.offset}))


def _queues(reply: replies.QueuesReply, _: str) -> Answer:
    if not reply.queues:
        return error_answer(404, "queue_not_found", "Queue not found")
    view = reply.queues[0]
    body = _queue(view)
    body.partitions = [_partition(partition) for partition in view.partitions]
    body.options = body.config = view.options
    return json_answer(body)


def _partitions(reply: replies.PartitionsReply, _: str) -> Answer:
    page = []
    for queue, view in reply.partitions:
        body = _partition(view)
        body.queue = queue
        page.append(body)
    pagination = {"limit": reply.limit, "offset": reply.offset}
    return json_answer({"partitions": page, "total": reply.total, "pagination": pagination})


def _queue(view: replies.QueueView) -> bodies.QueueBody:
    counts = bodies.CountsBody(
        sum(partition.end - partition.log_start for partition in view.partitions),
        sum(partition.pending for partition in view.partitions),
        sum(partition.processing for partition in view.partitions),
        view.dead,
    )
    return bodies.QueueBody(
        view.queue_id,
        view.name,
        view.name,
        view.namespace,
        view.task,
        rfc3339(view.created_us),
        len(view.partitions),
        counts,
        counts,
    )


def _partition(view: replies.PartitionView) -> bodies.PartitionBody:
    counts = bodies.CountsBody(view.end - view.log_start, view.pending, view.processing)
    return bodies.PartitionBody(
        view.partition_id,
        view.name,
        counts,
        counts,
        view.log_start,
        view.end,
        _instant(view.oldest_us),
        _instant(view.newest_us),
    )


def _changed(reply: replies.ChangedReply, _: str) -> Answer:
    entries = [_changed_entry(entry) for entry in reply.entries]
    return json_answer(bodies.ChangedBody(rfc3339(reply.safe_us), entries))


def _changed_entry(entry: replies.ChangedEntry) -> bodies.ChangedEntryBody:
    if entry.partitions is None:
        return bodies.ChangedEntryBody(entry.queue, [], None, "UNKNOWN_TOPIC_OR_PARTITION")
    page = [
        bodies.ChangedPartitionBody(
            partition.name,
            partition.partition_id,
            partition.last_offset,
            partition.log_start,
            rfc3339(partition.last_write_us),
        )
        for partition in entry.partitions
    ]
    return bodies.ChangedEntryBody(entry.queue, page, entry.after)


def _offsets(reply: replies.OffsetsReply, _: str) -> Answer:
    entries = [
        bodies.FoundOffsetBody(
            entry.queue,
            entry.partition,
            entry.offset,
            _instant(entry.created_us),
            entry.high_watermark,
            entry.log_start,
            entry.error or UNSET,
        )
        for entry in reply.entries
    ]
    return json_answer(bodies.OffsetsBody(entries))


def _instant(instant_us: int | None) -> str | None:
    return None if instant_us is None else rfc3339(instant_us)


INSPECTION_RENDERERS: Final[dict[type, Callable[..., Answer]]] = {
    replies.TraceAdded: _trace_added,
    replies.TracesReply: _traces,
    replies.TraceNamesReply: _trace_names,
    replies.GroupDeleted: _group_deleted,
    replies.GroupSought: _group_sought,
    replies.GroupResubscribed: _resubscribed,
    replies.GroupsReply: _groups,
    replies.DeadLetterReplayed: _replayed,
    replies.DeadLettersPurged: _purged,
    replies.MessageReply: _message_get,
    replies.MessagesReply: _messages,
    replies.QueuesReply: _queues,
    replies.ChangedReply: _changed,
    replies.OffsetsReply: _offsets,
    replies.PartitionsReply: _partitions,
}
