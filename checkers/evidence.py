"""Whether the evidence suffices for a verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..histories.folder import RunRecords
from ..histories.ops import DRAIN, READ_DEAD_LETTERS, READ_FAILED_JOBS
from .world import World

_REASONS_MAX = 20


@dataclass(slots=True)
class Evidence:
    """What is missing.

    Attributes:
        reasons: Why a verdict that finds no violation is unknown.
        unjudged: Rules that cannot be judged.
        is_damaged: Records are damaged or contradict each other, so that even a violation may be
            an artefact: every rule is unknown.
    """

    reasons: list[str] = field(default_factory=list)
    unjudged: set[str] = field(default_factory=set)
    is_damaged: bool = False


def weigh_evidence(world: World) -> Evidence:
    """Look for everything that forbids a plain verdict."""
    evidence = Evidence()
    _weigh_damage(world, evidence)
    if not len(world.facts.deliveries):
        evidence.reasons.append("no attempt was recorded")
    _weigh_end(world, evidence)
    evidence.reasons += find_unbitten(world.run)
    return evidence


def _weigh_damage(world: World, evidence: Evidence) -> None:
    run = world.run
    reasons = [f"damaged evidence: {damage}" for damage in run.damage]
    reasons += [f"contradiction: {text}" for text in world.facts.inconsistencies]
    boots = {(process.host, process.boot) for process in run.attempts.processes}
    if len(boots) > 1:
        reasons.append(f"records of {len(boots)} boots or hosts have no common clock")
    evidence.is_damaged = bool(reasons)
    evidence.reasons += reasons[:_REASONS_MAX]
    if len(reasons) > _REASONS_MAX:
        evidence.reasons.append(f"and {len(reasons) - _REASONS_MAX} more like these")


def _weigh_end(world: World, evidence: Evidence) -> None:
    ends = {op.f for op in world.run.ops if op.type == "ok"}
    if DRAIN not in ends:
        evidence.reasons.append("the system was never seen drained")
        evidence.unjudged.add("lost")
    for f, what in ((READ_DEAD_LETTERS, "dead letters"), (READ_FAILED_JOBS, "failed-job store")):
        if f not in ends:
            evidence.reasons.append(f"the {what} were never read back")
            evidence.unjudged |= {"store-mismatch", "lost"}


def find_unbitten(run: RunRecords) -> list[str]:
    """Return a reason for each fault that was planned or opened and never bit."""
    reasons: list[str] = []
    bitten = {fault.id for fault in run.faults if fault.bit}
    planned = {fault.id: fault.kind for fault in run.faults}
    if run.scenario is None:
        reasons.append("there is no scenario.json, so nobody knows which faults were planned")
    else:
        for fault in run.scenario.plan:
            planned.setdefault(str(fault.get("id")), str(fault.get("kind")))
    for id_, kind in planned.items():
        if id_ not in bitten:
            reasons.append(f"fault {id_} ({kind}) was planned and never seen in effect")
    return reasons
