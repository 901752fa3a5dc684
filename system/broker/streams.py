"""Streaming queries: named state for each source partition, and cycles that commit it atomically.

A cycle reads a batch under a lease, changes its query's state, pushes what came out and settles the
batch, all in one entry or not at all. The lease is the fence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from .acks import carry_out, contacted_cursor, settle_on
from .commands import AckItem, Cycle, CycleAck, RegisterQuery
from .cursors import Cursor
from .lease import Lease
from .mint import Mint
from .pushes import Seen, store
from .queries import StreamStateGet
from .settle import NO_CONSUMER, STALE_LEASE, Settlement
from .state import State
from .stream_replies import CycleReply, QueryRegistered, StreamStateReply

UNKNOWN_QUERY: Final = "unknown query_id"


@dataclass(frozen=True, slots=True)
class _Step:
    cursor: Cursor
    lease_id: str
    settlement: Settlement


def register_query(state: State, mint: Mint, command: RegisterQuery) -> QueryRegistered:
    """Register a query, find it again, or begin it anew; another configuration is a conflict."""
    first = state.outcomes.first("register-query", command.request_id)
    if isinstance(first, QueryRegistered):
        return first
    streams = state.streams
    known = streams.by_name(command.name)
    if known is None:
        query_id = mint.new_id()
        streams.register(query_id, command.name, command.config_hash)
        reply = QueryRegistered(query_id, command.name, command.config_hash, True, False, False)
    else:
        conflicts = known.config_hash != command.config_hash and not command.reset
        if command.reset:
            streams.wipe(known.query_id)
            streams.register(known.query_id, command.name, command.config_hash)
        reply = QueryRegistered(
            known.query_id, command.name, command.config_hash, False, command.reset, conflicts
        )
    state.outcomes.remember("register-query", command.request_id, reply, state.now_us)
    return reply


def cycle(state: State, mint: Mint, command: Cycle) -> CycleReply:
    """Commit one cycle; a repeat of the request gets the first answer."""
    first = state.outcomes.first("cycle", command.request_id)
    if isinstance(first, CycleReply):
        return first
    reply = _cycle(state, mint, command)
    state.outcomes.remember("cycle", command.request_id, reply, state.now_us)
    return reply


def stream_state(state: State, query: StreamStateGet) -> StreamStateReply:
    """State of one query and partition. Cost: its rows, or the keys asked for."""
    return StreamStateReply(tuple(state.streams.rows_of(query)))


def _cycle(state: State, mint: Mint, command: Cycle) -> CycleReply:
    if not state.streams.knows(command.query_id):
        return CycleReply(UNKNOWN_QUERY)
    step: _Step | None = None
    if command.ack is not None:
        judged = _judge(state, command, command.ack)
        if isinstance(judged, str):
            return CycleReply(judged)
        step = judged
    state.streams.change(command.query_id, command.partition_id, command.state_ops, state.now_us)
    seen: Seen = {}
    for item in command.push_items:
        store(state, mint, item, seen)
    if step is not None:
        carry_out(state, mint, step.cursor, step.lease_id, step.settlement)
    released = step is not None and step.cursor.position.lease is None
    return CycleReply("", len(command.push_items), released)


def _judge(state: State, command: Cycle, ack: CycleAck) -> _Step | str:
    """What the ack would do, or why it is refused."""
    cursor = contacted_cursor(state, command.partition_id, command.group)
    if cursor is None:
        return NO_CONSUMER
    lease = cursor.position.lease
    if lease is None or lease.lease_id != ack.lease_id or not lease.is_live(state.now_us):
        return STALE_LEASE
    name = ack.transaction_id if ack.status != "completed" else _last(cursor, lease, command, ack)
    item = AckItem(name, command.partition_id, ack.status, ack.lease_id)
    settlement = settle_on(state, cursor, cursor.position, [item], recalls=False)
    (answer,) = settlement.answers
    return _Step(cursor, ack.lease_id, settlement) if answer.success else answer.error


def _last(cursor: Cursor, lease: Lease, command: Cycle, ack: CycleAck) -> str:
    """The message to complete: the batch's last one, or the last of those counted."""
    first = max(cursor.position.committed + 1, lease.first)
    offset = lease.last if command.releases else min(first + ack.count - 1, lease.last)
    return cursor.partition.name_at(max(offset, first))
