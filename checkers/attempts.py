"""The `attempts` checker: is every attempt that happened accounted for?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from ..histories.folder import RunRecords
from .candidates import find_candidates
from .capacity import Capacity
from .contract import RULES, Contract
from .evidence import Evidence, weigh_evidence
from .facts import derive_facts
from .findings import Finding, doubt_reason
from .jobs import Job
from .rules_ending import (
    judge_both_ended,
    judge_completed_twice,
    judge_duplicate_dispatch,
    judge_lost,
    judge_phantom,
    judge_store_mismatch,
    judge_strangers,
)
from .rules_fleet import judge_leaks, judge_order, judge_stale_code
from .rules_numbering import judge_numbers, judge_too_few_tries, judge_too_many_tries
from .rules_pace import judge_pace
from .rules_progress import judge_hand_back_late, judge_late, judge_stall
from .rules_timing import judge_early, judge_overlap, judge_timeout
from .strength import state_strength
from .verdict import RuleResult, Valid, Verdict, Violation, worst
from .witness import make_witness
from .world import World

JudgeJob = Callable[[Job, World], Iterator[Finding]]

FEW_JOBS: Final = 1000
JUDGES: Final[dict[str, JudgeJob]] = {
    "lost": judge_lost,
    "phantom": judge_phantom,
    "duplicate-dispatch": judge_duplicate_dispatch,
    "completed-twice": judge_completed_twice,
    "overlap": judge_overlap,
    "attempt-number": judge_numbers,
    "too-few-tries": judge_too_few_tries,
    "too-many-tries": judge_too_many_tries,
    "both-ended": judge_both_ended,
    "store-mismatch": judge_store_mismatch,
    "early": judge_early,
    "timeout-not-enforced": judge_timeout,
}


def check_attempts(run: RunRecords, contract: Contract) -> Verdict:
    """Judge a run by every rule of the contract.

    A million attempts take seconds and a few hundred bytes each. In a large run, queries find the
    jobs that may break a rule; the exact rules judge those, each with its witness.

    Raises:
        OSError: A file of the run disappeared while its witnesses were read.
    """
    world = World(run, derive_facts(run), contract)
    evidence = weigh_evidence(world)
    return conclude(world, evidence, find_all(world, evidence))


def find_all(world: World, evidence: Evidence) -> list[Finding]:
    """Return what all rules find."""
    found = list(_judge_jobs(world, _candidates(world), evidence))
    if "store-mismatch" not in evidence.unjudged:
        found += judge_strangers(world)
    found += judge_leaks(world)
    found += judge_stale_code(world)
    found += judge_order(world)
    capacity = Capacity(world)
    found += judge_late(world, capacity)
    found += judge_hand_back_late(world, capacity)
    found += judge_stall(world, capacity)
    found += judge_pace(world, capacity)
    return found


def _candidates(world: World) -> Mapping[str, Iterable[int]]:
    """All jobs of a small run; of a large one those that the queries cannot rule out."""
    jobs = len(world.run.attempts.jobs)
    if jobs <= FEW_JOBS:
        return dict.fromkeys(JUDGES, range(jobs))
    return find_candidates(world)


def _judge_jobs(
    world: World, candidates: Mapping[str, Iterable[int]], evidence: Evidence
) -> Iterator[Finding]:
    gathered: dict[int, Job] = {}
    for rule, judge in JUDGES.items():
        if rule in evidence.unjudged:
            continue
        for number in candidates[rule]:
            job = gathered.get(int(number))
            if job is None:
                job = gathered[int(number)] = world.job(int(number))
            yield from judge(job, world)


def conclude(world: World, evidence: Evidence, findings: list[Finding]) -> Verdict:
    """Turn findings into a verdict with witnesses and strength."""
    waivers = world.contract.waivers
    explained: dict[str, Counter[str]] = {rule: Counter() for rule in RULES}
    doubtful: list[Finding] = []
    broken: list[Finding] = []
    for finding in findings:
        reason = finding.explained
        if reason is None and finding.rule in waivers:
            reason = f"waived: {waivers[finding.rule]}"
        if reason is not None:
            explained[finding.rule][reason] += 1
        elif finding.doubt is not None:
            doubtful.append(finding)
        else:
            broken.append(finding)
    violations = Counter(finding.rule for finding in broken)
    doubts = {
        rule: [finding.doubt or "" for finding in doubtful if finding.rule == rule]
        for rule in RULES
    }
    rules = {
        rule: RuleResult(
            valid=_valid(rule, violations[rule], bool(doubts[rule]), evidence),
            violations=violations[rule],
            explained=explained[rule].total(),
            in_doubt=len(doubts[rule]),
        )
        for rule in RULES
    }
    reasons = [doubt_reason(rule, texts) for rule, texts in doubts.items() if texts]
    whole = worst(*(result.valid for result in rules.values()))
    if evidence.reasons:
        whole = worst(whole, "unknown")
    return Verdict(
        valid=whole,
        rules=rules,
        strength=state_strength(world, rules, explained),
        violations=_witnesses(broken, world),
        reasons=[*evidence.reasons, *reasons],
        in_doubt=_witnesses(doubtful, world),
    )


def _witnesses(findings: list[Finding], world: World) -> list[Violation]:
    """The first witnesses of each rule, rules in order."""
    found: list[Violation] = []
    for rule in RULES:
        mine = [finding for finding in findings if finding.rule == rule]
        found += [make_witness(finding, world) for finding in mine[: world.contract.witnesses_max]]
    return found


def _valid(rule: str, violations: int, in_doubt: bool, evidence: Evidence) -> Valid:
    if evidence.is_damaged or rule in evidence.unjudged:
        return "unknown"
    return worst(violations == 0, "unknown" if in_doubt else True)
