"""Queries answered from the state; nothing here changes it."""

from __future__ import annotations

from heapq import merge
from itertools import islice
from operator import attrgetter

from .cursors import Cursor, first_wanted
from .evicted import whole_letter
from .inspection_replies import FoundOffset, OffsetsReply
from .inspections import (
    changed,
    get_message,
    list_groups,
    list_messages,
    list_partitions,
    list_queues,
    list_traces,
)
from .kv import look
from .kv_replies import KvReply
from .message import Message
from .partition import Partition
from .position_records import Positions
from .positions import read_positions
from .queries import (
    Changed,
    Depth,
    DlqList,
    Fetch,
    FetchEntry,
    GroupList,
    KvRead,
    MessageGet,
    MessageList,
    OffsetEntry,
    Offsets,
    PartitionList,
    Query,
    QueueList,
    StreamStateGet,
    TimerCount,
    TimerGet,
    TimerList,
    TraceList,
)
from .replies import (
    DeadLetter,
    DepthReply,
    DlqReply,
    FetchedEntry,
    FetchReply,
    PartitionDepth,
    Reply,
    TimerCountReply,
    TimerListReply,
    TimerReply,
)
from .rows import MessageStore
from .state import State
from .streams import stream_state

Inspection = QueueList | PartitionList | GroupList | MessageGet | MessageList | TraceList | Changed

UNKNOWN_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"


def read(state: State, query: Query, now_us: int) -> Reply:
    """Answer one query as of `now_us`."""
    if isinstance(query, Depth):
        return _depth(state, query, now_us)
    if isinstance(query, Fetch):
        return _fetch(state, query)
    if isinstance(query, DlqList):
        return _dead_letters(state, query)
    if isinstance(query, Offsets):
        return OffsetsReply(tuple([_offset_since(state, entry) for entry in query.entries]))
    if isinstance(query, TimerGet):
        return TimerReply(query.queue, query.key, state.timers.get(query.queue, query.key))
    if isinstance(query, TimerList):
        rows, more = state.timers.page(query.queue, query.after, query.prefix, query.limit)
        return TimerListReply(tuple(rows), more)
    if isinstance(query, TimerCount):
        return TimerCountReply(state.timers.count(query.queue, query.prefix))
    if isinstance(query, KvRead):
        return KvReply(tuple([look(state.kv, item, now_us) for item in query.operations]))
    if isinstance(query, StreamStateGet):
        return stream_state(state, query)
    if isinstance(query, Positions):
        return read_positions(state, query)
    return _inspect(state, query, now_us)


def _inspect(state: State, query: Inspection, now_us: int) -> Reply:
    match query:
        case QueueList():
            return list_queues(state, query, now_us)
        case PartitionList():
            return list_partitions(state, query, now_us)
        case GroupList():
            return list_groups(state, query, now_us)
        case MessageGet():
            return get_message(state, query, now_us)
        case MessageList():
            return list_messages(state, query, now_us)
        case TraceList():
            return list_traces(state, query)
        case Changed():
            return changed(state, query)


def _depth(state: State, query: Depth, now_us: int) -> DepthReply:
    queue = state.queues.get(query.queue)
    if queue is None:
        return DepthReply(query.queue, query.group, None)
    partitions = queue.partitions.values()
    if query.group is None:
        counts = tuple([_slowest(partition, now_us) for partition in partitions])
        return DepthReply(query.queue, None, counts)
    group = queue.groups.get(query.group)
    cursors = group.cursors if group is not None else {}
    counts = tuple([_ahead(each, cursors.get(each.number), now_us) for each in partitions])
    conflates = group is not None and group.conflates is True
    return DepthReply(query.queue, query.group, counts, conflates)


def _slowest(partition: Partition, now_us: int) -> PartitionDepth:
    """The counts of the cursor that has the most before it."""
    counts = [_ahead(partition, cursor, now_us) for cursor in partition.cursors]
    return max(counts, key=attrgetter("pending"), default=_ahead(partition, None, now_us))


