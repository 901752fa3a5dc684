"""Legal histories under legal faults are valid; broken in one named way, that rule names it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import RULES, Contract, load_contract
from atleastonce.histories.folder import RunRecords
from atleastonce.histories.notation import HistoryBuilder

from .breaks import BREAKS
from .legal_histories import LEASE_S, PLANS, PREFETCH, Model, Plan
from .queries import assert_queries_leave_out_nothing

QUICK = settings(
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)


def contract_of(plan: Plan) -> Contract:
    return load_contract("atleastonce", lease_s=LEASE_S, prefetch=PREFETCH, workers=plan.workers)


def read(notes: HistoryBuilder, scratch: str) -> RunRecords:
    return notes.write(Path(scratch) / "run").read()


@settings(QUICK, max_examples=60)
@given(plan=PLANS)
def test_legal_history_is_valid(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        records = read(Model(plan).run(), scratch)
        verdict = check_attempts(records, contract_of(plan))
        assert not any(result.violations for result in verdict.rules.values()), verdict.violations
        assert_queries_leave_out_nothing(records, contract_of(plan))


@pytest.mark.parametrize("rule", BREAKS)
def test_broken_history_is_named_by_its_rule(rule: str) -> None:
    @settings(QUICK, max_examples=8)
    @given(plan=PLANS, choice=st.integers(0, 99))
    def holds(plan: Plan, choice: int) -> None:
        notes = Model(plan).run()
        assume(BREAKS[rule](notes, choice))
        with tempfile.TemporaryDirectory() as scratch:
            records = read(notes, scratch)
            verdict = check_attempts(records, contract_of(plan))
            assert verdict.valid is False, verdict.reasons
            assert verdict.rules[rule].violations > 0, verdict.violations
            assert rule in {violation.rule for violation in verdict.violations}
            assert_queries_leave_out_nothing(records, contract_of(plan))

    holds()


def test_every_rule_has_a_way_to_break_it() -> None:
    assert set(BREAKS) == set(RULES)
