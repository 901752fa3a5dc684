"""Changed objects as rows. Cost: what has changed, never the state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

import msgspec

from .changes import Dirty
from .claims import Claim
from .cursors import Cursor, Group
from .evicted import payload_key, slim_letter, slim_timer
from .inspection_replies import TraceRow
from .kv_replies import KvRow
from .message import Run
from .outcomes import Outcome
from .partition import Partition
from .queue import Queue
from .replies import DeadLetter, TimerRow
from .retention import Completion
from .row_shapes import (
    ClaimRow,
    CompletionRow,
    CountersRow,
    CursorRow,
    GroupRow,
    HeldRow,
    NoteRow,
    OutcomeRow,
    PartitionRow,
    QueueRow,
    RunRow,
    StreamRowRow,
)
from .rows import (
    CLAIMS,
    COMPLETIONS,
    COUNTERS,
    CURSORS,
    DEAD_LETTERS,
    GROUPS,
    KV,
    NOTES,
    OUTCOMES,
    PARTITIONS,
    PAYLOADS,
    QUEUES,
    RINGS,
    ROWS_VERSION,
    RUNS,
    STREAM_QUERIES,
    STREAM_ROWS,
    TIMERS,
    TRACES,
    Row,
    hashed,
    named,
    numbered,
    placed,
)
from .state import State
from .stream_replies import StreamRow
from .stream_table import StreamQuery

K = TypeVar("K")
V = TypeVar("V")

_ENCODE: Final = msgspec.msgpack.Encoder().encode


class Written(NamedTuple):
    """Whose payloads are among the rows taken."""

    runs: list[Run]
    timers: list[TimerRow]
    letters: list[DeadLetter]


def take_rows(state: State) -> tuple[list[Row], Written]:
    """Rows of what has changed since the last call, and whose payloads are among them."""
    rows: list[Row] = [(COUNTERS, _ENCODE(_counters(state)))]
    rows += _objects(state)
    runs = state.changes.runs.take()
    for (partition, first), run in runs.items():
        key = placed(RUNS, partition, first)
        rows.append((key, None if run is None else _ENCODE(_run(run))))
    rows += [(key, None) for key in state.changes.take_lost_payloads()]
    written = Written([], [], [])
    for (partition, first), run in runs.items():
        if run is not None and run.body is not None:
            rows.append((placed(PAYLOADS, partition, first), _ENCODE(run.body)))
            written.runs.append(run)
    rows += _payload_owners(state, written)
    rows += _tables(state)
    # What is put comes first: the store puts runs of rows at once.
    rows.sort(key=_is_deletion)
    return rows, written


def _is_deletion(row: Row) -> bool:
    return row[1] is None


def _objects(state: State) -> Iterator[Row]:
    changes, queues = state.changes, state.queues
    yield from _numbered(QUEUES, changes.queues, _queue)
    yield from _numbered(GROUPS, changes.groups, _group)
    yield from _numbered(
        PARTITIONS, changes.partitions, lambda each: _partition(each, queues[each.queue].number)
    )
    yield from _numbered(CURSORS, changes.cursors, _cursor)
    yield from _numbered(CLAIMS, changes.claims, _claim)


def _payload_owners(state: State, written: Written) -> Iterator[Row]:
    for names, timer in state.timers.changed.take().items():
        key = hashed(TIMERS, *names)
        if timer is None:
            yield key, None
            continue
        yield key, _ENCODE(slim_timer(timer))
        if timer.payload:
            yield payload_key(timer.message_id), timer.payload
            written.timers.append(timer)
    for letter_id, letter in state.changes.letters.take().items():
        key = named(DEAD_LETTERS, letter_id)
        if letter is None:
            yield key, None
            continue
        yield key, _ENCODE(slim_letter(letter))
        if letter.message.payload:
            yield payload_key(letter_id), letter.message.payload
            written.letters.append(letter)


def _tables(state: State) -> Iterator[Row]:
    yield from _numbered(COMPLETIONS, state.retention.changed, _completion)
    yield from _rows(state.kv.changed, _hashed(KV), _as_it_is)
    yield from _rows(state.traces_changed, _named(TRACES), _as_it_is)
    yield from _rows(state.streams.queries_changed, _named(STREAM_QUERIES), _as_it_is)
    for place, row in state.streams.rows_changed.take().items():
        value = None if row is None else _ENCODE(_stream_row(*place, row))
        yield hashed(STREAM_ROWS, *place), value
    yield from _numbered(OUTCOMES, state.outcomes.changed, _outcome)
    yield from _rows(state.notes.changed, lambda place: placed(NOTES, *place), NoteRow)
    for name, ring in state.rings_changed.take().items():
        yield hashed(RINGS, name), None if ring is None else _ENCODE(ring)


def _rows(
    changed: Dirty[K, V], key_of: Callable[[K], bytes], shape: Callable[[V], object]
) -> Iterator[Row]:
    for key, value in changed.take().items():
        yield key_of(key), None if value is None else _ENCODE(shape(value))


def _numbered(table: bytes, changed: Dirty[int, V], shape: Callable[[V], object]) -> Iterator[Row]:
    return _rows(changed, lambda number: numbered(table, number), shape)


def _named(table: bytes) -> Callable[[str], bytes]:
    return lambda name: named(table, name)


def _hashed(table: bytes) -> Callable[[tuple[str, str]], bytes]:
    return lambda names: hashed(table, *names)


def _as_it_is(value: TimerRow | KvRow | TraceRow | StreamQuery) -> object:
    return value


def _counters(state: State) -> CountersRow:
    return CountersRow(
        ROWS_VERSION, state.now_us, state.made, state.kv.version, state.dedup_since_us
    )


def _queue(queue: Queue) -> QueueRow:
    return QueueRow(
        queue.name,
        queue.queue_id,
        queue.created_us,
        queue.namespace,
        queue.task,
        queue.options.values,
    )


def _group(group: Group) -> GroupRow:
    return GroupRow(
        group.queue.number, group.name, group.is_registered, group.since_us, group.conflates
    )


def _partition(partition: Partition, queue: int) -> PartitionRow:
    return PartitionRow(
        queue,
        partition.name,
        partition.log_start,
        partition.end,
        partition.last_write_us,
        partition.completed,
    )


def _cursor(cursor: Cursor) -> CursorRow:
    group = cursor.group
    return CursorRow(
        group.number,
        cursor.partition.number,
        cursor.is_contacted,
        cursor.ticket,
        cursor.position,
    )


def _run(run: Run) -> RunRow:
    return RunRow(run.created_us, run.names, run.size, run.mark, run.request)


def _claim(claim: Claim) -> ClaimRow:
    held = [HeldRow(cursor.number, before) for cursor, before in claim.held.values()]
    answers = tuple(claim.answers.items())
    return ClaimRow(claim.lease_id, claim.request_id, answers, claim.is_received, tuple(held))


def _completion(completion: Completion) -> CompletionRow:
    return CompletionRow(completion.partition.number, completion.through, completion.weight)


def _stream_row(query_id: str, partition_id: str, key: str, row: StreamRow) -> StreamRowRow:
    return StreamRowRow(query_id, partition_id, key, row.value, row.updated_us)


def _outcome(outcome: Outcome) -> OutcomeRow:
    reply = outcome.reply
    return OutcomeRow(
        outcome.now_us,
        outcome.kind,
        outcome.request_id,
        type(reply).__name__,
        msgspec.Raw(_ENCODE(reply)),
    )
