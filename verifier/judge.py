"""From a run folder to a verdict, without the system."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from ..checkers.broker_contract import BrokerContract
from ..checkers.contract import ContractError, load_contract
from ..checkers.hits import count_hits
from ..checkers.verdict import RuleResult, Verdict, worst
from ..histories.errors import DamagedEvidenceError, UnknownVersionError
from ..histories.faults import Fault, group_faults, read_faults
from ..histories.ops import Json
from ..histories.scenario import Scenario as StoredScenario
from ..histories.scenario import read_scenario
from ..workloads.registry import WORKLOADS, WorkloadSpec
from .breakdowns import INVARIANT, find_breakdowns, with_breakdowns
from .errors import HarnessError
from .fault_kinds import with_fault_kinds
from .load import mix_of
from .report import Outcome
from .scenario import Scenario
from .store import RunPaths
from .tables import HITS

_HEALTH: Final = "after_the_last_fault"


class _Harness(msgspec.Struct):
    """The part of `harness.json` that bears on the verdict."""

    notes: list[str] = []
    interrupted: str = ""
    health: dict[str, Json] | None = None


def contract_of(scenario: Scenario) -> dict[str, Json]:
    """Return the workload's contract with the bounds that the scenario's size and settings give."""
    settings, jobs = scenario.settings, WORKLOADS[scenario.workload].jobs
    if jobs is None:
        plain = {"name": scenario.workload, "nodes": scenario.nodes, "lease_s": settings.lease_s}
        return msgspec.convert(plain, BrokerContract).to_json()
    contract = load_contract(
        jobs.contract,
        workers=scenario.workers * max(1, len(scenario.supervisor_names)),
        prefetch=settings.prefetch,
        lease_s=settings.retry_after_s,
    )
    contract = with_fault_kinds(contract, scenario.plan)
    if scenario.lane is not None:
        return scenario.lane.contract(contract).to_json()
    if scenario.soak is not None:
        return scenario.soak.contract(contract, mix_of(scenario)).to_json()
    return contract.to_json()


def judge(run: RunPaths) -> Outcome:
    """Judge a run by the contract in its scenario, and write `verdict.json`.

    What the harness noted makes the verdict unknown at best.

    Raises:
        HarnessError: The scenario, or the contract in it, cannot be read.
    """
    try:
        scenario = read_scenario(run.scenario)
        verdict = _spec(scenario).check(run.read(), scenario.contract)
    except (DamagedEvidenceError, UnknownVersionError, ContractError) as error:
        raise HarnessError(f"cannot judge {run.path}: {error}") from None
    verdict = with_breakdowns(verdict, find_breakdowns(run))
    strength: dict[str, Json] = dict(verdict.strength)
    hits = count_hits(_faults(run))
    if hits:
        strength[HITS] = msgspec.to_builtins(hits)
    noted, health = _seen_by_harness(run)
    if health is not None:
        strength[_HEALTH] = health
    verdict = msgspec.structs.replace(verdict, strength=strength)
    if noted:
        verdict = msgspec.structs.replace(
            verdict, valid=worst(verdict.valid, "unknown"), reasons=[*verdict.reasons, *noted]
        )
    return _finish(run, verdict)


def _spec(scenario: StoredScenario) -> WorkloadSpec:
    """Return the workload of a stored scenario.

    Raises:
        ContractError: This version does not know it.
    """
    if scenario.workload not in WORKLOADS:
        known = ", ".join(WORKLOADS)
        raise ContractError(f"unknown workload {scenario.workload!r}; choose from: {known}")
    return WORKLOADS[scenario.workload]


def unknown(run: RunPaths, reasons: Sequence[str]) -> Outcome:
    """Write and return the verdict of a run that could not be judged."""
    nothing = RuleResult(valid="unknown", violations=0, explained=0)
    names = WORKLOADS[read_scenario(run.scenario).workload].rules
    rules = dict.fromkeys((*names, INVARIANT), nothing)
    verdict = Verdict(
        valid="unknown", rules=rules, strength={}, violations=[], reasons=list(reasons)
    )
    return _finish(run, verdict)


def _seen_by_harness(run: RunPaths) -> tuple[list[str], dict[str, Json] | None]:
    """Return what makes a run unknown, and the proof of health at the end of its plan."""
    try:
        harness = msgspec.json.decode(run.harness.read_bytes(), type=_Harness)
    except FileNotFoundError:
        return ["the verifier did not end this run by itself: harness.json is missing"], None
    except msgspec.MsgspecError as error:
        return [f"harness.json cannot be read: {error}"], None
    broken_off = [f"interrupted during {harness.interrupted}"] if harness.interrupted else []
    return [*broken_off, *harness.notes], harness.health


def _finish(run: RunPaths, verdict: Verdict) -> Outcome:
    run.verdict.write_bytes(msgspec.json.format(verdict.to_json(), indent=1) + b"\n")
    scenario = read_scenario(run.scenario)
    return Outcome(
        run=run.path,
        workload=scenario.workload,
        nemesis=scenario.nemesis,
        seed=scenario.seed,
        bugs=scenario.bugs,
        origin_ns=scenario.origin_ns,
        verdict=verdict,
        faults=_faults(run),
    )


def _faults(run: RunPaths) -> Sequence[Fault]:
    try:
        return group_faults(read_faults(run.faults))
    except (DamagedEvidenceError, UnknownVersionError):
        return ()  # The checkers have said so already.
