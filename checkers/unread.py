"""Batches that a worker read late: since when their jobs were in its hands.

A worker that pops ahead asks for its next batch as it starts the last job in hand, and reads the
answer when that run is over. All the while the broker has leased those jobs and their partitions to
it: they are ready for nobody else, however many workers are free. The records tell when a batch was
read. That it was claimed at the start of the run before is possible if every job of it existed at
that start, and if it was read as soon as the run was over; `ack_s` is what either may be off by,
beside fault windows and starved time.

A worker that dies in such a run, or leaves right after it, never reads its batch, and no record of
a worker names those jobs: they may be any that existed at the start of the run and were claimed
soon after the death.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .facts import NEVER_NS, NONE, RAN, Numbers, Times
from .intervals import subtract
from .world import World


@dataclass(frozen=True, slots=True)
class NeverRead:
    """What dead workers may have held unread: columns of equal length.

    Attributes:
        delivery: The next delivery of a job.
        from_ns: Start of the run behind which its batch lay.
        until_ns: Death of the worker.
        process: The worker.
    """

    delivery: Times
    from_ns: Times
    until_ns: Times
    process: Times


def claimed_ns(world: World) -> Times:
    """When each delivery was claimed, at the earliest; in the order of the deliveries.

    Near the start of the run behind which its batch may have lain unread, or else when it was read.
    An engine whose contract knows no unread batches has none. Cost: O(n log n), and some
    microseconds for each run of more than `ack_s`.
    """
    table = world.facts.deliveries
    claimed = table.t_ns.copy()
    rows = np.flatnonzero((table.received_row >= 0) & (table.lease != NONE))
    if not world.contract.charges.unread_batch or not len(rows):
        return claimed
    key = table.process[rows].astype(np.int64) << 32 | table.lease[rows]
    _, one, batch = np.unique(key, return_index=True, return_inverse=True)
    read = np.full(len(one), NEVER_NS, np.int64)
    np.minimum.at(read, batch, table.t_ns[rows])
    existed = np.zeros(len(one), np.int64)
    np.maximum.at(existed, batch, existed_ns(world)[rows])
    before = _pickup_before(world, table.process[rows[one]], read)
    since = _unread_since(world, before, existed, read)
    late = np.flatnonzero(since[batch] < read[batch])
    claimed[rows[late]] = since[batch[late]]
    return claimed


def never_read(world: World, claimed: Times) -> NeverRead:
    """Find what dead workers may have held unread: for each death the first `prefetch` jobs.

    A death by a signal counts only with `popping`. Cost: as `claimed_ns`, and for each such death
    what was claimed within a lease after it.

    Args:
        world: The run.
        claimed: When each delivery was claimed; see `claimed_ns`.
    """
    table, bounds = world.facts.deliveries, world.contract.bounds
    existed, order = existed_ns(world), np.argsort(claimed, kind="stable")
    in_order = claimed[order]
    found: list[tuple[int, int, int, int]] = []
    for run, death_ns in _last_runs(world):
        start_ns, process = int(table.start_ns[run]), int(table.process[run])
        low, high = np.searchsorted(in_order, [death_ns, death_ns + world.ns("lease_s")])
        after = order[low:high]
        left = bounds.prefetch
        for delivery in after[table.job[after] != table.job[run]].tolist():
            if left and is_at_once(world, start_ns, int(existed[delivery])):
                left -= 1
                found.append((delivery, start_ns, death_ns, process))
    columns = np.array(found, np.int64).reshape(-1, 4).T
    return NeverRead(*columns)


def _last_runs(world: World) -> list[tuple[int, int]]:
    """Long runs with which a worker's life ended, behind which a batch may have lain, its death."""
    table, facts = world.facts.deliveries, world.facts
    if not world.contract.charges.unread_batch:
        return []
    left = {(d.boot, d.pid) for d in world.run.deaths if d.popping or d.exit is not None}
    processes = world.run.attempts.processes
    dead = np.flatnonzero(facts.death_ns != NEVER_NS)
    death_ns = facts.death_ns[dead]
    last = _pickup_before(world, dead.astype(np.int32), death_ns)
    rested = _rested_ns(world, last, death_ns)
    is_long = (last != NONE) & (table.kind[last] == RAN)
    is_long &= death_ns - table.start_ns[last] > world.ns("ack_s")
    found: list[tuple[int, int]] = []
    for at in np.flatnonzero(is_long).tolist():
        process = processes[dead[at]]
        if (process.boot, process.pid) in left and is_at_once(
            world, int(rested[at]), int(death_ns[at])
        ):
            found.append((int(last[at]), int(death_ns[at])))
    return found


def existed_ns(world: World) -> Times:
    """Before when each delivery's job could surely not be claimed."""
    table, dispatches = world.facts.deliveries, world.run.dispatches
    jobs = len(world.run.attempts.jobs)
    asked = np.full(jobs, NEVER_NS, np.int64)
    np.minimum.at(asked, dispatches.job, dispatches.invoke_ns)
    asked[asked == NEVER_NS] = 0
    due = np.zeros(jobs, np.int64)
    np.maximum.at(due, dispatches.job, dispatches.not_before_ns)
    existed: Times = np.maximum(asked, due)[table.job]
    later = np.flatnonzero(table.job[1:] == table.job[:-1]) + 1
    existed[later] = np.maximum(table.t_ns, np.maximum(table.start_ns, table.ended_ns))[later - 1]
    return existed


def is_at_once(world: World, from_ns: int, until_ns: int) -> bool:
    """Whether no more than `ack_s` lies between, beside fault windows and starved time."""
    parts = subtract((from_ns, until_ns), world.windows.open)
    return sum(map(world.starvation.left_ns, parts)) <= world.ns("ack_s")


def _pickup_before(world: World, process: Numbers, read: Times) -> Numbers:
    """The last delivery that a process picked up before each time; -1 for none."""
    table = world.facts.deliveries
    picked = np.flatnonzero(table.start_ns >= 0)
    of = np.concatenate([table.process[picked], process])
    order = np.lexsort((np.concatenate([table.start_ns[picked], read]), of))
    last = np.maximum.accumulate(np.where(order < len(picked), np.arange(len(order)), NONE))
    same = (last >= 0) & (of[order[last]] == of[order])
    found = np.full(len(order), NONE, np.int32)
    found[order[same]] = picked[order[last[same]]]
    return found[len(picked) :]


def _rested_ns(world: World, runs: Numbers, by_ns: Times) -> Times:
    """When workers were done with runs: with their acks, where these came before a time."""
    end, acked = world.facts.deliveries.end_ns[runs], world.facts.deliveries.acked_ns[runs]
    rested: Times = np.where(acked <= by_ns, np.maximum(end, acked), end)
    return rested


def _unread_since(world: World, before: Numbers, existed: Times, read: Times) -> Times:
    """Since when each batch may have been claimed; when it was read, if it did not lie unread."""
    table = world.facts.deliveries
    start, rested = table.start_ns[before], _rested_ns(world, before, read)
    since = np.maximum(start, existed)
    possible = (before != NONE) & (table.kind[before] == RAN) & (rested <= read)
    possible &= read - since > world.ns("ack_s")
    unread: Times = read.copy()
    for batch in np.flatnonzero(possible).tolist():
        if is_at_once(world, int(rested[batch]), int(read[batch])) and is_at_once(
            world, int(start[batch]), int(since[batch])
        ):
            unread[batch] = since[batch]
    return unread
