"""Free workers, waiting jobs and held partitions: what the rules about progress ask.

A worker is *free* from its last act to the next batch it receives (or its death), when it has no
unstarted job in hand. A job *waits* from the moment it may be delivered to the moment a worker
claims it: it lies with that worker then, read or not (see `unread`). A partition is *held* while a
worker has a job of it that is not settled: nobody else may be given its jobs then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..histories.dispatches import OK
from ..histories.table import (
    ACKED,
    COMPLETED,
    ENDED,
    FAILED,
    GAVE_UP,
    PREFETCHED,
    RELEASED,
    THREW,
)
from .facts import NEVER_NS, NONE, RAN, REFUSED, UNSTARTED, Numbers, Times
from .intervals import Interval, intersect, longest, merge, subtract
from .unread import claimed_ns, never_read
from .windows import first_touching
from .world import World

NOT_JUDGED: Final = 0
DUE: Final = 1
HANDED_BACK: Final = 2
_NOBODY: Final = -2


@dataclass(slots=True)
class Waits:
    """How long each delivery was waited for; columns in the order of the deliveries.

    Attributes:
        kind: `DUE` (dispatched, delayed or backing off, or its lease expired), `HANDED_BACK` (a
            dead worker held it unstarted) or `NOT_JUDGED` (nobody knows when it was ready).
        ready_ns: From when on it could be delivered.
        taken_ns: When it was claimed: when it was delivered, or before, if its batch lay unread.
        unseen: Whether its number says that a delivery came before it that no worker recorded: an
            unread batch, whose lease held the job and its partition meanwhile.
    """

    kind: NDArray[np.int8]
    ready_ns: Times
    taken_ns: Times
    unseen: NDArray[np.bool_]


class Capacity:
    """Free time of workers and waiting time of jobs over a whole run."""

    def __init__(self, world: World):
        self._world = world
        self._deliveries = world.facts.deliveries
        self._partition = _partition_of_job(world)
        self._holds: dict[int, tuple[Times, Times, Numbers, Numbers]] = {}
        self.waits = _waits(world)
        self._never_read = never_read(world, self.waits.taken_ns)
        np.maximum.at(self.waits.ready_ns, self._never_read.delivery, self._never_read.until_ns)

    def idle(self, longer_ns: int, windows: Sequence[Interval]) -> list[Interval]:
        """Return the times longer than a bound in which one worker was free and no window open."""
        return sorted(
            part
            for gap in _gaps(self._world, longer_ns)
            for part in subtract(gap, windows)
            if part[1] - part[0] > longer_ns
        )

    def unheld(self, delivery: int, interval: Interval) -> list[Interval]:
        """Return the parts of a wait in which no other job held the partition of its job."""
        job = int(self._deliveries.job[delivery])
        partition = int(self._partition[job])
        if partition < 0:
            return [interval]
        gone = _NOBODY
        if self.waits.kind[delivery] == HANDED_BACK:
            gone = int(self._deliveries.process[delivery - 1])
        start, end, holder, process = self._held(partition)
        hole = (start < interval[1]) & (end > interval[0]) & (holder != job) & (process != gone)
        return subtract(interval, merge(zip(start[hole].tolist(), end[hole].tolist(), strict=True)))

    def longest_unheld(self, delivery: int, interval: Interval) -> Interval | None:
        """Return the part of `unheld` that has most of what the machine did not starve, or None."""
        return longest(self.unheld(delivery, interval), self.left_ns)

    def left_ns(self, interval: Interval) -> int:
        """Return how much of an interval the machine did not starve."""
        return self._world.starvation.left_ns(interval)

    def partitions(self, deliveries: Times) -> Numbers:
        """Return the numbers of the partitions of deliveries' jobs; -1 for unknown."""
        return self._partition[self._deliveries.job[deliveries]]

    def is_held(self, partition: int, interval: Interval) -> bool:
        """Whether a partition was held all the time."""
        if partition < 0:
            return False
        start, end, _, _ = self._held(partition)
        hole = (start < interval[1]) & (end > interval[0])
        held = merge(zip(start[hole].tolist(), end[hole].tolist(), strict=True))
        return not subtract(interval, held)

    def _held(self, partition: int) -> tuple[Times, Times, Numbers, Numbers]:
        """Start, end, job and process of all that held a partition."""
        if partition not in self._holds:
            table = self._deliveries
            rows = np.flatnonzero(self._partition[table.job] == partition)
            until = _held_until(self._world, rows)
            unseen = rows[self.waits.unseen[rows]]
            nobody = np.full(len(unseen), NONE, np.int32)
            lost = self._never_read
            here = self._partition[table.job[lost.delivery]] == partition
            taken_ns = self.waits.taken_ns[rows]
            self._holds[partition] = (
                np.concatenate([taken_ns, self._last_seen(unseen), lost.from_ns[here]]),
                np.concatenate([until, table.t_ns[unseen], lost.until_ns[here]]),
                np.concatenate(
                    [table.job[rows], table.job[unseen], table.job[lost.delivery[here]]]
                ),
                np.concatenate([table.process[rows], nobody, lost.process[here]]),
            )
        return self._holds[partition]

    def _last_seen(self, deliveries: Times) -> Times:
        """When the job of each delivery was last in a worker's hands, or else ready."""
        table = self._deliveries
        before = np.maximum(deliveries - 1, 0)
        again = (deliveries > 0) & (table.job[before] == table.job[deliveries])
        seen = np.maximum(table.t_ns[before], table.ended_ns[before])
        return np.where(again, seen, self.waits.ready_ns[deliveries])

    def overdue(self, kind: int, bound_ns: int, idle: list[Interval]) -> list[tuple[int, Interval]]:
        """Find waits during which one worker was free for longer than a bound, partition unheld.

        Returns:
            (delivery, that time), at most one for each delivery: the first that breaks the bound
            without what the machine starved, or else the one with the longest such rest.
        """
        waits = self.waits
        long_ = np.flatnonzero((waits.kind == kind) & (waits.taken_ns - waits.ready_ns > bound_ns))
        found: dict[int, Interval] = {}
        for start, end in idle:
            common = np.minimum(waits.taken_ns[long_], end) - np.maximum(
                waits.ready_ns[long_], start
            )
            for delivery in long_[common > bound_ns].tolist():
                wait = (int(waits.ready_ns[delivery]), int(waits.taken_ns[delivery]))
                shared = intersect(wait, (start, end))
                known = found.get(delivery)
                if shared is None or (known and self.left_ns(known) > bound_ns):
                    continue
                part = self.longest_unheld(delivery, shared)
                if part is None or part[1] - part[0] <= bound_ns:
                    continue
                if known is None or self.left_ns(part) > self.left_ns(known):
                    found[delivery] = part
        return sorted(found.items())


