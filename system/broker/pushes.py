"""Push, and the firing of timers, which is a push that was asked for earlier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .commands import FireTimers, Push, PushItem
from .message import Contents, request_mark
from .mint import Mint
from .partition import Partition
from .queue import Queue
from .replies import FireReply, PushedItem, PushReply, PushStatus
from .state import State

Seen = dict[tuple[str, str, str], PushedItem]
"""(queue, partition, transaction id) to what this call has stored for it."""

RUN_MESSAGES_MAX: Final = 128
RUN_BYTES_MAX: Final = 256 << 10
"""A run's payloads are read together; it ends with the message that reaches either bound."""


def push(state: State, mint: Mint, command: Push) -> PushReply:
    """Store what is not a duplicate. Cost: the items, and the groups of their partitions.

    Items that deduplication cannot recognize (no transaction id, or a queue whose window is off)
    make the whole call keep its first answer by request id.
    """
    first = state.outcomes.first("push", command.request_id)
    if isinstance(first, PushReply):
        return first
    items, request = command.items, request_mark(command.request_id)
    places: dict[tuple[str, str], list[int]] = {}
    for place, item in enumerate(items):
        places.setdefault((item.queue, item.partition), []).append(place)
    needs_memory = False
    if len(places) == 1:
        results, needs_memory = _store_run(state, mint, items, request)
    else:
        results = [_UNANSWERED] * len(items)
        for own in places.values():
            answers, is_unsure = _store_run(state, mint, [items[place] for place in own], request)
            needs_memory = needs_memory or is_unsure
            for place, answer in zip(own, answers, strict=True):
                results[place] = answer
    reply = PushReply(tuple(results))
    if needs_memory:
        state.outcomes.remember("push", command.request_id, reply, state.now_us)
    return reply


def store(state: State, mint: Mint, item: PushItem, seen: Seen) -> PushedItem:
    """Store one item unless it repeats a message of the dedup window or of its own call."""
    again = seen.get((item.queue, item.partition, item.transaction_id))
    if again is not None:
        return _duplicate(again)
    ((result,), _) = _store_run(state, mint, (item,), 0)
    seen[item.queue, item.partition, result.transaction_id] = result
    return result


def fire_timers(state: State, mint: Mint, command: FireTimers) -> FireReply:
    """Push the messages of due timers and remove the timers, in one entry.

    The message has the id that was promised when the timer was scheduled.
    """
    rows = state.timers.take_due(state.now_us, command.limit)
    for row in rows:
        queue = state.queue_for(row.queue, mint)
        partition = state.partition_for(queue, row.partition)
        if state.duplicate_of(queue, partition, row.transaction_id) is None:
            contents = Contents(row.transaction_id, row.payload, None, row.producer_sub)
            state.append(partition, row.message_id, (contents,))
    return FireReply(len(rows))


def _store_run(
    state: State, mint: Mint, items: Sequence[PushItem], request: int
) -> tuple[list[PushedItem], bool]:
    """Store items of one partition; also returns whether deduplication cannot recognize all."""
    queue = state.queue_for(items[0].queue, mint)
    partition = state.partition_for(queue, items[0].partition)
    queue_name, deduplicates = queue.name, bool(queue.options.dedup_us)
    is_unsure = not deduplicates
    seen: dict[str, PushedItem] = {}
    results: list[PushedItem] = []
    fresh: list[Contents] = []
    mark, offset, size = mint.next_mark, partition.end, 0
    for item in items:
        name, payload = item.transaction_id, item.payload
        if not name:
            is_unsure = True
        elif name in seen:
            results.append(_duplicate(seen[name]))
            continue
        elif deduplicates:
            known = _known(state, queue, partition, name, request)
            if known is not None:
                seen[name] = known
                results.append(known)
                continue
        message_id = mint.new_id()
        name = name or message_id
        result = PushedItem(message_id, name, queue_name, "queued", offset)
        offset += 1
        seen[name] = result
        results.append(result)
        fresh.append(Contents(name, payload, item.trace_id, item.producer_sub))
        size += len(payload)
        if len(fresh) == RUN_MESSAGES_MAX or size >= RUN_BYTES_MAX:
            state.append(partition, mark, fresh, request)
            fresh, size, mark = [], 0, mint.next_mark
    if fresh:
        state.append(partition, mark, fresh, request)
    return results, is_unsure


def _known(
    state: State, queue: Queue, partition: Partition, name: str, request: int
) -> PushedItem | None:
    """What a message of the dedup window with this name makes of an item.

    A repeat of the request that stored it is told what that one would have been told.
    """
    known = state.duplicate_of(queue, partition, name)
    if known is None:
        return None
    run, offset = known
    is_own = bool(request) and run.request == request
    status: PushStatus = "queued" if is_own else "duplicate"
    return PushedItem(run.id_at(offset), name, queue.name, status, offset)


def _duplicate(first: PushedItem) -> PushedItem:
    return PushedItem(
        first.message_id, first.transaction_id, first.queue, "duplicate", first.offset
    )


_UNANSWERED: Final = PushedItem("", "", "", "duplicate", -1)
