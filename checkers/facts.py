"""Facts that follow from the records: deliveries, runs and how each of them ended.

A *delivery* is a job in the hands of a worker: it was received (`prefetched`), and then it ran, was
refused (given up without a run) or was never started. A *pickup* is a delivery that ran or was
refused. A run ends at its `ended` record or at the death of its process, whichever is first.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..histories.folder import RunRecords
from ..histories.table import (
    ACKED,
    ENDED,
    PREFETCHED,
    STARTED,
    AttemptTable,
    ProcessIncarnation,
)

UNSTARTED: Final = 0
RAN: Final = 1
REFUSED: Final = 2
NEVER_NS: Final = np.iinfo(np.int64).max
NONE: Final = -1
_SAME_NS: Final = 10_000_000_000  # Two reapers' records of one death are closer than this.

Times = NDArray[np.int64]
Numbers = NDArray[np.int32]
Codes = NDArray[np.int8]


@dataclass(slots=True)
class Deliveries:
    """All deliveries, sorted by job and time of delivery; columns of equal length.

    Attributes:
        job: Number of the job.
        process: Index of the process.
        t_ns: When the worker had it.
        attempt: Attempt number, as told at the pickup, or at the delivery.
        kind: `UNSTARTED`, `RAN` or `REFUSED`.
        start_ns: When it was picked up; -1 for never.
        ended_ns: Time of the `ended` record; -1 for none.
        end_ns: End of the run: `ended` or death of the process; `NEVER_NS` where it is open.
        acked_ns: When the engine confirmed the end; -1 for never.
        outcome: Index into `OUTCOMES`; -1 for none.
        received_row: Row of the `prefetched` record; -1 for none.
        pickup_row: Row of the `started` or `gave_up` record; -1 for none.
        lease: Number of the lease; -1 for none.
    """

    job: Numbers
    process: Numbers
    t_ns: Times
    attempt: Numbers
    kind: Codes
    start_ns: Times
    ended_ns: Times
    end_ns: Times
    acked_ns: Times
    outcome: Codes
    received_row: Numbers
    pickup_row: Numbers
    lease: Numbers

    def __len__(self) -> int:
        return len(self.job)


@dataclass(slots=True)
class Facts:
    """All facts of a run.

    Attributes:
        deliveries: All deliveries.
        first: Index of the first delivery of each job, and one past the last at the end.
        death_ns: Death of each process; `NEVER_NS` where none is known.
        worker_deaths_ns: Deaths of all workers, also of those that never wrote a record, in order.
        unread_deaths_ns: Those of them that may have left a pop's answer unread.
        end_ns: Time of the last record of all.
        inconsistencies: What the records contradict each other in.
    """

    deliveries: Deliveries
    first: Times
    death_ns: Times
    worker_deaths_ns: Times
    unread_deaths_ns: Times
    end_ns: int
    inconsistencies: list[str]


def derive_facts(run: RunRecords) -> Facts:
    """Derive all facts; O(n log n) in the number of records, about 100 bytes a delivery."""
    table = run.attempts
    death_ns = _deaths_of(table.processes, run)
    inconsistencies: list[str] = []
    deliveries = _deliveries(table)
    _close_runs(deliveries, table, death_ns, inconsistencies)
    order = np.lexsort((deliveries.t_ns, deliveries.job))
    for name in Deliveries.__slots__:
        setattr(deliveries, name, getattr(deliveries, name)[order])
    first = np.searchsorted(deliveries.job, np.arange(len(table.jobs) + 1))
    ends = [int(table.t_ns.max())] if len(table) else [0]
    ends += [op.time_ns for op in run.ops] + [death.t_ns for death in run.deaths]
    if len(run.dispatches):
        ends += [int(run.dispatches.invoke_ns.max()), int(run.dispatches.done_ns.max())]
    return Facts(
        deliveries=deliveries,
        first=first,
        death_ns=death_ns,
        worker_deaths_ns=_deaths_of_workers(run, only_unread=False),
        unread_deaths_ns=_deaths_of_workers(run, only_unread=True),
        end_ns=max(ends),
        inconsistencies=inconsistencies,
    )


def _deaths_of(processes: list[ProcessIncarnation], run: RunRecords) -> Times:
    """The earliest known death of each process at or after its first record."""
    by_pid: dict[tuple[str, int], list[int]] = defaultdict(list)
    for death in run.deaths:
        by_pid[death.boot, death.pid].append(death.t_ns)
    death_ns = np.full(len(processes), NEVER_NS, np.int64)
    for index, process in enumerate(processes):
        known = by_pid.get((process.boot, process.pid), ())
        death_ns[index] = min((at for at in known if at >= process.first_ns), default=NEVER_NS)
    return death_ns


def _deaths_of_workers(run: RunRecords, only_unread: bool) -> Times:
    """Deaths of workers; two reapers' records of one death count once, at the earlier time."""
    last: dict[tuple[str, int], int] = {}
    deaths: list[int] = []
    for death in sorted(run.deaths, key=lambda death: death.t_ns):
        key = (death.boot, death.pid)
        if death.role != "worker" or (only_unread and not death.popping):
            continue
        if key not in last or death.t_ns > last[key] + _SAME_NS:
            deaths.append(death.t_ns)
            last[key] = death.t_ns
    return np.array(deaths, np.int64)


