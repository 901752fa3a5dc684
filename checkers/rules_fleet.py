"""Rules about processes: leaked workers, stale code; and the order of first attempts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..histories.dispatches import OK, STATUSES
from ..histories.folder import RunRecords
from ..histories.ops import RESTART, STOP, Op, pair_ops
from ..histories.table import ProcessIncarnation
from .facts import RAN, Facts, Times
from .findings import Finding, seconds
from .world import World

_QUEUED = STATUSES.index("queued")


def judge_leaks(world: World) -> Iterator[Finding]:
    """A worker that wrote records after its supervisor was reaped, or after the end of the run."""
    leak_ns = world.ns("leak_s")
    masters = [death for death in world.run.deaths if death.role == "master"]
    stops = [done.time_ns for done in _acknowledged(world.run, STOP)]
    for process in world.run.attempts.processes:
        # Of several supervisors each has a name, and its workers are recorded under it.
        own = (death.t_ns for death in masters if death.node in (None, process.worker))
        death_ns = next((at for at in own if process.first_ns < at), None)
        if death_ns is not None and process.last_ns > death_ns + leak_ns:
            yield _leak(process, death_ns, "its supervisor was reaped", world)
            continue
        stop_ns = next((at for at in stops if process.last_ns > at + leak_ns), None)
        if stop_ns is not None:
            yield _leak(process, stop_ns, "everything was stopped", world)


def _leak(process: ProcessIncarnation, since_ns: int, event: str, world: World) -> Finding:
    return Finding(
        "process-leaked",
        None,
        f"worker process {process.pid} wrote records until {seconds(process.last_ns - since_ns)} "
        f"after {event}",
        since_ns,
        process.last_ns,
        doubt=world.starvation.doubt((since_ns, process.last_ns), world.ns("leak_s")),
    )


def judge_stale_code(world: World) -> Iterator[Finding]:
    """A run after an acknowledged restart that reports the old code version."""
    facts, processes = world.facts, world.run.attempts.processes
    starts = facts.deliveries.start_ns
    for done in _acknowledged(world.run, RESTART):
        new = done.value.get("code") if isinstance(done.value, dict) else None
        old = {p.code for p in processes if p.first_ns < done.time_ns} - {new}
        later = np.flatnonzero((facts.deliveries.kind == RAN) & (starts > done.time_ns))
        for index in later.tolist():
            code = processes[int(facts.deliveries.process[index])].code
            if code in old and (new is None or code != new):
                after = seconds(int(starts[index]) - done.time_ns)
                yield Finding(
                    "stale-code",
                    int(facts.deliveries.job[index]),
                    f"attempt {int(facts.deliveries.attempt[index])} ran code {code!r} "
                    f"{after} after a restart was acknowledged",
                    done.time_ns,
                    int(starts[index]),
                )


def _acknowledged(run: RunRecords, f: str) -> list[Op]:
    others = [op for op in run.ops if op.f == f]
    return [done for _, done in pair_ops(others) if done is not None and done.type == "ok"]


def judge_order(world: World) -> Iterator[Finding]:
    """First attempts of one partition that started against the order of their offsets.

    Left out are jobs that were delayed, whose first delivery was not started, or between whose
    dispatch and first start a worker died: those may have been handed back to the partition's end.
    """
    if world.contract.order != "partition":
        return
    table, facts = world.run.dispatches, world.facts
    rows = np.flatnonzero(
        (table.result == OK)
        & (table.status == _QUEUED)
        & (table.offset >= 0)
        & (table.not_before_ns < 0)
    )
    first = facts.first[table.job[rows]]
    has = first < facts.first[table.job[rows] + 1]
    rows, first = rows[has], first[has]
    kinds, starts = facts.deliveries.kind[first], facts.deliveries.start_ns[first]
    calm = (kinds == RAN) & ~_worker_died(facts, table.invoke_ns[rows], starts)
    rows, starts = rows[calm], starts[calm]
    by_offset = np.lexsort((table.offset[rows], table.partition[rows]))
    rows, starts = rows[by_offset], starts[by_offset]
    partition = table.partition[rows]
    if not len(rows):
        return
    heads = np.flatnonzero(np.diff(partition, prepend=-1))
    slack_ns = world.ns("clock_slack_s")
    for low, high in zip(heads.tolist(), [*heads[1:].tolist(), len(rows)], strict=True):
        latest = np.maximum.accumulate(starts[low:high])
        for at in np.flatnonzero(starts[low:high] < latest - slack_ns).tolist():
            ahead = low + int(np.flatnonzero(starts[low : low + at] == latest[at])[0])
            yield Finding(
                "order",
                int(table.job[rows[low + at]]),
                f"at offset {int(table.offset[rows[low + at]])} of partition "
                f"{table.partitions[int(partition[low])]} it started "
                f"{seconds(int(latest[at] - starts[low + at]))} before the job at offset "
                f"{int(table.offset[rows[ahead]])}",
                int(starts[low + at]),
                int(latest[at]),
            )


def _worker_died(facts: Facts, since_ns: Times, until_ns: Times) -> NDArray[np.bool_]:
    before = np.searchsorted(facts.worker_deaths_ns, since_ns, "left")
    return np.searchsorted(facts.worker_deaths_ns, until_ns, "right") > before