def _partition_of_job(world: World) -> Numbers:
    table = world.run.dispatches
    partition = np.full(len(world.run.attempts.jobs), NONE, np.int32)
    partition[table.job[::-1]] = table.partition[::-1]
    return partition


def _gaps(world: World, longer_ns: int) -> list[Interval]:
    table, facts = world.run.attempts, world.facts
    if not len(table):
        return []
    rested = (table.event == ENDED) | (table.event == ACKED) | (table.event == GAVE_UP)
    fetches = table.event == PREFETCHED
    unannounced = facts.deliveries.received_row < 0
    fetches[facts.deliveries.pickup_row[unannounced]] = True
    same = table.process[:-1] == table.process[1:]
    at = np.flatnonzero(same & rested[:-1] & fetches[1:] & (np.diff(table.t_ns) > longer_ns))
    gaps = list(zip(table.t_ns[at].tolist(), table.t_ns[at + 1].tolist(), strict=True))
    unstarted = facts.deliveries.process[facts.deliveries.kind == UNSTARTED]
    busy = np.bincount(unstarted, minlength=len(table.processes)) > 0
    for index, process in enumerate(table.processes):
        last = process.first_row + process.rows - 1
        death_ns = int(facts.death_ns[index])
        if rested[last] and not busy[index] and death_ns != NEVER_NS:
            gaps.append((process.last_ns, death_ns))
    return [gap for gap in gaps if gap[1] - gap[0] > longer_ns]


def _held_until(world: World, rows: Times) -> Times:
    """When the partition of each delivery was surely free of it again."""
    table = world.facts.deliveries
    ended, acked = table.ended_ns[rows], table.acked_ns[rows]
    death = world.facts.death_ns[table.process[rows]]
    settled = np.where(acked >= 0, acked, np.where(ended >= 0, ended + world.ns("ack_s"), NEVER_NS))
    refused = table.kind[rows] == REFUSED
    settled = np.where(refused, table.start_ns[rows] + world.ns("ack_s"), settled)
    dead = death != NEVER_NS
    expiry = np.where(dead, death, 0) + world.ns("lease_s")
    lost = dead & (acked < 0) & ~refused
    abandoned = ~dead & (table.kind[rows] == UNSTARTED)
    settled = np.where(lost, expiry, settled)
    return np.where(abandoned, table.t_ns[rows] + 2 * world.ns("lease_s"), settled)


