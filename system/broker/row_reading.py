"""A state rebuilt from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Final, TypeVar, get_args

import msgspec

from ..bugs import Bugs
from .claims import Claim
from .cursors import Cursor, Group
from .ephemeral_options import DeclareRing
from .inspection_replies import TraceRow
from .kv_replies import KvRow
from .message import Run
from .options import QueueOptions
from .outcomes import Outcome
from .partition import Partition
from .queue import Queue
from .replies import DeadLetter, Reply, TimerRow
from .retention import Completion
from .row_shapes import (
    ClaimRow,
    CompletionRow,
    CountersRow,
    CursorRow,
    GroupRow,
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
    DamagedRowError,
    MessageStore,
    hashed,
    number_of,
    numbered,
    place_of,
)
from .state import State
from .stream_replies import StreamRow
from .stream_table import StreamQuery

SHARED_MAX: Final = 4096

Shape = TypeVar("Shape")
Value = TypeVar("Value", int, str)

_REPLIES: Final = {kind.__name__: kind for kind in get_args(Reply)}


def restore_state(
    rows: Iterable[tuple[bytes, bytes]], bugs: Bugs, messages: MessageStore | None
) -> State:
    """Rebuild a state. Cost: its rows.

    Args:
        rows: In the order of their keys; payload rows are passed over.
        bugs: Planted defects.
        messages: Where the payloads are.

    Raises:
        DamagedRowError: A row is of another version, of no known table, refers to nothing or
            holds something else.
    """
    return _Restorer(State(bugs, messages)).restore(rows)


class _Restorer:
    """Takes rows in, each behind those that it refers to."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._queues: dict[int, Queue] = {}
        self._groups: dict[int, Group] = {}
        self._cursors: dict[int, Cursor] = {}
        self._kept: dict[int | str, int | str] = {}
        self._tables: dict[bytes, Callable[[bytes, bytes], None]] = {
            COUNTERS: self._counters,
            QUEUES: self._queue,
            GROUPS: self._group,
            PARTITIONS: self._partition,
            CURSORS: self._cursor,
            RUNS: self._run,
            CLAIMS: self._claim,
            DEAD_LETTERS: self._dead_letter,
            COMPLETIONS: self._completion,
            TIMERS: self._timer,
            KV: self._kv,
            TRACES: self._trace,
            PAYLOADS: self._pass_over,
            STREAM_QUERIES: self._stream_query,
            STREAM_ROWS: self._stream_row,
            OUTCOMES: self._outcome,
            RINGS: self._ring,
            NOTES: self._note,
        }

    def restore(self, rows: Iterable[tuple[bytes, bytes]]) -> State:
        """Take all rows in."""
        state, tables = self._state, self._tables
        for key, value in rows:
            table = tables.get(key[:2])
            if table is None:
                raise DamagedRowError(key, "it belongs to no table that this version knows")
            try:
                table(key, value)
            except (msgspec.MsgspecError, KeyError, AssertionError) as error:
                raise DamagedRowError(key, f"{type(error).__name__}: {error}") from error
        for partition in state.partitions.values():
            if not partition.is_whole:
                raise DamagedRowError(
                    numbered(PARTITIONS, partition.number), "messages of its log are missing"
                )
        state.readiness.restore(self._cursors.values(), state.now_us)
        state.touched.update(state.queues)
        state.forget_changes()
        return state

    def _pass_over(self, key: bytes, value: bytes) -> None:
        """Payloads are read when somebody wants them."""

    def _shared(self, value: Value) -> Value:
        """The same object for equal values that come near each other: there may be a million."""
        kept = self._kept
        if len(kept) > SHARED_MAX:
            kept.clear()
        found = kept.setdefault(value, value)
        assert type(found) is type(value)
        return found

    def _counters(self, key: bytes, value: bytes) -> None:
        row = _decoder(CountersRow).decode(value)
        if row.version != ROWS_VERSION:
            raise DamagedRowError(key, f"version {row.version}, known is {ROWS_VERSION}")
        state = self._state
        state.now_us, state.kv.version = row.now_us, row.kv_version
        state.dedup_since_us = row.dedup_since_us
        state.made = row.made

    def _queue(self, key: bytes, value: bytes) -> None:
        row = _decoder(QueueRow).decode(value)
        number, options = number_of(key), QueueOptions(row.options)
        queue = Queue(number, row.name, row.queue_id, row.created_us, options)
        queue.namespace, queue.task = row.namespace, row.task
        self._queues[number] = self._state.queues[row.name] = queue

    def _group(self, key: bytes, value: bytes) -> None:
        row = _decoder(GroupRow).decode(value)
        number, queue = number_of(key), self._queues[row.queue]
        group = Group(number, row.name, queue)
        group.is_registered, group.since_us = row.is_registered, row.since_us
        group.conflates = row.conflates
        self._groups[number] = queue.groups[row.name] = group

    def _partition(self, key: bytes, value: bytes) -> None:
        row = _decoder(PartitionRow).decode(value)
        number, queue = number_of(key), self._queues[row.queue]
        partition = Partition(number, queue.name, row.name)
        partition.place(row.log_start, row.end, row.last_write_us)
        partition.completed = row.completed
        self._state.partitions[number] = queue.partitions[row.name] = partition

    def _cursor(self, key: bytes, value: bytes) -> None:
        row = _decoder(CursorRow).decode(value)
        number = number_of(key)
        partition, group = self._state.partitions[row.partition], self._groups[row.group]
        released = row.position.released
        if released is not None:
            shared = self._shared(released.lease_id)
            msgspec.structs.force_setattr(released, "lease_id", shared)
        cursor = Cursor(number, partition, group, row.position, row.is_contacted)
        cursor.ticket = row.ticket
        group.cursors[partition.number] = cursor
        partition.cursors = (*partition.cursors, cursor)
        self._cursors[number] = cursor

    def _run(self, key: bytes, value: bytes) -> None:
        row = _decoder(RunRow).decode(value)
        number, first = place_of(key)
        created_us, request = self._shared(row.created_us), self._shared(row.request)
        run = Run(first, created_us, row.names, row.size, row.mark, request, None)
        self._state.partitions[number].restore(run)

    def _claim(self, key: bytes, value: bytes) -> None:
        row = _decoder(ClaimRow).decode(value)
        claim = Claim(number_of(key), row.lease_id, row.request_id, dict(row.answers))
        claim.is_received = row.is_received
        for held in row.held:
            claim.held[held.cursor] = (self._cursors[held.cursor], held.before)
        self._state.claims.add(claim)

    def _dead_letter(self, _: bytes, value: bytes) -> None:
        letter = _decoder(DeadLetter).decode(value)
        self._state.queues[letter.queue].dead[letter.dead_letter_id] = letter

    def _completion(self, key: bytes, value: bytes) -> None:
        row = _decoder(CompletionRow).decode(value)
        partition = self._state.partitions[row.partition]
        self._state.retention.put(Completion(number_of(key), partition, row.through, row.weight))

    def _timer(self, _: bytes, value: bytes) -> None:
        self._state.timers.put(_decoder(TimerRow).decode(value))

    def _kv(self, _: bytes, value: bytes) -> None:
        self._state.kv.put(_decoder(KvRow).decode(value))

    def _trace(self, _: bytes, value: bytes) -> None:
        self._state.traces.append(_decoder(TraceRow).decode(value))

    def _stream_query(self, _: bytes, value: bytes) -> None:
        self._state.streams.put_query(_decoder(StreamQuery).decode(value))

    def _stream_row(self, _: bytes, value: bytes) -> None:
        row = _decoder(StreamRowRow).decode(value)
        put = StreamRow(row.key, row.value, row.updated_us)
        self._state.streams.put_row(row.query_id, row.partition_id, put)

    def _note(self, key: bytes, value: bytes) -> None:
        self._state.notes.put(place_of(key), _decoder(NoteRow).decode(value).note)

    def _ring(self, key: bytes, value: bytes) -> None:
        declared = _decoder(DeclareRing).decode(value)
        if key != hashed(RINGS, declared.queue):
            raise DamagedRowError(key, "it is the row of another queue")
        self._state.rings[declared.queue] = declared

    def _outcome(self, key: bytes, value: bytes) -> None:
        row = _decoder(OutcomeRow).decode(value)
        reply = _decoder(_REPLIES[row.kind_of_reply]).decode(row.reply)
        outcome = Outcome(row.now_us, row.kind, row.request_id, reply)
        self._state.outcomes.put(number_of(key), outcome)


@cache
def _decoder(kind: type[Shape]) -> msgspec.msgpack.Decoder[Shape]:
    return msgspec.msgpack.Decoder(kind)
