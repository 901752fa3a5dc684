"""What a run is to be: workload, faults, size, seed and settings, checked before it starts."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import Final

import msgspec

from ..histories.host import Host
from ..histories.ops import Json
from ..histories.scenario import Scenario as StoredScenario
from ..nemesis.fault import Fault
from ..nemesis.registry import NONE
from ..system.bugs import BUGS, Bug
from ..workloads.lanes.plan import LanePlan
from ..workloads.registry import LANE, SOAK, WORKLOADS
from ..workloads.soak import SoakPlan
from .errors import UsageError, unknown_name
from .planning import check_nemeses, make_planned, name_nodes
from .request import Request
from .settings import Settings, parse_settings

__all__ = [
    "DEFAULT_WORKLOAD",
    "Request",
    "Scenario",
    "check_bugs",
    "check_nodes_and_seed",
    "check_time_limit",
    "check_workers_and_rate",
    "fresh_seed",
    "make_scenario",
    "name_nodes",
]

_NODES_MAX: Final = 9
_WORKERS_MAX: Final = 256
_RATE_MAX: Final = 10_000
_SPAN_S_MAX: Final = 86_400
_SEED_BITS: Final = 32
DEFAULT_WORKLOAD: Final = "jobs"
_LIBRARIES: Final = ("atleastonce", "trio", "httptools", "msgspec", "duckdb", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A checked request with its plan of faults.

    Attributes:
        workload: Name of the workload.
        nemeses: Names of the nemeses, at least one.
        nodes: Nodes of the cluster, odd.
        workers: Worker processes; 0 where the workload needs none.
        time_limit_s: How long clients are busy and faults injected.
        rate: Operations a second, over all clients.
        interval_s: Mean pause between faults.
        seed: Of workload and plan.
        settings: All settings, resolved.
        bugs: Planted defects.
        plan: The faults, in time order.
        notes: What was chosen for the caller, one sentence each.
        lane: The lane, where the workload is one.
        soak: The soak, likewise.
        level: What of the machine the run may use, 0 to 2.
        capture: Whether what goes over the links is recorded.
    """

    workload: str
    nemeses: tuple[str, ...]
    nodes: int
    workers: int
    time_limit_s: float
    rate: float
    interval_s: float
    seed: int
    settings: Settings
    bugs: tuple[str, ...]
    plan: tuple[Fault, ...]
    notes: tuple[str, ...] = ()
    lane: LanePlan | None = None
    soak: SoakPlan | None = None
    level: int = 0
    capture: bool = False

    @property
    def nemesis(self) -> str:
        """The nemeses' names, joined with commas."""
        return ",".join(self.nemeses)

    @property
    def node_names(self) -> tuple[str, ...]:
        """Name them n1, n2 and so on."""
        return name_nodes(self.nodes)

    @property
    def supervisor_names(self) -> tuple[str, ...]:
        """Name the supervisors: `supervisor`, `supervisor-2` and so on; nodes alone have none."""
        if not self.is_supervised:
            return ()
        replicas = 1 if self.lane is None else self.lane.lane.replicas
        return ("supervisor", *(f"supervisor-{number}" for number in range(2, replicas + 1)))

    @property
    def is_supervised(self) -> bool:
        """Whether a supervisor and its workers take part."""
        return WORKLOADS[self.workload].jobs is not None

    def stored(self, origin_ns: int, host: Host, contract: dict[str, Json]) -> StoredScenario:
        """Build what `scenario.json` holds."""
        settings: dict[str, Json] = msgspec.to_builtins(self.settings)
        size: dict[str, Json] = {
            "nodes": self.nodes,
            "workers": self.workers,
            "time_limit_s": self.time_limit_s,
            "rate": self.rate,
            "interval_s": self.interval_s,
            "level": self.level,
        }
        versions = {name: version(name) for name in _LIBRARIES}
        versions |= {"python": platform.python_version(), "kernel": platform.release()}
        return StoredScenario(
            workload=self.workload,
            nemesis=self.nemesis,
            seed=self.seed,
            origin_ns=origin_ns,
            host=host.name,
            boot=host.boot,
            settings=size | settings,
            bugs=list(self.bugs),
            versions=versions,
            plan=[fault.plain() for fault in self.plan],
            contract=contract,
        )


