"""The checker of the workload `claim`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from atleastonce.checkers.broker_contract import CLAIM_RULES, BrokerContract
from atleastonce.checkers.claim_checker import check_claim
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.claim_ops import (
    CLAIM,
    FINAL_READ,
    READ,
    Claim,
    Claimed,
    KeyValue,
    ReadKey,
)

from .op_histories import OpHistory, broken_rules

Outcome = Literal["ok", "fail", "info"]


def judge(history: OpHistory) -> Verdict:
    return check_claim(history.run(), BrokerContract(name="claim"))


def claim(
    history: OpHistory,
    from_s: float,
    until_s: float,
    id_: str,
    current: str | None = None,
    type_: Outcome = "ok",
    key: str = "x",
) -> None:
    """One claim; it won if what it was told is its own."""
    done = Claimed(won=current == id_, current=current) if type_ == "ok" else None
    history.op(CLAIM, from_s, until_s, Claim(key=key, id=id_), done, type_, "n1")


def read(history: OpHistory, from_s: float, until_s: float, id_: str | None) -> None:
    history.op(READ, from_s, until_s, ReadKey(key="x"), KeyValue(id=id_), "ok", "n1")


def finished(history: OpHistory) -> OpHistory:
    for node in ("n1", "n2", "n3"):
        history.op(FINAL_READ, 90, 91, None, None, "ok", node)
    return history


def clean() -> OpHistory:
    history = OpHistory()
    claim(history, 1, 2, "a", "a", key="clean")
    claim(history, 1.1, 2.1, "b", "a", key="clean")
    return history


def break_two_winners(history: OpHistory) -> None:
    claim(history, 10, 11, "a", "a")
    claim(history, 10, 11, "b", "b")


def break_not_the_winner_by_a_read(history: OpHistory) -> None:
    claim(history, 10, 11, "a", "a")
    claim(history, 10, 11, "b", type_="info")
    read(history, 12, 13, "b")


def break_not_the_winner_by_a_loser(history: OpHistory) -> None:
    claim(history, 10, 11, "a", "a")
    claim(history, 10, 11, "b", type_="info")
    claim(history, 10, 11, "c", "b")


def break_not_the_winner_where_nobody_knows_who_won(history: OpHistory) -> None:
    for id_ in ("a", "b"):
        claim(history, 10, 11, id_, type_="info")
        read(history, 12, 13, id_)


def break_value_from_nowhere(history: OpHistory) -> None:
    read(history, 12, 13, "stranger")


def break_value_from_a_failed_claim(history: OpHistory) -> None:
    claim(history, 10, 11, "a", type_="fail")
    read(history, 12, 13, "a")


def break_value_before_its_claim(history: OpHistory) -> None:
    read(history, 9, 9.5, "a")
    claim(history, 10, 11, "a", "a")


def break_absent_after_claim(history: OpHistory) -> None:
    claim(history, 10, 11, "a", "a")
    read(history, 12, 13, None)


def break_stalled(history: OpHistory) -> None:
    for at_s in (40, 45, 50):
        asked = Claim(key="x", id=f"late{at_s}")
        history.op(CLAIM, at_s, at_s + 4.9, asked, None, "info", "n2")


BREAKS: dict[Callable[[OpHistory], None], str] = {
    break_two_winners: "two-winners",
    break_not_the_winner_by_a_read: "not-the-winner",
    break_not_the_winner_by_a_loser: "not-the-winner",
    break_not_the_winner_where_nobody_knows_who_won: "not-the-winner",
    break_value_from_nowhere: "value-from-nowhere",
    break_value_from_a_failed_claim: "value-from-nowhere",
    break_value_before_its_claim: "value-from-nowhere",
    break_absent_after_claim: "absent-after-claim",
    break_stalled: "stalled",
}


def test_clean_history_is_valid_by_every_rule() -> None:
    verdict = judge(finished(clean()))

    assert verdict.valid is True
    assert list(verdict.rules) == list(CLAIM_RULES)
    assert verdict.strength["winners"] == 1


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert set(BREAKS.values()) == set(CLAIM_RULES)


@pytest.mark.parametrize("break_", BREAKS)
def test_history_broken_in_one_way_breaks_that_rule_alone(
    break_: Callable[[OpHistory], None],
) -> None:
    history = finished(clean())
    break_(history)

    assert broken_rules(judge(history)) == {BREAKS[break_]}


@dataclass(frozen=True)
class Step:
    """One operation: when its effect is, how far around it reaches, and what is heard of it."""

    at_s: float
    claims: bool
    key: int
    before_s: float
    after_s: float
    fate: Literal["ok", "ok", "unknown-done", "unknown-not", "fail"]


STEPS = st.lists(
    st.builds(
        Step,
        at_s=st.integers(10, 100).map(lambda tenths: tenths / 10),
        claims=st.booleans(),
        key=st.integers(0, 2),
        before_s=st.sampled_from([0.001, 0.6]),
        after_s=st.sampled_from([0.001, 0.6]),
        fate=st.sampled_from(["ok", "ok", "unknown-done", "unknown-not", "fail"]),
    ),
    max_size=30,
)


def legal(steps: Sequence[Step]) -> OpHistory:
    """What a register that only ever takes its first value answers."""
    history, values = finished(clean()), dict[int, str]()
    for number, step in enumerate(sorted(steps, key=lambda step: step.at_s)):
        span, key = (step.at_s - step.before_s, step.at_s + step.after_s), f"key{step.key}"
        if not step.claims:
            found = KeyValue(id=values.get(step.key))
            history.op(READ, *span, ReadKey(key=key), found, "ok", "n1")
            continue
        id_ = f"id{number}"
        if step.fate in ("ok", "unknown-done"):
            values.setdefault(step.key, id_)
        type_: Outcome = "ok" if step.fate == "ok" else "info"
        if step.fate == "fail":
            type_ = "fail"
        claim(history, *span, id_, values.get(step.key), type_, key)
    return history


@settings(
    max_examples=150,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS, break_=st.sampled_from([None, *BREAKS]))
def test_legal_history_is_valid_and_broken_in_one_way_breaks_that_rule_alone(
    steps: Sequence[Step], break_: Callable[[OpHistory], None] | None
) -> None:
    history = legal(steps)
    if break_ is not None:
        break_(history)

    assert broken_rules(judge(history)) == ({BREAKS[break_]} if break_ else set())


def test_read_that_began_before_the_first_answer_may_find_nothing() -> None:
    history = finished(clean())
    claim(history, 10, 12, "a", "a")
    read(history, 11.9, 13, None)

    assert judge(history).valid is True


def test_run_without_a_winner_or_final_reads_is_unknown() -> None:
    verdict = judge(OpHistory())

    assert verdict.valid == "unknown"
    assert verdict.reasons == [
        "no claim was won",
        "the final reads of 0 of 3 nodes reached their end",
    ]
