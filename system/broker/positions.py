"""Positions: where a group reads, set by hand inside a transaction, and read back.

A position is the next offset that a group reads in a partition. It is the group's cursor: a
consumer that pops goes on where a position was set, and a position read back tells what a consumer
has acked. Setting one voids the partition's lease, as a seek does; forgetting one makes the group's
next claim there a first contact. A position may carry a short note of its owner's.
"""

from __future__ import annotations

from .cursors import Cursor, Group
from .position_records import (
    GroupPositions,
    PositionResult,
    Positions,
    PositionsReply,
    SetPosition,
)
from .state import State


def missing_queue(state: State, positions: tuple[SetPosition, ...], made: set[str]) -> str | None:
    """The first queue named that neither exists nor is made by the same bundle."""
    for each in positions:
        if each.queue not in state.queues and each.queue not in made:
            return each.queue
    return None


def set_position(state: State, command: SetPosition) -> PositionResult:
    """Set or forget one. Cost: a group's first contact adds a cursor for each partition."""
    queue = state.queues[command.queue]
    if command.offset is None:
        _forget(state, command)
        return _result(command, None)
    group = queue.groups.get(command.group) or state.add_group(queue, command.group)
    if not group.is_registered:
        state.register(group, 0 if command.begins_at_oldest else state.now_us)
    partition = state.partition_for(queue, command.partition)
    cursor = group.cursors[partition.number]
    # Outside the log there is nothing to stand at: the nearest end of it is meant.
    offset = min(max(command.offset, partition.log_start), partition.end)
    cursor.is_contacted = True
    state.seek(cursor, offset - 1)
    state.notes.put((group.number, partition.number), command.note)
    return _result(command, offset)


def read_positions(state: State, query: Positions) -> PositionsReply:
    """Where a group reads. Cost: the places asked for, or all of the group's cursors."""
    entries: list[GroupPositions] = []
    if query.places is None:
        for queue in state.queues.values():
            group = queue.groups.get(query.group)
            cursors = group.cursors.values() if group is not None else ()
            entries += [_entry(state, cursor) for cursor in cursors if cursor.is_contacted]
        return PositionsReply(query.group, tuple(entries))
    for queue_name, partition_name in query.places:
        found = _cursor(state, queue_name, partition_name, query.group)
        if found is None or not found.is_contacted:
            entries.append(GroupPositions(queue_name, partition_name, None))
        else:
            entries.append(_entry(state, found))
    return PositionsReply(query.group, tuple(entries))


def _forget(state: State, command: SetPosition) -> None:
    cursor = _cursor(state, command.queue, command.partition, command.group)
    if cursor is None:
        return
    group, partition = cursor.group, cursor.partition
    state.drop_cursor(cursor)
    if group.is_registered:
        state.add_cursor(group, partition, group.since_us)
    state.touched.add(command.queue)


def _cursor(state: State, queue_name: str, partition_name: str, name: str) -> Cursor | None:
    queue = state.queues.get(queue_name)
    if queue is None:
        return None
    partition, group = queue.partitions.get(partition_name), queue.groups.get(name)
    if partition is None or group is None:
        return None
    return group.cursors.get(partition.number)


def _entry(state: State, cursor: Cursor) -> GroupPositions:
    group: Group = cursor.group
    partition = cursor.partition
    note = state.notes.get((group.number, partition.number))
    return GroupPositions(group.queue.name, partition.name, cursor.position.committed + 1, note)


def _result(command: SetPosition, offset: int | None) -> PositionResult:
    return PositionResult(command.queue, command.partition, command.group, offset)
