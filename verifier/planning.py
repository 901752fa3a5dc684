"""From a request to its plan of faults: which nemeses fit the run, and what is drawn of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..nemesis.events import FIRST_JOB_STARTED
from ..nemesis.fault import Fault
from ..nemesis.packages import PACKAGES, fitting
from ..nemesis.plan import NemesisSettings, Order, make_order
from ..nemesis.plan_check import check_names_in, check_nodes, check_target
from ..nemesis.plan_file import PlanError, PlanFile, expand_plan, read_plan_file
from ..nemesis.registry import NEMESES, NONE, UnknownNemesisError, check_names
from ..nemesis.selectors import BACKEND
from ..nemesis.spec import NemesisSpec
from ..nemesis.swarm import draw_swarm
from ..workloads.registry import WorkloadSpec
from .errors import UsageError, unknown_name
from .powers import powers_of
from .request import Request
from .settings import Settings

SUPERVISOR_MARGIN_S: Final = 3.0
TIME_LIMIT_S: Final = 40.0
PLAN: Final = "plan"
"""What stands for the nemeses of a run whose plan came from a file."""

SWARM: Final = "swarm"
_SUPERVISED: Final = ("worker", "workers", "supervisor")


@dataclass(frozen=True, slots=True)
class Planned:
    """A plan.

    Attributes:
        nemeses: What it was drawn from.
        plan: The faults, in time order.
        notes: What was chosen for the caller, one sentence each.
    """

    nemeses: tuple[str, ...]
    plan: tuple[Fault, ...]
    notes: tuple[str, ...] = ()


def fits(nemesis: NemesisSpec, workload: WorkloadSpec, nodes: int, powers: frozenset[str]) -> bool:
    """Whether a workload on so many nodes runs what a nemesis hits, and the level lets it."""
    return _runs(workload, nemesis) and nodes >= nemesis.nodes_min and nemesis.needs <= powers


def _runs(workload: WorkloadSpec, nemesis: NemesisSpec) -> bool:
    """Whether a workload runs what a nemesis hits."""
    if nemesis.target == BACKEND:
        return False
    return workload.jobs is not None or not {nemesis.target, nemesis.users}.intersection(
        _SUPERVISED
    )


def fitting_nemeses(spec: WorkloadSpec) -> list[str]:
    """Name the nemeses whose target a workload runs."""
    return [name for name, known in NEMESES.items() if _runs(spec, known)]


def check_nemeses(request: Request, spec: WorkloadSpec) -> None:
    """Refuse names that nobody knows, or that do not fit the run or each other, as UsageError."""
    if request.plan is not None:
        _check_alone(request)
        return
    names = request.nemeses or (NONE,)
    for name in names:
        if name not in NEMESES and name not in PACKAGES:
            raise unknown_name("nemesis", name, (*NEMESES, *PACKAGES))
    try:
        check_names(names, PACKAGES)
    except UnknownNemesisError as error:
        raise UsageError(str(error)) from None
    for name in names:
        if name in PACKAGES and not _packages(spec, request)[name]:
            raise UsageError(
                f"package {name!r} has no nemesis for workload {spec.name!r} on {request.nodes} "
                f"nodes at level {request.level}; choose from: {', '.join(fitting_nemeses(spec))}"
            )
        if name not in PACKAGES:
            _check_fit(name, spec, request.nodes)
    _check_targets(request.targets, name_nodes(request.nodes))


def _check_targets(targets: Mapping[str, str], nodes: Sequence[str]) -> None:
    for name, target in targets.items():
        if name in PACKAGES:
            raise UsageError(
                f"--nemesis {name}={target}: a package takes no target; "
                f"name one of its nemeses: {', '.join(PACKAGES[name])}"
            )
        if name == NONE:
            raise UsageError(f"--nemesis {name}={target}: {name} takes no target")
        try:
            check_target(NEMESES[name], target)
            check_names_in(target, nodes)
        except ValueError as error:
            raise UsageError(f"--nemesis {name}={target}: {error}") from None


def name_nodes(number: int) -> tuple[str, ...]:
    """Name so many nodes."""
    return tuple(f"n{index}" for index in range(1, number + 1))


def _check_alone(request: Request) -> None:
    if request.nemeses:
        raise UsageError(f"--plan brings its own faults; leave out {','.join(request.nemeses)!r}")
    if request.swarm:
        raise UsageError("--plan brings its own faults; leave out --swarm")


def _check_fit(name: str, spec: WorkloadSpec, nodes: int) -> None:
    if nodes < NEMESES[name].nodes_min:
        raise UsageError(
            f"--nodes {nodes} leaves no quorum under {name}; "
            f"it needs at least {NEMESES[name].nodes_min} nodes"
        )
    known = fitting_nemeses(spec)
    if NEMESES[name].target == BACKEND:
        raise UsageError(
            f"nemesis {name!r} needs a server that an audited system uses, and workload "
            f"{spec.name!r} has none; choose from: {', '.join(known)}"
        )
    if name not in known:
        raise UsageError(
            f"nemesis {name!r} needs a supervisor and workers, and workload {spec.name!r} runs "
            f"nodes alone; choose from: {', '.join(known)}"
        )


def make_planned(
    request: Request, spec: WorkloadSpec, seed: int, settings: Settings, nodes: Sequence[str]
) -> Planned:
    """Draw the plan of a checked request.

    Raises:
        UsageError: It cannot be had; the line names the value and what is allowed.
    """
    if request.plan is not None:
        return _from_file(request, request.plan, spec, seed, settings, nodes)
    names = request.nemeses or (NONE,)
    packages = _packages(spec, request) if not PACKAGES.keys().isdisjoint(names) else {}
    slower: dict[str, float] = {}
    notes: tuple[str, ...] = ()
    planned = names
    if request.swarm:
        powers = powers_of(request.level)
        pool = [
            name
            for name, nemesis in NEMESES.items()
            if name != NONE and fits(nemesis, spec, len(nodes), powers)
        ]
        slower = draw_swarm(pool if names == (NONE,) else names, seed)
        names, planned = tuple(slower), (SWARM,)
        told = ", ".join(
            f"{name} every {request.interval_s * by:g} s" for name, by in slower.items()
        )
        notes = (f"swarm {seed}: {told}",)
    order = Order(
        names=names,
        seed=seed,
        time_limit_s=request.time_limit_s,
        interval_s=request.interval_s,
        settings=nemesis_settings(settings),
        packages=packages,
        targets=request.targets,
        slower=slower,
        all_of_them=not request.swarm,
    )
    try:
        plan = make_order(order)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if request.swarm and not plan:
        raise UsageError(f"time limit {request.time_limit_s:g} s is too short for a fault")
    return Planned(planned, plan, notes)


def _packages(spec: WorkloadSpec, request: Request) -> dict[str, tuple[str, ...]]:
    powers = powers_of(request.level)
    return {
        name: fitting(name, lambda nemesis: fits(nemesis, spec, request.nodes, powers))
        for name in PACKAGES
    }


def _from_file(
    request: Request,
    file: PlanFile,
    spec: WorkloadSpec,
    seed: int,
    settings: Settings,
    nodes: Sequence[str],
) -> Planned:
    try:
        plan = expand_plan(
            file,
            seed,
            request.time_limit_s,
            nemesis_settings(settings),
            _packages(spec, request) if file.draw else {},
        )
        check_nodes(plan, nodes)
        for fault in plan:
            _check_fault(fault, spec, len(nodes))
    except ValueError as error:
        raise UsageError(f"--plan {request.plan_path or 'FILE'}: {error}") from None
    return Planned((PLAN,), plan)


def _check_fault(fault: Fault, spec: WorkloadSpec, nodes: int) -> None:
    """Refuse a fault of a plan file that does not fit the run, as ValueError."""
    try:
        _check_fit(fault.kind, spec, nodes)
    except UsageError as error:
        raise ValueError(f"fault {fault.id}: {error}") from None
    if spec.jobs is None and fault.after == FIRST_JOB_STARTED:
        raise ValueError(
            f"fault {fault.id}: after {fault.after!r} needs workers, and workload "
            f"{spec.name!r} runs nodes alone"
        )


def load_plan(path: Path) -> PlanFile:
    """Read a plan file.

    Raises:
        UsageError: It cannot be read, or is no plan.
    """
    try:
        return read_plan_file(path.read_bytes())
    except OSError as error:
        raise UsageError(f"--plan {str(path)!r} cannot be read: {error.strerror}") from None
    except PlanError as error:
        raise UsageError(f"--plan {path}: {error}") from None


def time_limit_of(asked_s: float | None, plan: PlanFile | None) -> float:
    """Return the time limit that was asked for, or the plan's, or the usual one."""
    if asked_s is not None:
        return asked_s
    return TIME_LIMIT_S if plan is None or not plan.time_limit_s else plan.time_limit_s


def nemesis_settings(settings: Settings) -> NemesisSettings:
    """Return the nemesis's durations as the settings want them."""
    return NemesisSettings(
        down_s=settings.down_s,
        pause_s_min=settings.pause_s_min,
        pause_s_max=settings.pause_s_max,
        first_s=settings.first_s,
        supervisor_grace_s=settings.shutdown_grace_s + SUPERVISOR_MARGIN_S,
    )
