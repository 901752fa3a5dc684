"""The checker of failure lanes: the delivery contract, and what the lane itself expects."""

from __future__ import annotations

import numpy as np

from ..histories.folder import RunRecords
from ..histories.ops import RESTART
from ..histories.table import COMPLETED, ENDED, GAVE_UP
from .attempts import conclude, find_all
from .evidence import weigh_evidence
from .facts import RAN, derive_facts
from .findings import Finding
from .jobs import Job
from .joined import join_findings
from .lane_contract import LANE_RULES, LaneContract
from .lane_counts import read_counts
from .lane_jobs import judge_lane_job
from .lane_probes import read_probes
from .lane_strangers import missing_intrusions
from .lane_whole import COUNT_POPS, judge_lane
from .verdict import Json, Verdict
from .windows import NS
from .world import World


def check_lane(run: RunRecords, lane: LaneContract) -> Verdict:
    """Judge a lane by every rule of its delivery contract, and by the lane's own.

    Raises:
        OSError: A file of the run disappeared while its witnesses were read.
    """
    world = World(run, derive_facts(run), lane.attempts)
    evidence = weigh_evidence(world)
    evidence.reasons += _missing(world, lane)
    verdict = conclude(world, evidence, find_all(world, evidence))
    findings = find_lane(world, lane)
    return join_findings(world, evidence, verdict, findings, LANE_RULES, lane=_strength(world))


def find_lane(world: World, lane: LaneContract) -> list[Finding]:
    """Return what the lane's own rules find."""
    found: list[Finding] = []
    jobs: list[Job] = []
    for group in lane.jobs:
        for name in group.jobs:
            number = world.run.attempts.jobs.find(name)
            if number is None:
                text = f"job {name} was never dispatched"
                end_ns = world.facts.end_ns
                found.append(Finding("lane-dispatch", None, text, end_ns, end_ns))
                continue
            job = world.job(number)
            jobs.append(job)
            found += judge_lane_job(job, group, world)
    return [*found, *judge_lane(world, lane, jobs)]


def _missing(world: World, lane: LaneContract) -> list[str]:
    counts = sum(op.f == COUNT_POPS and op.type == "ok" for op in world.run.ops)
    if lane.pops_per_job_max is not None and counts < 2:
        return [f"pops were counted {counts} times, which takes two"]
    restarts = sum(op.f == RESTART and op.type == "ok" for op in world.run.ops)
    if restarts < lane.restarts:
        return [f"new code was put in place {restarts} times of {lane.restarts}"]
    if lane.probes is not None and not read_probes(world):
        return ["the supervisor was never asked about itself"]
    counted = len(read_counts(world))
    if counted < len(lane.counts):
        return [f"the broker's counts were read {counted} times of {len(lane.counts)}"]
    missing = missing_intrusions(world, lane.strangers)
    return [missing] if missing else []


def _strength(world: World) -> dict[str, Json]:
    """Say how often jobs started, completed and were given up, and how long that took."""
    facts, table = world.facts.deliveries, world.run.attempts
    asked_ns = world.run.dispatches.invoke_ns
    acts_ns = table.t_ns[(table.event == ENDED) | (table.event == GAVE_UP)]
    took_s = None
    if len(asked_ns) and len(acts_ns):
        took_s = round((int(acts_ns.max()) - int(asked_ns.min())) / NS, 3)
    return {
        "took_s": took_s,
        "starts": int(np.count_nonzero(facts.kind == RAN)),
        "completed": int(np.count_nonzero(facts.outcome == COMPLETED)),
        "given_up": len(table.gave_up),
    }
