"""What both checkers of broker operations share: pairs, findings, and their way to a verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from ..histories.folder import RunRecords
from ..histories.ops import Op, pair_ops
from .broker_contract import BrokerContract
from .contract import load_contract
from .evidence import find_unbitten
from .findings import doubt_reason
from .starvation import Starvation
from .verdict import Json, RuleResult, Valid, Verdict, Violation, worst
from .windows import NS, Windows
from .world import starvation_of

T = TypeVar("T")

_AROUND_NS = 5 * NS
_SHORT = 4


@dataclass(frozen=True, slots=True)
class OpFinding:
    """One thing that breaks a rule.

    Attributes:
        rule: Name of the rule.
        sentence: What happened.
        ops: The operations that show it.
        about: Texts; the witness keeps those parts of long lists that hold one of them.
        doubt: Why it proves nothing, the machine having been starved; None where it does.
    """

    rule: str
    sentence: str
    ops: tuple[Op, ...]
    about: tuple[str, ...] = ()
    doubt: str | None = None


@dataclass(slots=True)
class OpEvidence:
    """What is missing, or speaks against the records.

    Attributes:
        reasons: Why a verdict that finds no violation is unknown.
        unjudged: Rules that cannot be judged.
        is_damaged: Records are damaged, so that even a violation may be an artefact.
    """

    reasons: list[str] = field(default_factory=list)
    unjudged: set[str] = field(default_factory=set)
    is_damaged: bool = False

    def damage(self, text: str) -> None:
        """Note a record that cannot be read."""
        self.is_damaged = True
        self.reasons.append(f"damaged evidence: {text}")


@dataclass(frozen=True, slots=True)
class Paired:
    """One operation.

    Attributes:
        invoke: Its invocation.
        end: Its completion, if it has one.
    """

    invoke: Op
    end: Op | None

    @property
    def is_ok(self) -> bool:
        """Whether it ended ok."""
        return self.end is not None and self.end.type == "ok"

    @property
    def is_fail(self) -> bool:
        """Whether it certainly did not happen."""
        return self.end is not None and self.end.type == "fail"

    @property
    def ops(self) -> tuple[Op, ...]:
        """Its records."""
        return (self.invoke,) if self.end is None else (self.invoke, self.end)


def pairs_of(run: RunRecords) -> list[Paired]:
    """Pair invocations and completions, in order of invocation."""
    return [Paired(invoke, end) for invoke, end in pair_ops(run.ops)]


def windows_of(run: RunRecords) -> Windows:
    """Return the windows of its faults."""
    last_ns = max((op.time_ns for op in run.ops), default=0)
    return Windows(run.faults, load_contract(), last_ns)


def starved_times_of(run: RunRecords) -> Starvation:
    """Return when the machine starved nodes or clients."""
    return starvation_of(run, load_contract().bounds)


def decode_value(op: Op, kind: type[T], evidence: OpEvidence) -> T | None:
    """Read an operation's value; one that is not of its kind is damage."""
    try:
        return msgspec.convert(op.value, kind)
    except msgspec.ValidationError as error:
        evidence.damage(f"operation {op.index} ({op.f}): {error}")
        return None


def weigh_run(run: RunRecords) -> OpEvidence:
    """Look for damage, and for faults that never bit."""
    evidence = OpEvidence()
    for damage in run.damage:
        evidence.damage(str(damage))
    evidence.reasons += find_unbitten(run)
    return evidence


def conclude_ops(
    run: RunRecords,
    contract: BrokerContract,
    evidence: OpEvidence,
    findings: Sequence[OpFinding],
    strength: Mapping[str, Json],
    judged: Mapping[str, int],
) -> Verdict:
    """Turn findings into a verdict with witnesses and strength.

    Args:
        run: The records.
        contract: What it is judged by.
        evidence: What is missing.
        findings: What the rules found.
        strength: What the verdict rests on.
        judged: By rule, how many things it looked at; three divided by it is the upper 95 % bound
            on the rate of a violation that was not seen.
    """
    broken = [finding for finding in findings if finding.doubt is None]
    doubtful = [finding for finding in findings if finding.doubt is not None]
    violations = Counter(finding.rule for finding in broken)
    doubts = {
        rule: [finding.doubt or "" for finding in doubtful if finding.rule == rule]
        for rule in contract.rules
    }
    windows = windows_of(run)
    rules = {
        rule: RuleResult(
            valid=_valid(rule, violations[rule], bool(doubts[rule]), evidence),
            violations=violations[rule],
            explained=0,
            in_doubt=len(doubts[rule]),
        )
        for rule in contract.rules
    }
    reasons = [doubt_reason(rule, texts) for rule, texts in doubts.items() if texts]
    whole = worst(*(result.valid for result in rules.values()))
    if evidence.reasons:
        whole = worst(whole, "unknown")
    bounds: dict[str, Json] = {
        rule: min(1.0, 3 / judged[rule])
        for rule in contract.rules
        if judged.get(rule) and rules[rule].valid is True
    }
    kinds = Counter(window.fault.kind for window in windows.all)
    starvation = starved_times_of(run).to_json()
    return Verdict(
        valid=whole,
        rules=rules,
        strength={
            **strength,
            "fault_windows": dict(kinds),
            **({"starvation": starvation} if starvation else {}),
            "bounds_95": bounds,
        },
        violations=_witnesses(broken, contract, windows),
        reasons=[*evidence.reasons, *reasons],
        in_doubt=_witnesses(doubtful, contract, windows),
    )


def _valid(rule: str, violations: int, in_doubt: bool, evidence: OpEvidence) -> Valid:
    if evidence.is_damaged or rule in evidence.unjudged:
        return "unknown"
    return worst(violations == 0, "unknown" if in_doubt else True)


def _witnesses(
    findings: Sequence[OpFinding], contract: BrokerContract, windows: Windows
) -> list[Violation]:
    """The first witnesses of each rule, rules in order."""
    found: list[Violation] = []
    for rule in contract.rules:
        mine = [finding for finding in findings if finding.rule == rule]
        found += [_witness(finding, windows) for finding in mine[: contract.witnesses_max]]
    return found


def _witness(finding: OpFinding, windows: Windows) -> Violation:
    ops = sorted({op.index: op for op in finding.ops}.values(), key=lambda op: op.index)
    times = [op.time_ns for op in ops] or [0]
    around = windows.around(min(times) - _AROUND_NS, max(times) + _AROUND_NS)
    return Violation(
        rule=finding.rule,
        job=None,
        sentence=finding.sentence
        if finding.doubt is None
        else f"{finding.sentence}. But {finding.doubt}",
        records=[_plain(op, finding.about) for op in ops],
        faults=[window.to_json() for window in around],
    )


def _plain(op: Op, about: tuple[str, ...]) -> dict[str, Json]:
    fields: dict[str, Json] = msgspec.to_builtins(op)
    return {"file": "history.jsonl", **fields, "value": _cut(op.value, about)}


def _cut(value: Json, about: tuple[str, ...]) -> Json:
    """Leave out of long lists what is not about the finding."""
    if isinstance(value, dict):
        return {key: _cut(inner, about) for key, inner in value.items()}
    if isinstance(value, list) and about and len(value) > _SHORT:
        kept = [_cut(inner, about) for inner in value if _holds(inner, about)]
        return kept or value[:1]
    return value


def _holds(value: Json, about: tuple[str, ...]) -> bool:
    if isinstance(value, dict):
        return any(_holds(inner, about) for inner in value.values())
    if isinstance(value, list):
        return any(_holds(inner, about) for inner in value)
    return value in about
