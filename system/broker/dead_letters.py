"""Dead letters by an operator's hand: replay, deletion, purge."""

from __future__ import annotations

from .administrative import PurgeDeadLetters, ReplayDeadLetter
from .commands import DeleteDeadLetter, PushItem
from .evicted import whole_letter
from .inspection_replies import DeadLetterReplayed, DeadLettersPurged
from .mint import Mint
from .pushes import store
from .queue import Queue
from .replies import DeadLetter, DeleteDeadLetterReply
from .state import State


def replay_dead_letter(state: State, mint: Mint, command: ReplayDeadLetter) -> DeadLetterReplayed:
    """Push a copy under the transaction id `dlq:<id>` and remove the dead letter.

    Cost: the dead letters looked through.
    """
    first = state.outcomes.first("replay-dead-letter", command.request_id)
    if isinstance(first, DeadLetterReplayed):
        return first
    found = _find(state, command)
    if found is None:
        reply = DeadLetterReplayed("")
    else:
        queue, letter = found[0], whole_letter(found[1], state.messages)
        state.drop_dead_letter(queue, letter.dead_letter_id)
        message = letter.message
        item = PushItem(
            command.queue or letter.queue,
            command.partition or letter.partition,
            f"dlq:{letter.dead_letter_id}",
            message.payload,
            message.trace_id,
            message.producer_sub,
        )
        pushed = store(state, mint, item, {})
        reply = DeadLetterReplayed(
            letter.dead_letter_id,
            message.transaction_id,
            letter.group,
            item.queue,
            item.partition,
            item.transaction_id,
            pushed.message_id,
            pushed.offset,
            pushed.status == "duplicate",
        )
    state.outcomes.remember("replay-dead-letter", command.request_id, reply, state.now_us)
    return reply


def purge_dead_letters(state: State, command: PurgeDeadLetters) -> DeadLettersPurged:
    """Remove a queue's dead letters. Cost: those."""
    first = state.outcomes.first("purge-dead-letters", command.request_id)
    if isinstance(first, DeadLettersPurged):
        return first
    queue = state.queues.get(command.queue)
    matching: list[str] = []
    if queue is not None:
        matching = [
            letter_id
            for letter_id, letter in queue.dead.items()
            if command.group is None or letter.group == command.group
        ]
        for letter_id in matching:
            state.drop_dead_letter(queue, letter_id)
    reply = DeadLettersPurged(command.queue, command.group, len(matching))
    state.outcomes.remember("purge-dead-letters", command.request_id, reply, state.now_us)
    return reply


def delete_dead_letter(state: State, command: DeleteDeadLetter) -> DeleteDeadLetterReply:
    """Remove the dead letters of one message. Cost: the queue's dead letters."""
    kind, request_id = "delete-dead-letter", command.request_id
    first = state.outcomes.first(kind, request_id)
    if isinstance(first, DeleteDeadLetterReply):
        return first
    partition = state.partition_by_id(command.partition_id)
    matching: list[str] = []
    if partition is not None:
        queue = state.queues[partition.queue]
        matching = [
            letter_id
            for letter_id, letter in queue.dead.items()
            if letter.partition_id == command.partition_id
            and letter.message.transaction_id == command.transaction_id
        ]
        for letter_id in matching:
            state.drop_dead_letter(queue, letter_id)
    reply = DeleteDeadLetterReply(command.partition_id, command.transaction_id, len(matching))
    state.outcomes.remember(kind, request_id, reply, state.now_us)
    return reply


def _find(state: State, command: ReplayDeadLetter) -> tuple[Queue, DeadLetter] | None:
    if command.dead_letter_id:
        for queue in state.queues.values():
            letter = queue.dead.get(command.dead_letter_id)
            if letter is not None:
                return queue, letter
        return None
    partition = state.partition_by_id(command.partition_id)
    if partition is None:
        return None
    queue = state.queues[partition.queue]
    for letter in reversed(queue.dead.values()):
        if (
            letter.partition_id == command.partition_id
            and letter.message.transaction_id == command.transaction_id
        ):
            return queue, letter
    return None