def _deliveries(table: AttemptTable) -> Deliveries:
    """Pair each receipt of a job with the pickup that follows it in the same process."""
    refused = np.zeros(len(table), np.bool_)
    refused[[row for row, told in table.gave_up.items() if not told.ran]] = True
    rows = np.flatnonzero((table.event == PREFETCHED) | (table.event == STARTED) | refused)
    key = table.process[rows].astype(np.int64) * max(1, len(table.jobs)) + table.job[rows]
    rows = rows[np.argsort(key, kind="stable")]
    key.sort()
    received = table.event[rows] == PREFETCHED
    followed = np.zeros(len(rows), np.bool_)
    followed[:-1] = (key[:-1] == key[1:]) & received[:-1] & ~received[1:]
    follows = np.zeros(len(rows), np.bool_)
    follows[1:] = followed[:-1]
    heads = np.flatnonzero(~follows)
    received_row = np.where(received[heads], rows[heads], NONE).astype(np.int32)
    after = rows[np.minimum(heads + 1, len(rows) - 1)] if len(rows) else rows
    pickup_row = np.where(
        followed[heads], after, np.where(received[heads], NONE, rows[heads])
    ).astype(np.int32)
    return _fill(table, received_row, pickup_row)


def _fill(table: AttemptTable, received_row: Numbers, pickup_row: Numbers) -> Deliveries:
    head = np.where(received_row >= 0, received_row, pickup_row)
    told = np.where(pickup_row >= 0, pickup_row, received_row)
    picked = pickup_row >= 0
    kind = np.where(picked, np.where(table.event[told] == STARTED, RAN, REFUSED), UNSTARTED).astype(
        np.int8
    )
    count = len(head)
    return Deliveries(
        job=table.job[head],
        process=table.process[head],
        t_ns=table.t_ns[head],
        attempt=table.attempt[told],
        kind=kind,
        start_ns=np.where(picked, table.t_ns[told], NONE),
        ended_ns=np.full(count, NONE, np.int64),
        end_ns=np.full(count, NEVER_NS, np.int64),
        acked_ns=np.full(count, NONE, np.int64),
        outcome=np.full(count, NONE, np.int8),
        received_row=received_row,
        pickup_row=pickup_row,
        lease=table.lease[head],
    )


def _close_runs(
    deliveries: Deliveries, table: AttemptTable, death_ns: Times, inconsistencies: list[str]
) -> None:
    runs = int(table.run.max()) + 1 if len(table) else 0
    of_run = {
        event: _row_of_run(table, event, runs, inconsistencies) for event in (STARTED, ENDED, ACKED)
    }
    for event in (ENDED, ACKED):
        orphans = np.flatnonzero((of_run[event] >= 0) & (of_run[STARTED] < 0))
        if len(orphans):
            row = int(of_run[event][orphans[0]])
            inconsistencies.append(_at(table, row, "ends a run that never started"))
    ran = np.flatnonzero(deliveries.kind == RAN)
    run = table.run[deliveries.pickup_row[ran]]
    ended_row, acked_row = of_run[ENDED][run], of_run[ACKED][run]
    has_ended, has_acked = ended_row >= 0, acked_row >= 0
    ended_ns = np.where(has_ended, table.t_ns[ended_row], NONE)
    deliveries.ended_ns[ran] = ended_ns
    deliveries.acked_ns[ran] = np.where(has_acked, table.t_ns[acked_row], NONE)
    deliveries.outcome[ran] = np.where(has_ended, table.outcome[ended_row], NONE)
    death = death_ns[deliveries.process[ran]]
    deliveries.end_ns[ran] = np.where(has_ended, np.minimum(ended_ns, death), death)


def _row_of_run(table: AttemptTable, event: int, runs: int, inconsistencies: list[str]) -> Times:
    rows = np.flatnonzero((table.event == event) & (table.run >= 0))
    row_of_run = np.full(runs, NONE, np.int64)
    row_of_run[table.run[rows][::-1]] = rows[::-1]
    if event != ACKED and np.count_nonzero(row_of_run >= 0) != len(rows):
        first = row_of_run[table.run[rows]]
        row = int(rows[np.flatnonzero(first != rows)[0]])
        inconsistencies.append(_at(table, row, "is the second of its kind for one run"))
    return row_of_run


def _at(table: AttemptTable, row: int, what: str) -> str:
    process = table.processes[int(table.process[row])]
    return f"{process.file}: record {row - process.first_row} {what}"
