"""From a request for a lane to a scenario."""

from __future__ import annotations

from collections.abc import Iterable

from ..nemesis.fault import Fault
from ..nemesis.registry import NEMESES
from ..system.bugs import BUGS
from ..workloads.lanes.defects import CATCHES
from ..workloads.lanes.lane import PROFILES, Lane, Profile
from ..workloads.lanes.plan import LanePlan, lane_settings, plan_lane
from ..workloads.lanes.registry import LANES
from ..workloads.registry import LANE
from .errors import UsageError, unknown_name
from .scenario import Request, Scenario, check_bugs, check_nodes_and_seed, fresh_seed, make_scenario
from .settings import parse_settings

DEFAULT_PROFILE = "plain"


def make_any_scenario(request: Request) -> Scenario:
    """Check a request, for a lane or for another workload, and make its scenario.

    A planted defect that only a lane brings out chooses that lane.

    Raises:
        UsageError: Anything in it cannot be had; the line names the value and the choices.
    """
    if request.capture and request.lane:
        raise UsageError("--capture records runs of a workload, not of a lane")
    if request.lane:
        return make_lane_scenario(request, request.lane)
    if request.profile:
        raise UsageError(f"--profile {request.profile!r} goes with --lane NAME")
    wanted = [name for name in request.bugs if name in BUGS and BUGS[name].workload == LANE]
    if wanted and not request.workload and not request.nemeses:
        return make_lane_scenario(request, CATCHES[wanted[0]].lane)
    return make_scenario(request)


def make_lane_scenario(request: Request, name: str) -> Scenario:
    """Make the scenario of a lane.

    Raises:
        UsageError: The lane, its profile or a setting cannot be had.
    """
    lane = find_lane(name)
    check_bugs(request.bugs)
    caught = [CATCHES[bug] for bug in request.bugs if bug in CATCHES]
    fitting = [catch for catch in caught if catch.lane == name]
    profile_name = request.profile or (fitting[0].profile if fitting else DEFAULT_PROFILE)
    profile = find_profile(profile_name)
    if profile.name in lane.not_in:
        raise UsageError(
            f"lane {name!r} has no profile {profile.name}: {lane.not_in[profile.name]}"
        )
    if request.workload not in ("", LANE) or request.nemeses:
        given = request.workload or f"--nemesis {','.join(request.nemeses)}"
        raise UsageError(f"--lane {name} brings its own jobs and fault; leave out {given}")
    if request.plan is not None or request.swarm:
        given = "--swarm" if request.swarm else "--plan"
        raise UsageError(f"--lane {name} brings its own fault; leave out {given}")
    nodes = lane.nodes if request.lane_nodes is None else request.lane_nodes
    check_nodes_and_seed(nodes, request.seed)
    pairs = tuple(pair for catch in fitting for pair in catch.settings) + request.settings
    scale = _scale_of(pairs) or lane.scale
    settings = parse_settings((*lane_settings(lane, profile, scale), *pairs))
    seed = fresh_seed() if request.seed is None else request.seed
    plan = plan_lane(lane, profile, seed, scale)
    chosen = [] if request.lane else [f"--lane {name}"]
    if fitting and not request.profile:
        chosen.append(f"--profile {profile.name}")
    chosen += [f"--set {pair}" for catch in fitting for pair in catch.settings]
    notes = (f"{', '.join(request.bugs)}: chose {' '.join(chosen)}",) if chosen else ()
    return Scenario(
        workload=LANE,
        nemeses=(plan.name,),
        nodes=nodes,
        workers=lane.workers,
        time_limit_s=round(lane.lane_s * scale + lane.margin_s, 3),
        rate=1.0,
        interval_s=1.0,
        seed=seed,
        settings=settings,
        bugs=request.bugs,
        plan=_faults(plan),
        notes=notes,
        lane=plan,
    )


def _faults(plan: LanePlan) -> tuple[Fault, ...]:
    """Return the lane's faults, which begin when their moment has come."""
    return tuple(
        Fault(
            id=f"{fault.kind}-{number}",
            kind=fault.kind,
            target=NEMESES[fault.kind].target,
            at_s=0.0,
            duration_s=fault.down_s,
        )
        for fault in (plan.fault, plan.also)
        if fault is not None
        for number in range(1, (plan.lane.replicas if fault.each else 1) + 1)
    )


def find_lane(name: str) -> Lane:
    """Return a lane by name; UsageError names the choices."""
    if name not in LANES:
        raise unknown_name("lane", name, LANES)
    return LANES[name]


def find_profile(name: str) -> Profile:
    """Return a profile by name; UsageError names the choices."""
    if name not in PROFILES:
        raise unknown_name("profile", name, PROFILES)
    return PROFILES[name]


def _scale_of(pairs: Iterable[str]) -> float:
    """Return the scale that the caller set; 0 for the lane's own."""
    given = [pair for pair in pairs if pair.partition("=")[0].strip() == "lane_scale"]
    return parse_settings(given).lane_scale
