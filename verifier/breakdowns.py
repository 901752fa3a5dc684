"""Processes of the system that ended by themselves, and why, as far as their logs tell.

A fault ends a process by a signal, and a planned stop ends it with status 0. Any other end is the
system's own: a broken invariant is a defect that the system itself has found, and anything else
leaves the run without a sound verdict.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ..checkers.verdict import RuleResult, Verdict, Violation, worst
from ..histories.deaths import Death, read_deaths
from ..histories.errors import DamagedEvidenceError, UnknownVersionError
from ..histories.faults import Fault, group_faults, read_faults
from ..nemesis.registry import NEMESES
from ..workloads.lanes.application import JOB_EXIT
from .children import read_tail
from .store import RunPaths

INVARIANT: Final = "invariant"
INVARIANT_SENTENCE: Final = "a process of the system stopped because an invariant of its own broke"
_BROKEN: Final = re.compile(r"AssertionError: (?P<text>\S.*)")
_WANTED: Final = (0, None)
_MEMORY_EXIT: Final = 12
_FOLLOWS_NS: Final = 5_000_000_000


@dataclass(frozen=True, slots=True)
class Breakdown:
    """One process that ended by itself.

    Attributes:
        name: Such as `n2`, `supervisor`, `worker 4711`.
        death: Its record.
        invariant: The broken invariant with its operands; empty if none was named.
    """

    name: str
    death: Death
    invariant: str

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        if self.invariant:
            return f"{self.name} stopped because an invariant broke: {self.invariant}"
        return f"{self.name} ended by itself with exit status {self.death.exit}; see its log"


def find_breakdowns(run: RunPaths) -> Sequence[Breakdown]:
    """Find them in `deaths.jsonl`; what cannot be read there the checkers report."""
    try:
        deaths = read_deaths(run.deaths)
    except (DamagedEvidenceError, UnknownVersionError):
        return ()
    masters_ns = [death.t_ns for death in deaths if death.role == "master"]
    faults = _ending_faults(run)
    return [
        _explained(run, death)
        for death in deaths
        if _is_breakdown(death, masters_ns) and not any(_made(fault, death) for fault in faults)
    ]


def _ending_faults(run: RunPaths) -> Sequence[Fault]:
    """Faults at which a node has to end by itself, such as a disk that fails."""
    try:
        faults = group_faults(read_faults(run.faults))
    except (DamagedEvidenceError, UnknownVersionError):
        return ()
    return [fault for fault in faults if fault.kind in NEMESES and NEMESES[fault.kind].exits]


def _made(fault: Fault, death: Death) -> bool:
    """Whether a fault made a node end itself."""
    if death.role != "node" or death.node not in fault.target.split(","):
        return False
    if death.exit not in NEMESES[fault.kind].exits:
        return False
    from_ns, until_ns = fault.opened_ns, fault.healed_ns
    return from_ns is not None and from_ns <= death.t_ns <= (until_ns or death.t_ns)


def _is_breakdown(death: Death, masters_ns: Sequence[int]) -> bool:
    if (
        death.role == "stranger"
        or death.exit in _WANTED
        or (death.marker == "memory" and death.exit == _MEMORY_EXIT)
    ):
        return False
    if death.role in ("node", "master"):
        return True
    if death.exit == JOB_EXIT:
        return False
    # Without its master a worker has to end, and may be the first to say so.
    return not any(abs(death.t_ns - master_ns) < _FOLLOWS_NS for master_ns in masters_ns)


def _explained(run: RunPaths, death: Death) -> Breakdown:
    if death.role == "node" and death.node is not None:
        name, log = death.node, run.node_log(death.node)
    else:
        name = "supervisor" if death.role == "master" else f"{death.role} {death.pid}"
        log = run.log_of("supervisor")
    found = _BROKEN.findall(read_tail(log)) if death.role in ("node", "master") else []
    return Breakdown(name, death, found[-1] if found else "")


def with_breakdowns(verdict: Verdict, breakdowns: Sequence[Breakdown]) -> Verdict:
    """Add the rule `invariant` to a verdict; what else broke down makes it unknown at best."""
    broken = [b for b in breakdowns if b.invariant]
    others = [b for b in breakdowns if not b.invariant]
    rule = RuleResult(valid=not broken, violations=len(broken), explained=0)
    witnesses = [
        Violation(
            rule=INVARIANT,
            job=None,
            sentence=b.sentence,
            records=[msgspec.to_builtins(b.death) | {"file": "deaths.jsonl"}],
        )
        for b in broken
    ]
    return msgspec.structs.replace(
        verdict,
        valid=worst(verdict.valid, rule.valid, "unknown" if others else True),
        rules={**verdict.rules, INVARIANT: rule},
        violations=[*verdict.violations, *witnesses],
        reasons=[*verdict.reasons, *(b.sentence for b in others)],
    )
