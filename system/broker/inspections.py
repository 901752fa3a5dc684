"""What operators ask: queues, groups, messages, traces, and which partitions have changed."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from itertools import islice
from typing import Final

from .cursors import Cursor, Group, first_wanted
from .evicted import whole_letter
from .inspection_replies import (
    ChangedEntry,
    ChangedPartition,
    ChangedReply,
    Consumption,
    GroupsReply,
    GroupView,
    MessageReply,
    MessagesReply,
    MessageView,
    PartitionsReply,
    PartitionView,
    QueuesReply,
    QueueView,
    TraceNamesReply,
    TracesReply,
)
from .message import Message
from .partition import Partition
from .queries import (
    Changed,
    ChangedQuery,
    GroupList,
    MessageGet,
    MessageList,
    PartitionList,
    QueueList,
    TraceList,
)
from .queue import Queue
from .state import State

Place = tuple[Queue, Partition, int]

STATUSES: Final = ("pending", "processing", "completed", "dead_letter")


def list_queues(state: State, query: QueueList, now_us: int) -> QueuesReply:
    """Queues and their counts. Cost: their cursors."""
    if query.queue is not None:
        queue = state.queues.get(query.queue)
        queues = [] if queue is None else [queue]
    else:
        queues = [
            queue
            for queue in state.queues.values()
            if query.namespace in (None, queue.namespace) and query.task in (None, queue.task)
        ]
    return QueuesReply(tuple([_queue_view(queue, now_us) for queue in queues]))


def list_partitions(state: State, query: PartitionList, now_us: int) -> PartitionsReply:
    """A page of partitions in order of creation, queue by queue. Cost: the page and the queues."""
    if query.queue is not None:
        queue = state.queues.get(query.queue)
        queues = [] if queue is None else [queue]
    else:
        queues = list(state.queues.values())
    total = sum(len(queue.partitions) for queue in queues)
    skip, page = query.offset, list[tuple[str, PartitionView]]()
    for queue in queues:
        if skip >= len(queue.partitions):
            skip -= len(queue.partitions)
            continue
        rest = islice(queue.partitions.values(), skip, skip + query.limit - len(page))
        page += [(queue.name, _partition_view(partition, now_us)) for partition in rest]
        skip = 0
        if len(page) == query.limit:
            break
    return PartitionsReply(tuple(page), total, query.limit, query.offset)


def list_groups(state: State, query: GroupList, now_us: int) -> GroupsReply:
    """Groups by queue. Cost: the cursors."""
    views = [
        _group_view(group, now_us)
        for queue in state.queues.values()
        for group in queue.groups.values()
        if query.group in (None, group.name)
    ]
    return GroupsReply(tuple([view for view in views if view.lag_s >= query.lag_s_min]))


def get_message(state: State, query: MessageGet, now_us: int) -> MessageReply:
    """A message by its address; a dead letter's copy when the log has let go of it."""
    partition = state.partition_by_id(query.partition_id)
    if partition is None:
        return MessageReply(None)
    queue = state.queues[partition.queue]
    offset = partition.resolve(query.transaction_id, -1, partition.end - 1)
    if offset is not None and offset >= partition.log_start:
        message = partition.message(offset, state.messages)
        return MessageReply(_message_view(queue, partition, message, now_us))
    for letter in reversed(queue.dead.values()):
        if (
            letter.partition_id == query.partition_id
            and letter.message.transaction_id == query.transaction_id
        ):
            message = whole_letter(letter, state.messages).message
            return MessageReply(_message_view(queue, partition, message, now_us))
    return MessageReply(None)


def list_messages(state: State, query: MessageList, now_us: int) -> MessagesReply:
    """A page of retained messages, newest first.

    Cost: the messages up to the end of the page, with a status also those that do not match.
    """
    runs = [
        _newest_first(queue, partition, query)
        for queue in state.queues.values()
        for partition in queue.partitions.values()
        if query.queue in (None, queue.name) and query.partition in (None, partition.name)
    ]
    found = merge(*runs, key=_age, reverse=True)
    if query.status is None:
        places = islice(found, query.offset, query.offset + query.limit)
        views = tuple([_view_at(state, place, now_us) for place in places])
        return MessagesReply(views, query.limit, query.offset)
    all_views = (_view_at(state, place, now_us) for place in found)
    matching = (view for view in all_views if view.status == query.status)
    page = islice(matching, query.offset, query.offset + query.limit)
    return MessagesReply(tuple(page), query.limit, query.offset)


def list_traces(state: State, query: TraceList) -> TracesReply | TraceNamesReply:
    """Traces of a message or under a name, or all names. Cost: the traces kept."""
    if query.transaction_id is not None:
        address = (query.partition_id, query.transaction_id)
        rows = [row for row in state.traces if (row.partition_id, row.transaction_id) == address]
        return TracesReply(tuple(rows))
    if query.name is not None:
        return TracesReply(tuple([row for row in state.traces if query.name in row.names]))
    counts: dict[str, int] = {}
    for row in state.traces:
        for name in row.names:
            counts[name] = counts.get(name, 0) + 1
    return TraceNamesReply(tuple(sorted(counts.items())))


