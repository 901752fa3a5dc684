"""Push, and the firing of timers, which is a push that was asked for earlier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .commands import FireTimers, Push, PushItem
from .message import Body, Run, body_of, request_mark
from .mint import MARK_STEP, Mint
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
    needs_memory = False
    if len(items) == 1:
        result, needs_memory = _store_one(state, mint, items[0], request)
        reply = PushReply((result,))
    else:
        places: dict[tuple[str, str], list[int]] = {}
        for place, item in enumerate(items):
            places.setdefault((item.queue, item.partition), []).append(place)
        results = [_UNANSWERED] * len(items)
        for own in places.values():
            if len(own) == 1:
                (place,) = own
                results[place], is_unsure = _store_one(state, mint, items[place], request)
                needs_memory = needs_memory or is_unsure
                continue
            mine = items if len(own) == len(items) else [items[place] for place in own]
            answers, is_unsure = _store_run(state, mint, mine, request)
            needs_memory = needs_memory or is_unsure
            if mine is items:
                results = answers
                break
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
    result, _ = _store_one(state, mint, item, 0)
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
            producers = () if row.producer_sub is None else (row.producer_sub,)
            body = Body((row.payload,), (), producers)
            size = len(row.payload)
            run = Run(
                partition.end, state.now_us, row.transaction_id, size, row.message_id, 0, body
            )
            state.append(partition, run)
    return FireReply(len(rows))


def _store_one(state: State, mint: Mint, item: PushItem, request: int) -> tuple[PushedItem, bool]:
    """Store one item; also returns whether deduplication cannot recognize it."""
    queue = state.queue_for(item.queue, mint)
    partition = state.partition_for(queue, item.partition)
    name, payload = item.transaction_id, item.payload
    deduplicates = bool(name and queue.options.dedup_us)
    if deduplicates:
        known = _known(state, queue, partition, name, request)
        if known is not None:
            return known, False
    mark, offset = mint.next_mark, partition.end
    message_id = mint.new_id()
    name = name or message_id
    traces = () if item.trace_id is None else (item.trace_id,)
    producers = () if item.producer_sub is None else (item.producer_sub,)
    body = Body((payload,), traces, producers)
    state.append(
        partition,
        Run(offset, state.now_us, name, len(payload), mark, request, body, (message_id,)),
    )
    return PushedItem(message_id, name, queue.name, "queued", offset), not deduplicates


def _store_run(
    state: State, mint: Mint, items: Sequence[PushItem], request: int
) -> tuple[list[PushedItem], bool]:
    """Store items of one partition; also returns whether deduplication cannot recognize all."""
    queue = state.queue_for(items[0].queue, mint)
    partition = state.partition_for(queue, items[0].partition)
    queue_name, deduplicates = queue.name, bool(queue.options.dedup_us)
    if deduplicates:
        names = [item.transaction_id for item in items]
        distinct = set(names)
        if len(distinct) == len(names) and "" not in distinct and partition.knows_none_of(distinct):
            return _store_all(state, mint, queue, partition, items, request), False
    is_unsure = not deduplicates
    seen: dict[str, PushedItem] = {}
    results: list[PushedItem] = []
    fresh: list[PushItem] = []
    stored: list[PushedItem] = []
    mark, size, offset = mint.next_mark, 0, partition.end
    new_id, find = mint.new_id, partition.find
    for item in items:
        name = item.transaction_id
        if not name:
            is_unsure = True
        elif name in seen:
            results.append(_duplicate(seen[name]))
            continue
        elif deduplicates and find(name) is not None:
            known = _known(state, queue, partition, name, request)
            if known is not None:
                seen[name] = known
                results.append(known)
                continue
        message_id = new_id()
        result = PushedItem(message_id, name or message_id, queue_name, "queued", offset)
        offset += 1
        seen[result.transaction_id] = result
        results.append(result)
        fresh.append(item)
        stored.append(result)
        size += len(item.payload)
        if len(fresh) == RUN_MESSAGES_MAX or size >= RUN_BYTES_MAX:
            _append(state, partition, fresh, stored, mark, size, request)
            fresh, stored, size, mark = [], [], 0, mint.next_mark
    if fresh:
        _append(state, partition, fresh, stored, mark, size, request)
    return results, is_unsure


def _store_all(
    state: State,
    mint: Mint,
    queue: Queue,
    partition: Partition,
    items: Sequence[PushItem],
    request: int,
) -> list[PushedItem]:
    """Store items none of which can be a duplicate."""
    queue_name, first, mark = queue.name, partition.end, mint.next_mark
    stored = [
        PushedItem(message_id, item.transaction_id, queue_name, "queued", offset)
        for offset, (message_id, item) in enumerate(
            zip(mint.new_ids(len(items)), items, strict=True), start=first
        )
    ]
    start = size = 0
    for place, item in enumerate(items, start=1):
        size += len(item.payload)
        if place - start == RUN_MESSAGES_MAX or size >= RUN_BYTES_MAX or place == len(items):
            own = slice(start, place)
            _append(
                state, partition, items[own], stored[own], mark + start * MARK_STEP, size, request
            )
            start, size = place, 0
    return stored


def _append(
    state: State,
    partition: Partition,
    items: Sequence[PushItem],
    stored: Sequence[PushedItem],
    mark: int,
    size: int,
    request: int,
) -> None:
    names = tuple([each.transaction_id for each in stored])
    ids = tuple([each.message_id for each in stored])
    body = body_of(
        [item.payload for item in items],
        [item.trace_id for item in items],
        [item.producer_sub for item in items],
    )
    only = names[0] if len(names) == 1 else names
    run = Run(partition.end, state.now_us, only, size, mark, request, body, ids)
    state.append(partition, run)


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
