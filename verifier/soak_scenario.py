"""From a request for a soak to a scenario."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ..nemesis.fault import Fault
from ..nemesis.registry import NEMESES
from ..workloads.jobs import mean_service_s
from ..workloads.registry import SOAK
from ..workloads.soak import SoakPlan, scale_of, soak_settings
from .errors import UsageError
from .load import mix_of
from .scenario import Scenario, check_nodes_and_seed, check_workers_and_rate, fresh_seed
from .settings import parse_settings

MINUTES_MIN: Final = 0.1
MINUTES_MAX: Final = 7 * 24 * 60
SCHEDULE: Final = "schedule"
"""What stands for the nemeses in the name of a soak's folder."""

_KILL: Final = "kill-worker"
_DEPLOY: Final = "term-supervisor"
_BUSY_MAX: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakRequest:
    """What the command line asked for, unchecked; a seed of None is drawn."""

    minutes: float
    rate: float
    workers: int
    nodes: int
    seed: int | None
    settings: tuple[str, ...] = ()


def make_soak_scenario(request: SoakRequest) -> Scenario:
    """Check a request and make its scenario.

    Raises:
        UsageError: Anything in it cannot be had; the line names the value and what is allowed.
    """
    if not MINUTES_MIN <= request.minutes <= MINUTES_MAX:
        raise UsageError(
            f"--minutes {request.minutes:g} is not allowed; "
            f"it must be from {MINUTES_MIN:g} to {MINUTES_MAX}"
        )
    check_nodes_and_seed(request.nodes, request.seed)
    check_workers_and_rate(request.workers, request.rate)
    load_s = round(request.minutes * 60, 3)
    scale = scale_of(load_s)
    settings = parse_settings((*soak_settings(scale), *request.settings))
    seed = fresh_seed() if request.seed is None else request.seed
    plan = SoakPlan(
        load_s=load_s,
        rate=request.rate,
        producers=settings.producers,
        nodes=tuple(f"n{number}" for number in range(1, request.nodes + 1)),
        scale=scale,
        seed=seed,
    )
    scenario = Scenario(
        workload=SOAK,
        nemeses=(SCHEDULE,),
        nodes=request.nodes,
        workers=request.workers,
        time_limit_s=load_s,
        rate=request.rate,
        interval_s=1.0,
        seed=seed,
        settings=settings,
        bugs=(),
        plan=tuple(_faults(plan, settings.down_s)),
        soak=plan,
    )
    mean_s = mean_service_s(mix_of(scenario))
    most = _BUSY_MAX * request.workers / mean_s
    if request.rate > most:
        raise UsageError(
            f"--rate {request.rate:g} would keep {request.rate * mean_s:.1f} workers busy, and "
            f"--workers is {request.workers}; the rate may be up to {most:.3g}"
        )
    return scenario


def _faults(plan: SoakPlan, down_s: float) -> Iterator[Fault]:
    """Yield the kills and the deploy, in order of time."""
    moments = [(at_s, _KILL, number) for number, at_s in enumerate(plan.kills_s, 1)]
    for at_s, kind, number in sorted([*moments, (plan.deploy_s, _DEPLOY, 1)]):
        yield Fault(
            id=f"{kind}-{number}",
            kind=kind,
            target=NEMESES[kind].target,
            at_s=round(at_s, 3),
            duration_s=0.0 if kind == _KILL else down_s,
            choice=number,
        )
