"""Adds the findings of a workload's own rules to the verdict of the delivery contract."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from .evidence import Evidence
from .findings import Finding, doubt_reason
from .verdict import Json, RuleResult, Valid, Verdict, Violation, worst
from .witness import make_witness
from .world import World


def join_findings(
    world: World,
    evidence: Evidence,
    verdict: Verdict,
    findings: Iterable[Finding],
    rules: Iterable[str],
    unjudged: Iterable[str] = (),
    **strength: Mapping[str, Json],
) -> Verdict:
    """Return a verdict with further rules, their witnesses, and further figures of strength.

    Args:
        world: The run.
        evidence: Damaged evidence makes every rule unknown.
        verdict: By the delivery contract.
        findings: Of the further rules.
        rules: Names of the further rules, the one nearest to the cause first.
        unjudged: Those of them that lack evidence; without a violation they are unknown.
        strength: Figures by name.

    Raises:
        OSError: A file of the run disappeared while its witnesses were read.
    """
    order, lacking, found = list(rules), set(unjudged), list(findings)
    explained = Counter(each.rule for each in found if each.explained is not None)
    found = [each for each in found if each.explained is None]
    broken = [each for each in found if each.doubt is None]
    doubtful = [each for each in found if each.doubt is not None]
    counts = Counter(each.rule for each in broken)
    doubts = {rule: [each.doubt or "" for each in doubtful if each.rule == rule] for rule in order}
    results = {
        rule: RuleResult(
            valid=_valid(counts[rule], bool(doubts[rule]) or rule in lacking, evidence),
            violations=counts[rule],
            explained=explained[rule],
            in_doubt=len(doubts[rule]),
        )
        for rule in order
    }
    reasons = [doubt_reason(rule, texts) for rule, texts in doubts.items() if texts]
    return msgspec.structs.replace(
        verdict,
        valid=worst(verdict.valid, *(result.valid for result in results.values())),
        rules={**verdict.rules, **results},
        strength={**verdict.strength, **strength},
        violations=[*verdict.violations, *_witnesses(broken, order, world)],
        reasons=[*verdict.reasons, *reasons],
        in_doubt=[*verdict.in_doubt, *_witnesses(doubtful, order, world)],
    )


def _valid(violations: int, is_open: bool, evidence: Evidence) -> Valid:
    if evidence.is_damaged:
        return "unknown"
    return worst(not violations, "unknown" if is_open else True)


def _witnesses(findings: Sequence[Finding], order: Sequence[str], world: World) -> list[Violation]:
    """The first witnesses of each rule, rules in order."""
    found: list[Violation] = []
    for rule in order:
        mine = [finding for finding in findings if finding.rule == rule]
        found += [make_witness(finding, world) for finding in mine[: world.contract.witnesses_max]]
    return found
