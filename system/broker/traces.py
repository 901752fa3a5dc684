"""Traces: what consumers say about messages. Only the newest are kept."""

from __future__ import annotations

from collections import deque
from typing import Final

from .administrative import AddTrace
from .inspection_replies import TraceAdded, TraceRow
from .mint import Mint
from .state import State

TRACES_MAX: Final = 10_000


def add_trace(state: State, mint: Mint, command: AddTrace) -> TraceAdded:
    """Keep one trace; the oldest goes when there are too many."""
    first = state.outcomes.first("trace", command.request_id)
    if isinstance(first, TraceAdded):
        return first
    row = TraceRow(
        mint.new_id(),
        command.partition_id,
        command.transaction_id,
        command.group,
        command.names,
        command.event,
        command.data,
        state.now_us,
    )
    traces: deque[TraceRow] = state.traces
    traces.append(row)
    state.traces_changed.add(row.trace_id, row)
    if len(traces) > TRACES_MAX:
        state.traces_changed.drop(traces.popleft().trace_id)
    reply = TraceAdded(row.trace_id)
    state.outcomes.remember("trace", command.request_id, reply, state.now_us)
    return reply
