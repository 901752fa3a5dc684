"""Consumer groups by an operator's hand: deletion, seek, a new subscription instant."""

from __future__ import annotations

from .administrative import DeleteGroup, Resubscribe, SeekGroup
from .cursors import Cursor, Group
from .inspection_replies import GroupDeleted, GroupResubscribed, GroupSought
from .partition import Partition
from .queue import Queue
from .state import State


def delete_group(state: State, command: DeleteGroup) -> GroupDeleted:
    """Remove a group's cursors and, if told so, its registrations. Cost: the cursors."""
    first = state.outcomes.first("delete-group", command.request_id)
    if isinstance(first, GroupDeleted):
        return first
    cursors, metadata = 0, False
    for queue in _queues(state, command.queue):
        group = queue.groups.get(command.group)
        if group is None:
            continue
        cursors += len(group.cursors)
        for cursor in list(group.cursors.values()):
            state.drop_cursor(cursor)
        if command.forgets:
            metadata = metadata or group.is_registered
            state.drop_group(group)
        elif group.is_registered:
            state.register(group, group.since_us)
        state.touched.add(queue.name)
    reply = GroupDeleted(command.group, command.queue, cursors, metadata)
    state.outcomes.remember("delete-group", command.request_id, reply, state.now_us)
    return reply


def seek_group(state: State, command: SeekGroup) -> GroupSought:
    """Move cursors, making those that are missing. Cost: the partitions concerned."""
    first = state.outcomes.first("seek-group", command.request_id)
    if isinstance(first, GroupSought):
        return first
    queue = state.queues.get(command.queue)
    partitions = _partitions(queue, command.partition)
    moved: int | None = None
    if queue is not None and partitions:
        group = queue.groups.get(command.group)
        if group is None:
            group = state.add_group(queue, command.group)
        for partition in partitions:
            _seek(state, group, partition, command.since_us)
        moved = len(partitions)
    reply = GroupSought(command.group, command.queue, command.partition, command.since_us, moved)
    state.outcomes.remember("seek-group", command.request_id, reply, state.now_us)
    return reply


def resubscribe(state: State, command: Resubscribe) -> GroupResubscribed:
    """Change the instant from which untouched partitions are read. Cost: the group's cursors."""
    first = state.outcomes.first("resubscribe", command.request_id)
    if isinstance(first, GroupResubscribed):
        return first
    registrations = 0
    for queue in state.queues.values():
        group = queue.groups.get(command.group)
        if group is None or not group.is_registered:
            continue
        registrations += 1
        group.since_us = command.since_us
        state.changes.groups.change(group.number, group)
        for cursor in group.cursors.values():
            if not cursor.is_contacted:
                state.seek(cursor, cursor.partition.first_since(command.since_us) - 1)
    reply = GroupResubscribed(command.group, command.since_us, registrations)
    state.outcomes.remember("resubscribe", command.request_id, reply, state.now_us)
    return reply


def _queues(state: State, name: str | None) -> list[Queue]:
    if name is None:
        return list(state.queues.values())
    queue = state.queues.get(name)
    return [] if queue is None else [queue]


def _partitions(queue: Queue | None, name: str | None) -> list[Partition]:
    if queue is None:
        return []
    if name is None:
        return list(queue.partitions.values())
    partition = queue.partitions.get(name)
    return [] if partition is None else [partition]


def _seek(state: State, group: Group, partition: Partition, since_us: int | None) -> None:
    first = partition.end if since_us is None else partition.first_since(since_us)
    cursor: Cursor | None = group.cursors.get(partition.number)
    if cursor is None:
        cursor = state.add_cursor(group, partition, 0)
    # An operator has placed it: a later change of the subscription must leave it alone.
    cursor.is_contacted = True
    state.seek(cursor, first - 1)
