"""The checker of the workload `claim`: each key has one winner, and everyone agrees on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..histories.claim_ops import CLAIM, FINAL_READ, READ, Claim, Claimed, KeyValue, ReadKey
from ..histories.folder import RunRecords
from ..histories.ops import Op
from .broker_contract import CLAIM_RULES, STALLED, BrokerContract
from .broker_evidence import (
    OpEvidence,
    OpFinding,
    Paired,
    conclude_ops,
    decode_value,
    pairs_of,
    starved_times_of,
    weigh_run,
    windows_of,
)
from .stalls import judge_stalled
from .verdict import Json, Verdict


@dataclass(frozen=True, slots=True)
class Sight:
    """One operation that told a key's value; `id` is None where it told that there is none."""

    op: Paired
    id: str | None

    @property
    def done_ns(self) -> int:
        """When it ended."""
        assert self.op.end is not None, f"operation {self.op.invoke.index} told without an end"
        return self.op.end.time_ns


@dataclass(slots=True)
class Key:
    """Everything about one key.

    Attributes:
        claims: By id, each claim of it.
        winners: Claims that were told they won, by id.
        sights: Reads, and what claims were told; in order of invocation.
    """

    claims: dict[str, Paired] = field(default_factory=dict)
    winners: dict[str, Paired] = field(default_factory=dict)
    sights: list[Sight] = field(default_factory=list)


def check_claim(run: RunRecords, contract: BrokerContract) -> Verdict:
    """Judge a run by every rule of `CLAIM_RULES`."""
    evidence = weigh_run(run)
    pairs = pairs_of(run)
    keys = _derive(pairs, evidence)
    _weigh(keys, pairs, contract, evidence)
    findings = [finding for name, key in keys.items() for finding in _judge(name, key)]
    findings += judge_stalled(pairs, windows_of(run), (CLAIM,), starved_times_of(run))
    ends = Counter(
        pair.end.type if pair.end else "info" for pair in pairs if pair.invoke.f == CLAIM
    )
    sights = sum(len(key.sights) for key in keys.values())
    strength: dict[str, Json] = {
        "keys": len(keys),
        "claims": {name: ends[name] for name in ("ok", "fail", "info")},
        "winners": sum(len(key.winners) for key in keys.values()),
        "sights": sights,
        "failed_reads": sum(pair.invoke.f == READ and pair.is_fail for pair in pairs),
    }
    judged = {rule: len(keys) if rule == "two-winners" else sights for rule in CLAIM_RULES}
    judged[STALLED] = 0
    return conclude_ops(run, contract, evidence, findings, strength, judged)


def _derive(pairs: Sequence[Paired], evidence: OpEvidence) -> dict[str, Key]:
    keys: dict[str, Key] = defaultdict(Key)
    for pair in pairs:
        if pair.invoke.f == CLAIM:
            _add_claim(keys, pair, evidence)
        elif pair.invoke.f == READ and pair.is_ok and pair.end is not None:
            asked = decode_value(pair.invoke, ReadKey, evidence)
            found = decode_value(pair.end, KeyValue, evidence)
            if asked is not None and found is not None:
                keys[asked.key].sights.append(Sight(pair, found.id))
    return keys


def _add_claim(keys: dict[str, Key], pair: Paired, evidence: OpEvidence) -> None:
    asked = decode_value(pair.invoke, Claim, evidence)
    if asked is None:
        return
    key = keys[asked.key]
    if asked.id in key.claims:
        evidence.damage(f"operation {pair.invoke.index}: {asked.id} claims again")
    key.claims[asked.id] = pair
    if pair.is_ok and pair.end is not None:
        done = decode_value(pair.end, Claimed, evidence)
        if done is None:
            return
        if done.won:
            key.winners[asked.id] = pair
        key.sights.append(Sight(pair, done.current))


def _weigh(
    keys: dict[str, Key], pairs: Sequence[Paired], contract: BrokerContract, evidence: OpEvidence
) -> None:
    if not any(key.winners for key in keys.values()):
        evidence.reasons.append("no claim was won")
    nodes = {pair.invoke.node for pair in pairs if pair.invoke.f == FINAL_READ and pair.is_ok}
    if len(nodes) < contract.nodes:
        text = f"the final reads of {len(nodes)} of {contract.nodes} nodes reached their end"
        evidence.reasons.append(text)


def _judge(name: str, key: Key) -> Iterator[OpFinding]:
    if len(key.winners) > 1:
        ops = tuple(op for pair in key.winners.values() for op in pair.ops)
        told = " and ".join(key.winners)
        yield OpFinding("two-winners", f"{told} were both told that they won key {name}", ops)
    yield from _judge_nowhere(name, key)
    yield from _judge_agreement(name, key)
    yield from _judge_absent(name, key)


def _judge_nowhere(name: str, key: Key) -> Iterator[OpFinding]:
    for sight in key.sights:
        if sight.id is None:
            continue
        claim = key.claims.get(sight.id)
        if claim is None:
            why = "which nobody had claimed it with"
        elif claim.is_fail:
            why = "whose claim certainly failed"
        elif sight.done_ns < claim.invoke.time_ns:
            why = "before its claim began"
        else:
            continue
        ops = (*sight.op.ops, *(claim.ops if claim else ()))
        yield OpFinding("value-from-nowhere", f"key {name} had value {sight.id}, {why}", ops)
        return


def _judge_agreement(name: str, key: Key) -> Iterator[OpFinding]:
    """Compare with the winner that is known, else with the first value that anyone was told."""
    told = [sight for sight in key.sights if sight.id is not None]
    winner = next(iter(key.winners), told[0].id if told else None)
    for sight in told:
        # What a second winner was told is the other rule's.
        if sight.id != winner and sight.id not in key.winners:
            first = next((other.op.ops for other in told if other.id == winner), ())
            text = f"key {name} was won by {winner}, and then had value {sight.id}"
            yield OpFinding("not-the-winner", text, (*first, *sight.op.ops))
            return


def _judge_absent(name: str, key: Key) -> Iterator[OpFinding]:
    known = min(
        (sight for sight in key.sights if sight.id is not None),
        key=lambda sight: sight.done_ns,
        default=None,
    )
    if known is None:
        return
    for sight in key.sights:
        if sight.id is None and sight.op.invoke.time_ns > known.done_ns:
            ops: tuple[Op, ...] = (*known.op.ops, *sight.op.ops)
            text = f"key {name} had value {known.id}, and an operation that began later had none"
            yield OpFinding("absent-after-claim", text, ops)
            return