def changed(state: State, query: Changed) -> ChangedReply:
    """Partitions written to since an instant. Cost: the queues' partitions."""
    return ChangedReply(state.now_us, tuple([_changed(state, entry) for entry in query.entries]))


def _changed(state: State, entry: ChangedQuery) -> ChangedEntry:
    queue = state.queues.get(entry.queue)
    if queue is None:
        return ChangedEntry(entry.queue, None)
    page: list[ChangedPartition] = []
    for partition in queue.partitions.values():
        if partition.number <= entry.after or not partition.end:
            continue
        if partition.last_write_us < entry.since_us:
            continue
        page.append(
            ChangedPartition(
                partition.name,
                partition.partition_id,
                partition.end - 1,
                partition.log_start,
                partition.last_write_us,
            )
        )
        if len(page) == entry.limit:
            return ChangedEntry(entry.queue, tuple(page), partition.partition_id)
    return ChangedEntry(entry.queue, tuple(page))


def _newest_first(queue: Queue, partition: Partition, query: MessageList) -> Iterator[Place]:
    first = partition.first_since(query.from_us)
    last = partition.first_since(query.to_us + 1) - 1
    for offset in range(last, first - 1, -1):
        yield queue, partition, offset


def _age(place: Place) -> tuple[int, str]:
    _, partition, offset = place
    run = partition.run_at(offset)
    return run.created_us, run.id_at(offset)


def _view_at(state: State, place: Place, now_us: int) -> MessageView:
    queue, partition, offset = place
    return _message_view(queue, partition, partition.message(offset, state.messages), now_us)


def _message_view(queue: Queue, partition: Partition, message: Message, now_us: int) -> MessageView:
    contacted = [cursor for cursor in partition.cursors if cursor.is_contacted]
    groups = tuple([_consumption(cursor, message.offset, now_us) for cursor in contacted])
    letters = [
        letter
        for letter in queue.dead.values()
        if letter.partition_id == partition.partition_id and letter.message.offset == message.offset
    ]
    if letters:
        status, error, retries = STATUSES[3], letters[-1].error, letters[-1].retry_count
    else:
        at = [c.position.retry_count for c in contacted if first_wanted(c) == message.offset]
        error, retries = "", max(at, default=0)
        status = STATUSES[0]
        if groups and all(group.consumed for group in groups):
            status = STATUSES[2]
        elif any(group.lease_expires_us is not None for group in groups):
            status = STATUSES[1]
    return MessageView(
        message,
        partition.partition_id,
        partition.name,
        queue.name,
        queue.namespace,
        queue.task,
        status,
        groups,
        error,
        retries,
    )


def _consumption(cursor: Cursor, offset: int, now_us: int) -> Consumption:
    lease = cursor.position.lease
    consumed = offset <= cursor.position.committed
    is_leased = lease is not None and lease.is_live(now_us) and offset <= lease.last
    expires_us = lease.expires_us if lease is not None and is_leased and not consumed else None
    return Consumption(cursor.group.name, consumed, expires_us)


def _queue_view(queue: Queue, now_us: int) -> QueueView:
    partitions = tuple(
        [_partition_view(partition, now_us) for partition in queue.partitions.values()]
    )
    return QueueView(
        queue.queue_id,
        queue.name,
        queue.namespace,
        queue.task,
        queue.created_us,
        queue.options.values,
        partitions,
        len(queue.dead),
    )


def _partition_view(partition: Partition, now_us: int) -> PartitionView:
    start = partition.log_start
    oldest_us = partition.created_us(start) if start < partition.end else None
    pending = [partition.end - first_wanted(cursor) for cursor in partition.cursors]
    leased = [_leased(cursor, now_us) for cursor in partition.cursors]
    return PartitionView(
        partition.name,
        partition.partition_id,
        partition.log_start,
        partition.end,
        max(pending, default=partition.end - partition.log_start),
        max(leased, default=0),
        oldest_us,
        partition.last_write_us or None,
    )


def _leased(cursor: Cursor, now_us: int) -> int:
    lease = cursor.position.lease
    if lease is None or not lease.is_live(now_us):
        return 0
    return max(0, lease.last - first_wanted(cursor) + 1)


def _group_view(group: Group, now_us: int) -> GroupView:
    lagging, lag, oldest_us = 0, 0, now_us
    for cursor in group.cursors.values():
        first = first_wanted(cursor)
        pending = cursor.partition.end - first
        if pending > 0:
            lagging += 1
            lag += pending
            oldest_us = min(oldest_us, cursor.partition.created_us(first))
    return GroupView(
        group.name,
        group.queue.name,
        group.is_registered,
        group.since_us,
        len(group.cursors),
        lagging,
        lag,
        (now_us - oldest_us) // 1_000_000,
        sum(_leased(cursor, now_us) for cursor in group.cursors.values()),
        group.conflates is True,
    )
