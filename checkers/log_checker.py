"""The checker of the workload `log`: an append-only log that every node agrees on."""

from __future__ import annotations

from collections import Counter

from ..histories.folder import RunRecords
from ..histories.log_ops import SEND
from .broker_contract import LOG_RULES, STALLED, BrokerContract
from .broker_evidence import (
    OpEvidence,
    conclude_ops,
    pairs_of,
    starved_times_of,
    weigh_run,
    windows_of,
)
from .log_facts import LogFacts, derive_log
from .log_rules_polls import judge_poll_order, judge_within_polls
from .log_rules_sends import (
    judge_duplicate,
    judge_g0,
    judge_g1a,
    judge_inconsistent,
    judge_lost_write,
    judge_send_order,
    judge_torn,
    judge_unseen,
    judge_within_transactions,
)
from .stalls import judge_stalled
from .verdict import Json, Verdict

_OF_POLLS = (
    "poll-skip",
    "nonmonotonic-poll",
    "int-poll-skip",
    "int-nonmonotonic-poll",
    "offset-gap",
    "empty-below-hwm",
)
_OF_TRANSACTIONS = ("G0", "int-nonmonotonic-send", "int-send-skip", "torn")


def check_log(run: RunRecords, contract: BrokerContract) -> Verdict:
    """Judge a run by every rule of `LOG_RULES`; a hundred thousand operations take some seconds."""
    evidence = weigh_run(run)
    pairs = pairs_of(run)
    facts = derive_log(pairs, evidence)
    _weigh(facts, contract, evidence)
    lost_writes = list(judge_lost_write(facts))
    names = {name for finding in lost_writes for name in finding.about}
    lost = {record for record in facts.sent if f"k{record.key}-{record.value}" in names}
    findings = [
        *lost_writes,
        *judge_unseen(facts, lost),
        *judge_duplicate(facts),
        *judge_inconsistent(facts),
        *judge_g1a(facts),
        *judge_g0(facts),
        *judge_send_order(facts),
        *judge_within_transactions(facts),
        *judge_poll_order(facts),
        *judge_within_polls(facts),
        *judge_torn(facts),
        *judge_stalled(pairs, windows_of(run), (SEND,), starved_times_of(run)),
    ]
    return conclude_ops(run, contract, evidence, findings, _strength(facts), _judged(facts))


def _judged(facts: LogFacts) -> dict[str, int]:
    transactions = sum(append.asked.txn for append in facts.sends)
    return {
        rule: len(facts.reads)
        if rule in _OF_POLLS
        else transactions
        if rule in _OF_TRANSACTIONS
        else len(facts.sent)
        for rule in LOG_RULES
        if rule != STALLED
    }


def _weigh(facts: LogFacts, contract: BrokerContract, evidence: OpEvidence) -> None:
    """Find what is missing."""
    if not any(append.op.is_ok for append in facts.sends):
        evidence.reasons.append("no send was acknowledged")
    if not facts.read:
        evidence.reasons.append("no record was ever read")
    if len(facts.finals) < contract.nodes:
        evidence.reasons.append(
            f"the final reads of {len(facts.finals)} of {contract.nodes} nodes reached their end"
        )
        if not facts.finals:
            evidence.unjudged.add("unseen")


def _strength(facts: LogFacts) -> dict[str, Json]:
    ends = Counter(append.op.end.type if append.op.end else "info" for append in facts.sends)
    recovered = sum(
        not append.op.is_ok and not append.op.is_fail and record in facts.read
        for record, append in facts.sent.items()
    )
    return {
        "sends": {name: ends[name] for name in ("ok", "fail", "info")},
        "transactions": sum(append.asked.txn for append in facts.sends),
        "records": len(facts.sent),
        "recovered": recovered,
        "keys": len({record.key for record in facts.sent}),
        "polls": len(facts.reads),
        "failed_polls": facts.failed_reads,
        "records_read": len(facts.read),
        "final_reads": {node: len(seen) for node, seen in sorted(facts.finals.items())},
    }
