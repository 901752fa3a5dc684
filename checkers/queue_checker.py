"""The checker of the workload `queue`: each message comes out as it went in, once, in order."""

from __future__ import annotations

from collections import Counter

from ..histories.folder import RunRecords
from ..histories.queue_ops import ENQUEUE
from .broker_contract import QUEUE_RULES, STALLED, BrokerContract
from .broker_evidence import (
    OpEvidence,
    conclude_ops,
    pairs_of,
    starved_times_of,
    weigh_run,
    windows_of,
)
from .queue_claims import judge_left_behind
from .queue_facts import QueueFacts, derive_queue
from .queue_rules import (
    judge_acked_twice,
    judge_internal_gap,
    judge_lost,
    judge_offsets,
    judge_overlap,
    judge_payload,
    judge_recall,
    judge_redelivered,
    judge_skip,
    judge_unexpected,
)
from .stalls import judge_stalled
from .verdict import Json, Verdict

_PER_POP = ("pop-internal-gap", "pop-skip")


def check_queue(run: RunRecords, contract: BrokerContract) -> Verdict:
    """Judge a run by every rule of `QUEUE_RULES`; 100,000 operations take some seconds."""
    evidence = weigh_run(run)
    pairs = pairs_of(run)
    facts = derive_queue(pairs, evidence)
    _weigh(facts, evidence)
    findings = [
        *judge_unexpected(facts),
        *judge_acked_twice(facts),
        *judge_redelivered(facts),
        *judge_overlap(facts, contract.clock_slack_s),
        *judge_offsets(facts),
        *judge_internal_gap(facts),
        *judge_payload(facts),
    ]
    if "lost" not in evidence.unjudged:
        findings += judge_lost(facts)
    if not facts.open_pops:
        findings += judge_skip(facts)
        findings += judge_recall(facts)
    windows = windows_of(run)
    findings += judge_left_behind(facts, windows)
    findings += judge_stalled(pairs, windows, (ENQUEUE,), starved_times_of(run))
    judged = {rule: len(facts.pops) if rule in _PER_POP else _taken(facts) for rule in QUEUE_RULES}
    judged |= {"ack-not-recalled": len(facts.again), STALLED: 0}
    return conclude_ops(run, contract, evidence, findings, _strength(facts), judged)


def _taken(facts: QueueFacts) -> int:
    return sum(len(taken) for taken in facts.taken.values())


def _weigh(facts: QueueFacts, evidence: OpEvidence) -> None:
    """Find what is missing."""
    if not any(put.answer is not None for put in facts.puts.values()):
        evidence.reasons.append("no enqueue was acknowledged")
    if not any(one.is_settled for taken in facts.taken.values() for one in taken):
        evidence.reasons.append("no delivery was acked")
    if not facts.is_drained:
        evidence.reasons.append("the queue was never seen drained")
        evidence.unjudged.add("lost")
    if facts.open_pops:
        evidence.reasons.append(f"{facts.open_pops} dequeues never ended")
        evidence.unjudged |= {"lost", "pop-skip", "ack-not-recalled"}


def _strength(facts: QueueFacts) -> dict[str, Json]:
    taken = [one for all_ in facts.taken.values() for one in all_]
    puts = facts.puts.values()
    ends = Counter(put.op.end.type if put.op.end else "info" for put in puts)
    recovered = sum(
        put.answer is None and not put.op.is_fail and id_ in facts.taken
        for id_, put in facts.puts.items()
    )
    return {
        "enqueues": {name: ends[name] for name in ("ok", "fail", "info")},
        "duplicate_answers": sum(
            put.answer is not None and put.answer.status == "duplicate" for put in puts
        ),
        "recovered": recovered,
        "pops": len(facts.pops),
        "empty_pops": sum(not pop.deliveries for pop in facts.pops),
        "unanswered_pops": len(facts.unanswered),
        "hung_up_pops": sum(pop.asked.hang_up_ms is not None for pop in facts.pops),
        "deliveries": len(taken),
        "redelivered": sum(len(all_) > 1 for all_ in facts.taken.values()),
        "acks_again": dict(Counter(ack for again in facts.again for ack in again.acks)),
        "acks": dict(Counter(one.delivery.ack for one in taken)),
    }
