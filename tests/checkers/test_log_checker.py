"""The checker of the workload `log`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from atleastonce.checkers.broker_contract import LOG_RULES, BrokerContract
from atleastonce.checkers.log_checker import check_log
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.log_ops import SentRecord

from .log_breaks import BREAKS
from .log_histories import (
    STEPS,
    Model,
    Step,
    entry,
    finally_read,
    polled,
    sent,
    write_final_reads,
)
from .op_histories import OpHistory, broken_rules

Break = Callable[[OpHistory], None]


def judge(history: OpHistory) -> Verdict:
    return check_log(history.run(), BrokerContract(name="log"))


def clean() -> OpHistory:
    """Three records of one key, read by one client with a stale look in between."""
    history = OpHistory()
    for value in range(3):
        sent(history, 1 + value, (0, value), offsets=(value,), process="s")
    polled(history, 5, entry(0, 0, 2, (0, 0), (1, 1)), process="p")
    polled(history, 6, entry(0, 2, 2), process="p")
    polled(history, 7, entry(0, 2, 3, (2, 2)), process="p")
    return history


def finished(history: OpHistory) -> OpHistory:
    write_final_reads(history, {0: [SentRecord(0, value) for value in range(3)]})
    return history


def test_clean_history_is_valid_by_every_rule() -> None:
    verdict = judge(finished(clean()))

    assert verdict.valid is True
    assert list(verdict.rules) == list(LOG_RULES)
    assert verdict.reasons == []
    assert verdict.strength["final_reads"] == {"n1": 3, "n2": 3, "n3": 3}


def test_every_rule_has_a_history_that_breaks_it() -> None:
    assert set.union(*BREAKS.values()) == set(LOG_RULES)


@pytest.mark.parametrize(
    ("break_", "rules"), BREAKS.items(), ids=lambda x: getattr(x, "__name__", "")
)
def test_history_broken_in_one_way_breaks_that_rule(break_: Break, rules: set[str]) -> None:
    history = finished(clean())
    break_(history)

    verdict = judge(history)

    assert broken_rules(verdict) == rules
    assert verdict.valid is False


@settings(
    max_examples=150,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS, txn=st.booleans())
def test_legal_history_breaks_no_rule(steps: Sequence[Step], txn: bool) -> None:
    verdict = judge(Model(steps, txn).run())

    assert broken_rules(verdict) == set(), verdict.violations


@settings(
    max_examples=100,
    phases=(Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(steps=STEPS, txn=st.booleans(), break_=st.sampled_from(list(BREAKS)))
def test_legal_history_broken_in_one_way_breaks_that_rule(
    steps: Sequence[Step], txn: bool, break_: Break
) -> None:
    history = Model(steps, txn).run()
    break_(history)

    assert broken_rules(judge(history)) == BREAKS[break_]


def test_node_that_is_behind_is_not_wrong() -> None:
    history = finished(clean())
    polled(history, 8, entry(0, 0, 1, (0, 0)), process="q", node="n2")
    polled(history, 9, entry(1, 0, 0, error="UNKNOWN_TOPIC_OR_PARTITION"), process="q", node="n2")

    assert judge(history).valid is True


def test_client_that_crashed_reads_from_the_beginning_again() -> None:
    history = finished(clean())
    polled(history, 8, entry(0, 0, 3, (0, 0)), process="p+1")

    assert judge(history).valid is True


def test_send_without_answer_may_be_there_or_not() -> None:
    history = finished(clean())
    sent(history, 8, (5, 0), (6, 0), type_="info")
    sent(history, 9, (5, 1), (6, 1), type_="info")
    finally_read(history, 5, 1)
    finally_read(history, 6, 1)

    verdict = judge(history)

    assert verdict.valid is True
    assert verdict.strength["recovered"] == 2


def test_chunk_that_ends_before_the_other_half_of_a_transaction_is_not_torn() -> None:
    history = finished(clean())
    sent(history, 8, (5, 0), (6, 0))
    polled(history, 9, entry(5, 0, 1, (0, 0)), entry(6, 1, 1))
    finally_read(history, 5, 0)
    finally_read(history, 6, 0)

    assert judge(history).valid is True


def test_without_final_reads_what_is_missing_is_unknown() -> None:
    history = clean()
    sent(history, 8, (5, 0), offsets=(0,))

    verdict = judge(history)

    assert verdict.valid == "unknown"
    assert verdict.rules["unseen"].valid == "unknown"
    assert verdict.reasons == ["the final reads of 0 of 3 nodes reached their end"]


def test_node_that_could_not_be_read_at_the_end_makes_the_run_unknown() -> None:
    history = clean()
    log = {0: [SentRecord(0, value) for value in range(3)]}
    write_final_reads(history, log, nodes=("n1", "n3"))

    verdict = judge(history)

    assert verdict.valid == "unknown"
    assert verdict.rules["unseen"].valid is True
    assert verdict.reasons == ["the final reads of 2 of 3 nodes reached their end"]


def test_value_that_cannot_be_read_makes_every_rule_unknown() -> None:
    history = finished(clean())
    history.op("send", 8, 9, {"records": "none"}, {})

    verdict = judge(history)

    assert all(result.valid == "unknown" for result in verdict.rules.values())
