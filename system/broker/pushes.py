"""Push, and the firing of timers, which is a push that was asked for earlier."""

from __future__ import annotations

from .commands import FireTimers, Push, PushItem
from .message import Contents
from .mint import Mint
from .replies import FireReply, PushedItem, PushReply, PushStatus
from .state import State

Seen = dict[tuple[str, str, str], PushedItem]
"""(queue, partition, transaction id) to what this call has stored for it."""


def push(state: State, mint: Mint, command: Push) -> PushReply:
    """Store what is not a duplicate. Cost: the items times the groups of their partitions.

    Items that deduplication cannot recognize (no transaction id, or a queue whose window is off)
    make the whole call keep its first answer by request id.
    """
    first = state.outcomes.first("push", command.request_id)
    if isinstance(first, PushReply):
        return first
    seen: Seen = {}
    results = tuple([store(state, mint, item, seen, command.request_id) for item in command.items])
    reply = PushReply(results)
    if any(
        not item.transaction_id or not state.queues[item.queue].options.dedup_us
        for item in command.items
    ):
        state.outcomes.remember("push", command.request_id, reply, state.now_us)
    return reply


def store(state: State, mint: Mint, item: PushItem, seen: Seen, request_id: str = "") -> PushedItem:
    """Store one item unless it repeats a message of the dedup window or of its own call.

    A repeat of the request that stored the message is told what that one would have been told.
    """
    queue = state.queue_for(item.queue, mint)
    partition = state.partition_for(queue, item.partition)
    message_id = mint.new_id()
    name = item.transaction_id or message_id
    place = (item.queue, item.partition, name)
    again = seen.get(place)
    if again is not None:
        return PushedItem(again.message_id, name, item.queue, "duplicate", again.offset)
    known = state.duplicate_of(queue, partition, name)
    if known is not None:
        is_own = bool(request_id) and known.request_id == request_id
        status: PushStatus = "queued" if is_own else "duplicate"
        result = PushedItem(known.message_id, name, item.queue, status, known.offset)
    else:
        contents = Contents(name, item.payload, item.trace_id, item.producer_sub, request_id)
        message = state.append(queue, partition, message_id, contents)
        result = PushedItem(message_id, name, item.queue, "queued", message.offset)
    seen[place] = result
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
            state.append(queue, partition, row.message_id, contents)
    return FireReply(len(rows))