def _ahead(partition: Partition, cursor: Cursor | None, now_us: int) -> PartitionDepth:
    if cursor is None:
        retained = partition.end - partition.log_start
        return PartitionDepth(partition.name, retained, 0, retained)
    first = first_wanted(cursor)
    pending = max(0, partition.end - first)
    lease = cursor.position.lease
    processing = 0
    if lease is not None and lease.is_live(now_us):
        processing = min(pending, max(0, lease.last - first + 1))
    return PartitionDepth(partition.name, pending, processing, pending - processing)


def _fetch(state: State, query: Fetch) -> FetchReply:
    budget, found, failed = query.max_bytes, 0, False
    entries: list[FetchedEntry] = []
    for wanted in query.entries:
        entry, size = _fetch_entry(state, wanted, budget, is_first=not found)
        budget, found = budget - size, found + size
        failed = failed or bool(entry.error)
        entries.append(entry)
    has_records = any(entry.records for entry in entries)
    return FetchReply(tuple(entries), failed or (has_records and found >= query.min_bytes))


def _fetch_entry(
    state: State, wanted: FetchEntry, budget: int, is_first: bool
) -> tuple[FetchedEntry, int]:
    queue = state.queues.get(wanted.queue)
    if queue is None:
        error = FetchedEntry(wanted.queue, wanted.partition, (), 0, 0, UNKNOWN_PARTITION)
        return error, 0
    partition = queue.partitions.get(wanted.partition)
    if partition is None:
        return FetchedEntry(wanted.queue, wanted.partition, (), 0, 0), 0
    end, start = partition.end, partition.log_start
    if not start <= wanted.offset <= end:
        error = FetchedEntry(wanted.queue, wanted.partition, (), end, start, OUT_OF_RANGE)
        return error, 0
    bytes_max = min(wanted.max_bytes, budget)
    records, size = _within(partition, wanted.offset, bytes_max, is_first, state.messages)
    return FetchedEntry(wanted.queue, wanted.partition, tuple(records), end, start), size


def _offset_since(state: State, wanted: OffsetEntry) -> FoundOffset:
    queue = state.queues.get(wanted.queue)
    if queue is None:
        return FoundOffset(wanted.queue, wanted.partition, error=UNKNOWN_PARTITION)
    partition = queue.partitions.get(wanted.partition)
    if partition is None:
        return FoundOffset(wanted.queue, wanted.partition)
    end, start = partition.end, partition.log_start
    offset = partition.first_since(wanted.since_us)
    if offset == end:
        return FoundOffset(wanted.queue, wanted.partition, None, None, end, start)
    created_us = partition.created_us(offset)
    return FoundOffset(wanted.queue, wanted.partition, offset, created_us, end, start)


def _within(
    partition: Partition,
    offset: int,
    bytes_max: int,
    is_first: bool,
    store: MessageStore | None,
) -> tuple[list[Message], int]:
    """Messages from an offset on whose payloads fit; one that is too large goes alone."""
    records: list[Message] = []
    size = 0
    for run, first, end in partition.runs(offset, partition.end):
        for message in run.messages(partition.number, first, end, store):
            if size + len(message.payload) > bytes_max and (records or not is_first):
                return records, size
            records.append(message)
            size += len(message.payload)
    return records, size


def _dead_letters(state: State, query: DlqList) -> DlqReply:
    if query.queue is None:
        queues = list(state.queues.values())
    else:
        queues = [queue] if (queue := state.queues.get(query.queue)) is not None else []
    newest = [reversed(list(queue.dead.values())) for queue in queues]
    order = attrgetter("failed_us", "dead_letter_id")
    letters = (
        letter for letter in merge(*newest, key=order, reverse=True) if _matches(letter, query)
    )
    page = islice(letters, query.offset, query.offset + query.limit)
    whole = tuple([whole_letter(letter, state.messages) for letter in page])
    return DlqReply(whole, query.limit, query.offset)


def _matches(letter: DeadLetter, query: DlqList) -> bool:
    return (
        (query.group is None or letter.group == query.group)
        and (query.partition is None or letter.partition == query.partition)
        and (query.from_us is None or letter.failed_us >= query.from_us)
        and (query.to_us is None or letter.failed_us <= query.to_us)
    )