def _waits(world: World) -> Waits:
    table = world.facts.deliveries
    count = len(table)
    waits = Waits(
        np.full(count, NOT_JUDGED, np.int8),
        np.zeros(count, np.int64),
        claimed_ns(world),
        _unseen(world),
    )
    if count:
        _wait_first(world, waits)
        _wait_again(world, waits)
        waits.kind[waits.unseen] = NOT_JUDGED
        _wait_handed_back(world, waits)
    return waits


def _unseen(world: World) -> NDArray[np.bool_]:
    table = world.facts.deliveries
    expected = np.ones(len(table), np.int32)
    step = (table.kind[:-1] != UNSTARTED).astype(np.int32)
    same = table.job[1:] == table.job[:-1]
    expected[1:] = np.where(same, table.attempt[:-1] + step, 1)
    return table.attempt > expected


def _wait_first(world: World, waits: Waits) -> None:
    dispatches, jobs = world.run.dispatches, world.run.attempts.jobs
    ready = np.full(len(jobs), NEVER_NS, np.int64)
    sure = np.flatnonzero(dispatches.result == OK)
    np.minimum.at(ready, dispatches.job[sure], dispatches.done_ns[sure])
    due = np.full(len(jobs), NONE, np.int64)
    np.maximum.at(due, dispatches.job[sure], dispatches.not_before_ns[sure])
    first = world.facts.first[:-1][np.diff(world.facts.first) > 0]
    job = world.facts.deliveries.job[first]
    known = ready[job] != NEVER_NS
    asked = np.full(len(jobs), world.facts.end_ns, np.int64)
    np.minimum.at(asked, dispatches.job, dispatches.invoke_ns)
    waits.kind[first[known]] = DUE
    waits.ready_ns[first] = np.where(known, np.maximum(ready[job], due[job]), asked[job])


def _wait_again(world: World, waits: Waits) -> None:
    """Ready times after a run that threw, timed out or was killed."""
    table, facts = world.facts.deliveries, world.facts
    later = np.flatnonzero(table.job[1:] == table.job[:-1]) + 1
    before = later - 1
    ran = table.kind[before] == RAN
    outcome, ended, acked = table.outcome[before], table.ended_ns[before], table.acked_ns[before]
    threw = ran & (outcome == THREW)
    settled = threw & (acked >= 0)
    backoff = _backoff_ns(world, before)
    unclear = np.isin(outcome, (COMPLETED, RELEASED, FAILED))
    cut = ran & ~settled & ~unclear
    death = facts.death_ns[table.process[before]]
    last = np.where(death != NEVER_NS, death, np.maximum(ended, table.start_ns[before]))
    waits.kind[later] = np.where(settled | cut, DUE, NOT_JUDGED)
    expiry = np.maximum(last + world.ns("lease_s"), ended + backoff)
    waits.ready_ns[later] = np.where(settled, ended + backoff, expiry)


def _backoff_ns(world: World, deliveries: Times) -> Times:
    """Back-off after each delivery, by its job's dispatch and its attempt number."""
    dispatches, table = world.run.dispatches, world.facts.deliveries
    of_job = np.full(len(world.run.attempts.jobs), NONE, np.int32)
    of_job[dispatches.job[::-1]] = dispatches.backoff[::-1]
    lists = [waits or (0.0,) for waits in dispatches.backoffs] or [(0.0,)]
    width = max(len(waits) for waits in lists)
    grid = np.array([[*waits, *[waits[-1]] * (width - len(waits))] for waits in lists])
    column = np.clip(table.attempt[deliveries] - 1, 0, width - 1)
    number = of_job[table.job[deliveries]]
    wait_ns: Times = np.round(grid[np.maximum(number, 0), column] * 1e9).astype(np.int64)
    return np.where(number < 0, 0, wait_ns)


def _wait_handed_back(world: World, waits: Waits) -> None:
    """Ready times after a dead worker held the job; later where a fault took the holder too."""
    table, facts = world.facts.deliveries, world.facts
    again = np.flatnonzero((table.job[1:] == table.job[:-1]) & (table.kind[:-1] == UNSTARTED))
    death = facts.death_ns[table.process[again]]
    for before in again[death <= table.t_ns[again + 1]].tolist():
        death_ns = int(facts.death_ns[table.process[before]])
        ready_ns = death_ns
        window = first_touching(
            (*world.windows.lost, *world.windows.path),
            int(table.t_ns[before]),
            death_ns + world.ns("hand_back_s"),
        )
        if window:
            ready_ns = max(window.until_ns, death_ns + world.ns("lease_s"))
        waits.kind[before + 1] = HANDED_BACK
        waits.ready_ns[before + 1] = ready_ns
