"""Fault coverage: how often each kind of fault hit each state of a job."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..histories.table import THREW
from .facts import NEVER_NS, RAN, UNSTARTED, Times
from .windows import FaultWindow
from .world import World

IN_FLIGHT: Final = "dispatch in flight"
PREFETCHED: Final = "prefetched"
RUNNING: Final = "running"
UNACKED: Final = "ended, not acked"
BACKING_OFF: Final = "backing off"
DELAYED: Final = "delayed"
STATES: Final = (IN_FLIGHT, PREFETCHED, RUNNING, UNACKED, BACKING_OFF, DELAYED)


def fault_coverage(world: World) -> dict[str, dict[str, int]]:
    """Count, by kind of fault and state, the jobs that were in that state when a fault struck.

    A fault of a worker hits the jobs in that worker's hands; any other hits all jobs of the run.
    """
    spans = _Spans(world)
    coverage: dict[str, dict[str, int]] = {}
    for window in world.windows.all:
        counts = coverage.setdefault(window.fault.kind, dict.fromkeys(STATES, 0))
        for state, count in spans.at(window).items():
            counts[state] += count
    return coverage


class _Spans:
    """From when to when jobs were in which state."""

    def __init__(self, world: World):
        self._world = world
        table, dispatches = world.facts.deliveries, world.run.dispatches
        done = np.where(dispatches.done_ns < 0, NEVER_NS, dispatches.done_ns)
        death = world.facts.death_ns[table.process]
        lease_end = np.minimum(death, table.t_ns + world.ns("lease_s"))
        taken = np.where(table.kind == UNSTARTED, lease_end, table.start_ns)
        ran = table.kind == RAN
        ack_end = np.minimum(death, table.ended_ns + world.ns("ack_s"))
        acked = np.where(table.acked_ns >= 0, table.acked_ns, ack_end)
        again = np.append(table.t_ns[1:], 0)
        same = np.append(table.job[1:] == table.job[:-1], False)
        threw = same & (table.outcome == THREW)
        received = table.received_row >= 0
        self._of_dispatches = {
            IN_FLIGHT: (dispatches.invoke_ns, done),
            DELAYED: (done, dispatches.not_before_ns),
        }
        self._of_deliveries = {
            PREFETCHED: (received, table.t_ns, taken),
            RUNNING: (ran, table.start_ns, table.end_ns),
            UNACKED: (table.ended_ns >= 0, table.ended_ns, acked),
        }
        self._backing_off = (threw, table.ended_ns, again)

    def at(self, window: FaultWindow) -> dict[str, int]:
        """Count jobs by state at the moment before a fault was seen in effect."""
        fault = window.fault
        at_ns = window.from_ns if fault.opened_ns is None else fault.opened_ns
        is_worker = fault.kind in self._world.contract.faults.worker
        counts: dict[str, int] = defaultdict(int)
        for state, (counted, start, end) in self._of_deliveries.items():
            mask = counted & _covers(start, end, at_ns)
            if is_worker:
                mask &= self._in_hands(fault.pid, at_ns)
            counts[state] += int(np.count_nonzero(mask))
        if not is_worker:
            for state, (start, end) in self._of_dispatches.items():
                counts[state] += int(np.count_nonzero(_covers(start, end, at_ns)))
            counted, start, end = self._backing_off
            counts[BACKING_OFF] += int(np.count_nonzero(counted & _covers(start, end, at_ns)))
        return counts

    def _in_hands(self, pid: int | None, at_ns: int) -> NDArray[np.bool_]:
        world = self._world
        mine = np.array(
            [
                process.pid == pid and process.first_ns <= at_ns
                for process in world.run.attempts.processes
            ],
            np.bool_,
        )
        return mine[world.facts.deliveries.process]


def _covers(start_ns: Times, end_ns: Times, at_ns: int) -> NDArray[np.bool_]:
    return (start_ns >= 0) & (start_ns <= at_ns) & (at_ns < end_ns)
