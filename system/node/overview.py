"""A bounded look at one node's copy of the queues, for people."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Final

from ..broker.machine import Machine
from ..broker.queue import Queue

QUEUES_MAX: Final = 50
PARTITIONS_MAX: Final = 2000
DEAD_LETTERS_MAX: Final = 20


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One consumer group of a queue, over the partitions that were looked at.

    Attributes:
        pending: Messages beyond the cursors.
        leases: Live ones.
    """

    name: str
    pending: int
    leases: int


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One queue.

    Attributes:
        partitions: All of them.
        messages: Retained in the partitions that were looked at.
        is_cut: Whether there are more partitions than were looked at.
    """

    name: str
    partitions: int
    messages: int
    dead: int
    is_cut: bool
    groups: tuple[GroupRow, ...]


@dataclass(frozen=True, slots=True)
class DeadRow:
    """One dead letter."""

    queue: str
    partition: str
    transaction_id: str
    error: str


@dataclass(frozen=True, slots=True)
class Overview:
    """What `look` found; `queues_total` counts those beyond the bound too."""

    queues_total: int
    queues: tuple[QueueRow, ...]
    dead: tuple[DeadRow, ...]


def look(machine: Machine, now_us: int) -> Overview:
    """Look at up to `QUEUES_MAX` queues and `PARTITIONS_MAX` partitions in all.

    Cost: bounded by these, whatever the number of queues.
    """
    state = machine._state  # Only read, between two applies, like `Machine.read`.
    budget = PARTITIONS_MAX
    rows: list[QueueRow] = []
    dead: list[DeadRow] = []
    for queue in islice(state.queues.values(), QUEUES_MAX):
        rows.append(_row(queue, now_us, budget))
        budget = max(0, budget - len(queue.partitions))
        newest = islice(reversed(queue.dead.values()), DEAD_LETTERS_MAX - len(dead))
        dead += [
            DeadRow(letter.queue, letter.partition, letter.message.transaction_id, letter.error)
            for letter in newest
        ]
    return Overview(len(state.queues), tuple(rows), tuple(dead))


def _row(queue: Queue, now_us: int, partitions_max: int) -> QueueRow:
    seen = list(islice(queue.partitions.values(), partitions_max))
    groups = []
    for group in queue.groups.values():
        pending = leases = 0
        for partition in seen:
            cursor = group.cursors.get(partition.number)
            if cursor is None:
                pending += partition.end - partition.log_start
                continue
            position = cursor.position
            pending += max(0, partition.end - max(position.committed + 1, partition.log_start))
            leases += position.lease is not None and position.lease.is_live(now_us)
        groups.append(GroupRow(group.name, pending, leases))
    return QueueRow(
        queue.name,
        len(queue.partitions),
        sum(partition.end - partition.log_start for partition in seen),
        len(queue.dead),
        len(seen) < len(queue.partitions),
        tuple(groups),
    )
