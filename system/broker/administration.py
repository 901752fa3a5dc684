"""Configure and queue deletion; declarations of ephemeral queues."""

from __future__ import annotations

from .commands import Configure, DeleteQueue
from .ephemeral_options import DeclareRing, RemoveRing, RingDeclared, RingRemoved
from .mint import Mint
from .options import configured_options
from .queue import Queue
from .replies import ConfigureReply, DeleteQueueReply
from .state import State


def configure(state: State, mint: Mint, command: Configure) -> ConfigureReply:
    """Create a queue or change its options and labels. Cost: the queue's cursors."""
    first = state.outcomes.first("configure", command.request_id)
    if isinstance(first, ConfigureReply):
        return first
    queue = state.queues.get(command.queue)
    current = queue.options if queue is not None else None
    options = configured_options(current, command.options, command.replace)
    if queue is None:
        queue = state.add_queue(command.queue, mint, options)
    queue.options = options
    if command.namespace is not None:
        queue.namespace = command.namespace
    if command.task is not None:
        queue.task = command.task
    state.changes.queues.change(queue.number, queue)
    _refresh(state, queue)
    reply = ConfigureReply(
        queue.name, queue.queue_id, queue.namespace, queue.task, dict(options.values)
    )
    state.outcomes.remember("configure", command.request_id, reply, state.now_us)
    return reply


def delete_queue(state: State, command: DeleteQueue) -> DeleteQueueReply:
    """Remove a queue and all that it holds; its timers stay and may create it again."""
    first = state.outcomes.first("delete-queue", command.request_id)
    if isinstance(first, DeleteQueueReply):
        return first
    queue = state.queues.get(command.queue)
    if queue is not None:
        state.drop_queue(queue)
    reply = DeleteQueueReply(command.queue, queue is not None)
    state.outcomes.remember("delete-queue", command.request_id, reply, state.now_us)
    return reply


def declare_ring(state: State, command: DeclareRing) -> RingDeclared:
    """Declare an ephemeral queue, or declare it anew."""
    if command.queue in state.rings:
        state.rings_changed.change(command.queue, command)
    else:
        state.rings_changed.add(command.queue, command)
    state.rings[command.queue] = command
    return RingDeclared(command.queue, command.given)


def remove_ring(state: State, command: RemoveRing) -> RingRemoved:
    """Forget a declaration."""
    first = state.outcomes.first("remove-ring", command.request_id)
    if isinstance(first, RingRemoved):
        return first
    was_declared = state.rings.pop(command.queue, None) is not None
    if was_declared:
        state.rings_changed.drop(command.queue)
    reply = RingRemoved(command.queue, was_declared)
    state.outcomes.remember("remove-ring", command.request_id, reply, state.now_us)
    return reply


def _refresh(state: State, queue: Queue) -> None:
    for group in queue.groups.values():
        for cursor in group.cursors.values():
            if state.readiness.refresh(cursor, state.now_us):
                state.touched.add(queue.name)
