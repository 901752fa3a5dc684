"""A hash of the whole state: replicas that applied the same log must agree on it.

What is only an index (the heap of due instants, touched queues) is left out. Cost: the state.
"""

from __future__ import annotations

import hashlib

import msgspec

from .cursors import Group
from .evicted import whole_letter
from .partition import Partition
from .queue import Queue
from .rows import MessageStore
from .state import State


def digest(state: State) -> str:
    """SHA-256 in hex over a canonical encoding."""
    encoder = msgspec.msgpack.Encoder()
    sha = hashlib.sha256()
    sha.update(encoder.encode([state.now_us, *state.made]))
    for queue in state.queues.values():
        _add_queue(sha, encoder, queue, state.messages)
    sha.update(encoder.encode(state.claims.summary()))
    sha.update(encoder.encode(state.timers.rows()))
    sha.update(encoder.encode([state.kv.version, state.kv.rows(), list(state.traces)]))
    sha.update(encoder.encode(state.streams.summary()))
    sha.update(encoder.encode([state.rings[name] for name in sorted(state.rings)]))
    sha.update(encoder.encode(state.notes.items()))
    sha.update(encoder.encode([[*key, reply] for key, reply in state.outcomes.items()]))
    sha.update(encoder.encode(state.retention.completed_bytes))
    return sha.hexdigest()


def _add_queue(
    sha: hashlib._Hash,
    encoder: msgspec.msgpack.Encoder,
    queue: Queue,
    store: MessageStore | None,
) -> None:
    letters = [whole_letter(letter, store) for letter in queue.dead.values()]
    labels = [
        queue.number,
        queue.name,
        queue.queue_id,
        queue.created_us,
        queue.namespace,
        queue.task,
    ]
    sha.update(encoder.encode([labels, queue.options.values, letters]))
    for partition in queue.partitions.values():
        sha.update(encoder.encode(_partition(partition)))
        for run, first, end in partition.runs(partition.log_start, partition.end):
            sha.update(encoder.encode(run.messages(partition.number, first, end, store)))
    for group in queue.groups.values():
        sha.update(encoder.encode(_group(group)))


def _partition(partition: Partition) -> list[object]:
    return [
        partition.number,
        partition.name,
        partition.log_start,
        partition.end,
        partition.last_write_us,
        partition.completed,
        [
            [run.first, run.created_us, run.names, run.size, run.mark, run.request]
            for run in partition.remembered()
        ],
    ]


def _group(group: Group) -> list[object]:
    cursors = [
        [cursor.number, number, cursor.position, cursor.is_contacted]
        for number, cursor in group.cursors.items()
    ]
    return [
        group.number,
        group.name,
        group.is_registered,
        group.since_us,
        group.conflates,
        cursors,
        [cursor.number for cursor in group.ready],
    ]