def make_scenario(request: Request) -> Scenario:
    """Check a request and draw its plan.

    Raises:
        UsageError: Anything in it cannot be had; the line names the value and the choices.
    """
    request, notes = _fit_to_bugs(request)
    if request.workload not in WORKLOADS:
        raise unknown_name("workload", request.workload, WORKLOADS)
    if request.workload == LANE:
        raise UsageError("workload 'lane' is run as --lane NAME; verify lanes --list names them")
    if request.workload == SOAK:
        raise UsageError("workload 'soak' is run as verify soak --minutes N")
    spec = WORKLOADS[request.workload]
    _check_size(request)
    check_nemeses(request, spec)
    settings = parse_settings(request.settings)
    seed = request.seed
    if seed is None and request.plan is not None:
        seed = request.plan.seed
    if seed is None:
        seed = fresh_seed()
    planned = make_planned(request, spec, seed, settings, name_nodes(request.nodes))
    return Scenario(
        workload=request.workload,
        nemeses=planned.nemeses,
        nodes=request.nodes,
        workers=request.workers if spec.jobs is not None else 0,
        time_limit_s=request.time_limit_s,
        rate=spec.rate if request.rate is None else request.rate,
        interval_s=request.interval_s,
        seed=seed,
        settings=settings,
        bugs=request.bugs,
        plan=planned.plan,
        notes=(*notes, *planned.notes),
        capture=request.capture,
    )


def fresh_seed() -> int:
    """Draw a seed."""
    return int.from_bytes(os.urandom(_SEED_BITS // 8), "big")


def _fit_to_bugs(request: Request) -> tuple[Request, tuple[str, ...]]:
    """Check the bugs, and choose the workload, nemesis and settings that bring them out.

    What the caller chose stays: a workload or a nemesis given by hand replaces the fitting ones,
    and a setting given by hand is read after the fitting one.
    """
    bugs = check_bugs(request.bugs)
    for bug in bugs:
        if bug.workload == LANE:
            raise UsageError(f"bug {bug.name!r} needs a lane; add --lane {bug.nemesis}")
    workload, chosen = request.workload, list[str]()
    if not workload:
        workload = bugs[0].workload if bugs else DEFAULT_WORKLOAD
        if workload != DEFAULT_WORKLOAD:
            chosen.append(workload)
    if not bugs:
        return replace(request, workload=workload), ()
    nemeses = request.nemeses
    if not nemeses and request.plan is None:
        fitting = tuple(dict.fromkeys(bug.nemesis for bug in bugs))
        nemeses = tuple(name for name in fitting if name != NONE) or (NONE,)
        chosen.append(f"--nemesis {','.join(nemeses)}")
    pairs = tuple(f"{key}={value}" for bug in bugs for key, value in bug.settings)
    chosen += [f"--set {pair}" for pair in pairs]
    notes = (f"{', '.join(request.bugs)}: chose {' '.join(chosen)}",) if chosen else ()
    fitted = replace(request, workload=workload, nemeses=nemeses, settings=pairs + request.settings)
    return fitted, notes


def check_bugs(names: Sequence[str]) -> list[Bug]:
    """Return the planted defects of these names.

    Raises:
        UsageError: One of them is unknown, or only the simulator brings it out.
    """
    for name in names:
        if name not in BUGS:
            raise unknown_name("bug", name, BUGS)
        if BUGS[name].is_simulated:
            real = ", ".join(sorted(bug.name for bug in BUGS.values() if not bug.is_simulated))
            raise UsageError(
                f"bug {name!r} lives in the simulator only (make campaign); "
                f"verify run takes: {real}"
            )
    return [BUGS[name] for name in names]


def check_nodes_and_seed(nodes: int, seed: int | None) -> None:
    """Refuse a number of nodes that makes no cluster, and a seed out of range, as UsageError."""
    if not 1 <= nodes <= _NODES_MAX or nodes % 2 == 0:
        raise UsageError(
            f"--nodes {nodes} is not allowed; choose an odd number from 1 to {_NODES_MAX}"
        )
    if seed is not None and not 0 <= seed < 1 << 63:
        raise UsageError(f"--seed {seed} is not allowed; it must be from 0 to 2**63 - 1")


def _check_size(request: Request) -> None:
    check_nodes_and_seed(request.nodes, request.seed)
    rate = WORKLOADS[request.workload].rate if request.rate is None else request.rate
    check_workers_and_rate(request.workers, rate)
    check_time_limit(request.time_limit_s)
    _check_above_0("--interval", request.interval_s, _SPAN_S_MAX)


def check_time_limit(time_limit_s: float) -> None:
    """Refuse a time limit that is out of range, as UsageError."""
    _check_above_0("--time-limit", time_limit_s, _SPAN_S_MAX)


def check_workers_and_rate(workers: int, rate: float) -> None:
    """Refuse a number of workers or a rate that is out of range, as UsageError."""
    if not 1 <= workers <= _WORKERS_MAX:
        raise UsageError(f"--workers {workers} is not allowed; choose from 1 to {_WORKERS_MAX}")
    _check_above_0("--rate", rate, _RATE_MAX)


def _check_above_0(option: str, value: float, most: float) -> None:
    if not 0 < value <= most:
        raise UsageError(f"{option} {value:g} is not allowed; it must be above 0, up to {most}")
