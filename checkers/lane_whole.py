"""Rules of a failure lane about the whole of it: failed ids, workers, time, idleness, pops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ..histories.ops import STOP
from ..histories.table import COMPLETED, TIMED_OUT
from .facts import NEVER_NS, RAN
from .findings import Finding, seconds
from .intervals import longest, merge, subtract
from .jobs import Job
from .lane_contract import LaneContract
from .lane_counts import judge_counts
from .lane_jobs import late_fault
from .lane_probes import judge_probes
from .lane_strangers import judge_intrusions
from .windows import NS
from .world import World

COUNT_POPS: Final = "count-pops"
"""Operation whose ok value holds `pops`: how often the workers had asked the broker by then."""

_NAMED_MAX: Final = 5


def judge_lane(world: World, lane: LaneContract, jobs: Sequence[Job]) -> Iterator[Finding]:
    """Yield what the lane as a whole did otherwise than expected; `jobs` are those it expects."""
    yield from _judge_failed(world, lane)
    yield from _judge_again(world, lane, jobs)
    yield from _judge_workers(world, lane)
    yield from _judge_old_workers(world)
    yield from _judge_time(world, lane, jobs)
    yield from _judge_idle(world, lane, jobs)
    yield from _judge_bursts(lane, jobs)
    yield from judge_probes(world, lane.probes)
    yield from _judge_pops(world, lane)
    yield from judge_counts(world, lane.counts)
    yield from judge_intrusions(world)


def _judge_failed(world: World, lane: LaneContract) -> Iterator[Finding]:
    names = world.run.attempts.jobs
    expected = {job for group in lane.jobs if group.ends == "failed" for job in group.jobs}
    recorded = {names[int(world.run.attempts.job[row])] for row in world.run.attempts.gave_up}
    places = [("give-up records", recorded)]
    for place, stored in (("dead letters", world.stores.letters), ("rows", world.stores.rows)):
        if stored is not None:
            places.append((place, {names[number] for number in stored}))
    end_ns = world.facts.end_ns
    for place, found in places:
        for what, wrong in (("lack", expected - found), ("also name", found - expected)):
            if wrong:
                shown = ", ".join(sorted(wrong)[:_NAMED_MAX])
                more = f" and {len(wrong) - _NAMED_MAX} more" if len(wrong) > _NAMED_MAX else ""
                text = f"the {place} {what} {shown}{more}; {len(expected)} jobs should be given up"
                yield Finding("lane-failed", None, text, end_ns, end_ns)


def _judge_again(world: World, lane: LaneContract, jobs: Sequence[Job]) -> Iterator[Finding]:
    again = sum(len(job.runs) > 1 for job in jobs)
    if again < lane.again_min:
        text = f"{again} jobs ran again after the fault; the lane expects {lane.again_min} at least"
        ended_ns = max((run.end_ns for job in jobs for run in job.runs), default=NEVER_NS)
        doubt = late_fault(world, ended_ns)
        yield Finding(
            "lane-starts", None, text, world.facts.end_ns, world.facts.end_ns, doubt=doubt
        )


def _judge_workers(world: World, lane: LaneContract) -> Iterator[Finding]:
    table, end_ns = world.facts.deliveries, world.facts.end_ns
    ran = len(np.unique(table.process[table.kind == RAN]))
    if ran < lane.pids_min:
        text = f"{ran} processes ran jobs; the lane expects {lane.pids_min} at least"
        yield Finding("lane-workers", None, text, end_ns, end_ns)
    yield from _judge_killed(world, lane)
    if lane.deaths_max is None:
        return
    deaths = world.facts.worker_deaths_ns[world.facts.worker_deaths_ns < _stop_ns(world)]
    if len(deaths) > lane.deaths_max:
        text = f"{len(deaths)} workers died before the end; the lane allows {lane.deaths_max}"
        yield Finding("lane-workers", None, text, int(deaths[0]), int(deaths[-1]))


def _judge_killed(world: World, lane: LaneContract) -> Iterator[Finding]:
    killed = [
        death.t_ns
        for death in world.run.deaths
        if death.role == "worker" and death.signal and death.marker is None
    ]
    killed = [at for at in killed if at < _stop_ns(world)]
    if lane.killed_max is not None and len(killed) > lane.killed_max:
        text = (
            f"{len(killed)} workers were killed before the end; the lane allows {lane.killed_max}"
        )
        yield Finding("lane-workers", None, text, killed[0], killed[-1])


def _stop_ns(world: World) -> int:
    asked = (op.time_ns for op in world.run.ops if op.f == STOP and op.type == "invoke")
    return min(asked, default=world.facts.end_ns)


def _judge_old_workers(world: World) -> Iterator[Finding]:
    table, leak_ns = world.facts.deliveries, world.ns("leak_s")
    for index in np.flatnonzero(table.outcome == TIMED_OUT).tolist():
        ended_ns = int(table.ended_ns[index])
        process = int(table.process[index])
        death_ns = min(int(world.facts.death_ns[process]), _stop_ns(world))
        if death_ns > ended_ns + leak_ns:
            pid = world.run.attempts.processes[process].pid
            yield Finding(
                "lane-old-worker",
                int(table.job[index]),
                f"worker process {pid} lived on for {seconds(death_ns - ended_ns)} after the "
                f"timeout of attempt {int(table.attempt[index])} had ended it",
                ended_ns,
                death_ns,
                doubt=world.starvation.doubt((ended_ns, death_ns), leak_ns),
            )


def _over_ns(job: Job) -> int:
    """When the last thing about a job was done; `NEVER_NS` for one that never ended."""
    ends = [run.ended_ns for run in job.deliveries if run.outcome == COMPLETED]
    ends += [entry.t_ns for entry in job.given_up]
    return max(ends, default=NEVER_NS)


def _accepted(jobs: Sequence[Job]) -> list[Job]:
    return [job for job in jobs if job.is_acknowledged]


def _judge_time(world: World, lane: LaneContract, jobs: Sequence[Job]) -> Iterator[Finding]:
    accepted = _accepted(jobs)
    if not accepted:
        return
    begun_ns = min(job.first_invoke_ns for job in accepted)
    late = [job for job in accepted if _over_ns(job) > begun_ns + round(lane.lane_s_max * NS)]
    if not late:
        return
    last = max(late, key=_over_ns)
    never = _over_ns(last) == NEVER_NS
    over_ns = world.facts.end_ns if never else _over_ns(last)
    took = (
        "never ended" if never else f"ended {seconds(over_ns - begun_ns)} after the first dispatch"
    )
    text = f"it {took}; the lane may take {lane.lane_s_max:g} s, and {len(late)} jobs took longer"
    doubt = world.starvation.doubt((begun_ns, over_ns), round(lane.lane_s_max * NS))
    yield Finding("lane-time", last.number, text, begun_ns, over_ns, doubt=doubt)


def _judge_idle(world: World, lane: LaneContract, jobs: Sequence[Job]) -> Iterator[Finding]:
    """A time in which jobs were still to be done and none ran, by the records alone."""
    table, end_ns = world.facts.deliveries, world.facts.end_ns
    ran = np.flatnonzero(table.kind == RAN)
    busy = merge(
        (int(table.start_ns[index]), min(int(table.end_ns[index]), end_ns)) for index in ran
    )
    wanted = merge((_since_ns(job), min(_over_ns(job), end_ns)) for job in _accepted(jobs))
    quiet = longest(gap for span in wanted for gap in subtract(span, busy))
    if quiet is None:
        return
    start, end = quiet
    if end - start > lane.idle_s_max * NS:
        text = (
            f"no job ran for {seconds(end - start)} though jobs were still to be done; the lane "
            f"allows {lane.idle_s_max:g} s"
        )
        doubt = world.starvation.doubt((start, end), round(lane.idle_s_max * NS))
        yield Finding("lane-idle", None, text, start, end, doubt=doubt)


def _since_ns(job: Job) -> int:
    return min(dispatch.done_ns for dispatch in job.dispatches if dispatch.done_ns >= 0)


def _judge_bursts(lane: LaneContract, jobs: Sequence[Job]) -> Iterator[Finding]:
    for group in lane.jobs:
        names = set(group.jobs)
        starts = sorted(run.start_ns for job in jobs if job.name in names for run in job.runs)
        if not group.burst_max or not starts:
            continue
        early = [at for at in starts if at <= starts[0] + round(group.burst_s * NS)]
        if len(early) > group.burst_max:
            text = (
                f"{len(early)} runs began within {group.burst_s:g} s of the first one; the lane "
                f"allows {group.burst_max}"
            )
            yield Finding("lane-burst", None, text, early[0], early[-1])


def _judge_pops(world: World, lane: LaneContract) -> Iterator[Finding]:
    if lane.pops_per_job_max is None:
        return
    counts = [
        (op.time_ns, int(str(op.value["pops"])))
        for op in world.run.ops
        if op.f == COUNT_POPS and op.type == "ok" and isinstance(op.value, dict)
    ]
    jobs = sum(len(group.jobs) for group in lane.jobs)
    if len(counts) < 2:
        return
    (from_ns, before), (until_ns, after) = counts[0], counts[-1]
    ratio = (after - before) / jobs
    if ratio > lane.pops_per_job_max:
        text = (
            f"the workers asked {after - before} times for {jobs} jobs: {ratio:.2f} a job; the "
            f"lane allows {lane.pops_per_job_max:g}"
        )
        yield Finding("lane-pops", None, text, from_ns, until_ns)
