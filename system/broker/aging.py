"""Retention by time: which messages leave the log because of their age, and how they leave.

A queue has up to three rules, each a time; a message goes as soon as one of them says so:

| option | what goes |
|---|---|
| `retentionSeconds` (with `retentionEnabled`) | what is older, read or not; dead letters too |
| `completedRetentionSeconds` (with `retentionEnabled`) | what is older and behind every cursor |
| `maxWaitTimeSeconds` | what is older, read or not |

Ages are counted from the stamp of the push to the stamp of the entry that lets go. What a live
lease holds stays until the lease ends, and so does all that lies behind it in the partition.
Cursors that stood before what is gone move to its end. Transaction ids outlive their messages (see
`QueueOptions.memory_us`). A partition that is empty and that nobody has written to for
`IDLE_PARTITION_US` goes with its cursors.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from .aging_records import AgedOut, Retain, RetainReply
from .lease import passed_over
from .options import QueueOptions
from .partition import Partition
from .queue import Queue
from .state import State

IDLE_PARTITION_US: Final = 30 * 86_400 * 1_000_000


class Cut(NamedTuple):
    """Where a partition's log is to begin, and how much each rule takes by itself.

    The three counts tell which rule was the first to reach a message; they add up to
    `start - partition.log_start`.
    """

    start: int
    retained: int
    completed: int
    evicted: int


def cut(partition: Partition, options: QueueOptions, now_us: int) -> Cut:
    """Judge one partition. Cost: its cursors, and a search in its log for each rule."""
    start = partition.log_start
    held = _held_from(partition, now_us)
    retained_to = evicted_to = completed_to = start
    if options.retain_us:
        retained_to = min(partition.first_since(now_us - options.retain_us), held)
    if options.evict_us:
        evicted_to = min(partition.first_since(now_us - options.evict_us), held)
    if options.completed_us:
        old_to = partition.first_since(now_us - options.completed_us)
        completed_to = min(old_to, held, _passed_by_all(partition))
    return _cut(start, retained_to, completed_to, evicted_to)


def next_due_us(partition: Partition, options: QueueOptions, now_us: int) -> int | None:
    """Earliest instant at which anything of a partition can be due; None when nothing ever is.

    It is in the past for what only a cursor or a lease still holds back.
    """
    age_us = options.age_min_us
    dues: list[int] = []
    if age_us is not None:
        is_empty = partition.log_start == partition.end
        oldest_us = now_us if is_empty else partition.created_us(partition.log_start)
        dues.append(oldest_us + age_us + 1)
    departed_us = partition.oldest_departed_us
    if departed_us is not None:
        dues.append(departed_us + options.memory_us + 1)
    return min(dues, default=None)


def is_idle(partition: Partition, now_us: int) -> bool:
    """Whether a partition holds nothing any longer and may be forgotten."""
    return (
        partition.log_start == partition.end
        and partition.last_write_us + IDLE_PARTITION_US <= now_us
        and partition.is_forgotten
        and _held_from(partition, now_us) >= partition.end
    )


def old_dead_letters(queue: Queue, now_us: int, limit: int) -> list[str]:
    """Ids of up to `limit` dead letters that are too old, oldest first. Cost: those."""
    found: list[str] = []
    if not queue.options.retain_us:
        return found
    before_us = now_us - queue.options.retain_us
    for letter in queue.dead.values():
        if letter.failed_us >= before_us or len(found) == limit:
            break
        found.append(letter.dead_letter_id)
    return found


def retain(state: State, command: Retain) -> RetainReply:
    """Let go of what is due. Cost: the partitions named, their cursors, and what goes."""
    left = command.limit
    rows: dict[str, AgedOut] = {}
    idle: list[Partition] = []
    for partition_id in command.partitions:
        partition = state.partition_by_id(partition_id)
        if partition is None:
            continue
        queue = state.queues[partition.queue]
        row = rows.get(queue.name, AgedOut(queue.name))
        due = _at_most(cut(partition, queue.options, state.now_us), partition.log_start, left)
        left -= due.start - partition.log_start
        row = msgspec.structs.replace(
            row,
            retained=row.retained + due.retained,
            completed=row.completed + due.completed,
            evicted=row.evicted + due.evicted,
        )
        _let_go(state, queue, partition, due.start)
        if is_idle(partition, state.now_us):
            idle.append(partition)
            row = msgspec.structs.replace(row, partitions=row.partitions + 1)
        rows[queue.name] = row
    state.drop_partitions(idle)
    for name in command.queues:
        known = state.queues.get(name)
        if known is None:
            continue
        old = old_dead_letters(known, state.now_us, left)
        left -= len(old)
        for letter_id in old:
            state.drop_dead_letter(known, letter_id)
        row = rows.get(name, AgedOut(name))
        rows[name] = msgspec.structs.replace(row, dead=row.dead + len(old))
    return RetainReply(tuple([row for row in rows.values() if row != AgedOut(row.queue)]))


def _let_go(state: State, queue: Queue, partition: Partition, start: int) -> None:
    if start > partition.log_start:
        for cursor in partition.cursors:
            if cursor.position.committed < start - 1:
                state.move(cursor, passed_over(cursor.position, start - 1, state.now_us))
        state.trim(partition, start)
        state.touched.add(queue.name)
    state.forget(partition, state.now_us - queue.options.memory_us)


def _held_from(partition: Partition, now_us: int) -> int:
    """First offset that a live lease still needs; the end of the log when there is none."""
    held = partition.end
    for cursor in partition.cursors:
        lease = cursor.position.lease
        if lease is not None and lease.is_live(now_us):
            held = min(held, cursor.position.committed + 1)
    return held


def _passed_by_all(partition: Partition) -> int:
    """First offset that some group has not passed; the start of the log when nobody reads it."""
    committed = [cursor.position.committed for cursor in partition.cursors]
    return min(committed) + 1 if committed else partition.log_start


def _cut(start: int, retained_to: int, completed_to: int, evicted_to: int) -> Cut:
    """Count each message once: completed before retained, retained before evicted."""
    to = max(start, completed_to)
    completed = to - start
    retained = max(0, retained_to - to)
    evicted = max(0, evicted_to - to - retained)
    return Cut(to + retained + evicted, retained, completed, evicted)


def _at_most(due: Cut, start: int, limit: int) -> Cut:
    """The same cut, for at most so many messages."""
    if due.start - start <= limit:
        return due
    completed = min(due.completed, limit)
    retained = min(due.retained, limit - completed)
    return Cut(start + limit, retained, completed, limit - completed - retained)
