"""A look at all queues in small steps, so that a million partitions never hold up anything else.

Between two steps entries may be applied: each figure is true of a moment during the survey, and the
sum of them of none. Good enough for people and charts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final

import msgspec

from .cursors import first_wanted
from .partition import Partition
from .queue import Queue
from .state import State

STEP: Final = 500
"""Partitions looked at in one step."""

HOUR_US: Final = 3600 * 1_000_000


class QueueFigures(msgspec.Struct):
    """One queue.

    Attributes:
        total: Messages held.
        pending: Not behind the slowest group's cursors.
        processing: Of these, under a live lease.
        leases: Live ones.
        dead: Dead letters.
        groups: That have a place in the queue.
        live_1h: Partitions written to within an hour; `live_24h` and `live_7d` likewise.
        lag_max: The most that one cursor has before it.
        lag_us: The highest age of a message that some cursor waits before.
    """

    name: str
    queue_id: str
    namespace: str
    task: str
    created_us: int
    partitions: int = 0
    total: int = 0
    pending: int = 0
    processing: int = 0
    leases: int = 0
    dead: int = 0
    groups: int = 0
    live_1h: int = 0
    live_24h: int = 0
    live_7d: int = 0
    oldest_write_us: int | None = None
    newest_write_us: int | None = None
    lag_max: int = 0
    lag_us: int = 0


Survey = Generator[None, None, list[QueueFigures]]


def survey(state: State, matches: Callable[[Queue], bool], now_us: int) -> Survey:
    """Add up the queues that match; yields after each step and returns the figures."""
    found: list[QueueFigures] = []
    steps = 0
    for name in list(state.queues):
        queue = state.queues.get(name)
        if queue is None or not matches(queue):
            continue
        figures = QueueFigures(
            queue.name, queue.queue_id, queue.namespace, queue.task, queue.created_us
        )
        figures.dead, figures.groups = len(queue.dead), len(queue.groups)
        found.append(figures)
        for partition_name in list(queue.partitions):
            partition = queue.partitions.get(partition_name)
            if partition is not None:
                _add(figures, partition, now_us)
            steps += 1
            if steps % STEP == 0:
                yield
    return found


def _add(figures: QueueFigures, partition: Partition, now_us: int) -> None:
    figures.partitions += 1
    held = partition.end - partition.log_start
    figures.total += held
    pending = 0 if partition.cursors else held
    processing = 0
    for cursor in partition.cursors:
        first = first_wanted(cursor)
        waiting = max(0, partition.end - first)
        pending = max(pending, waiting)
        lease = cursor.position.lease
        if lease is not None and lease.is_live(now_us):
            figures.leases += 1
            processing = max(processing, min(waiting, lease.last - first + 1))
        if waiting:
            figures.lag_us = max(figures.lag_us, now_us - partition.created_us(first))
    figures.pending += pending
    figures.processing += max(0, processing)
    figures.lag_max = max(figures.lag_max, pending)
    written_us = partition.last_write_us
    if written_us:
        figures.live_1h += written_us > now_us - HOUR_US
        figures.live_24h += written_us > now_us - 24 * HOUR_US
        figures.live_7d += written_us > now_us - 7 * 24 * HOUR_US
        oldest, newest = figures.oldest_write_us, figures.newest_write_us
        figures.oldest_write_us = written_us if oldest is None else min(oldest, written_us)
        figures.newest_write_us = written_us if newest is None else max(newest, written_us)
