"""Legal histories under legal faults are valid, and stay so however they are judged."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import load_contract

from .legal_histories import LEASE_S, PLANS, PREFETCH, Model, Plan


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
@given(plan=PLANS)
def test_legal_history_is_valid(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Model(plan).run().write(Path(scratch) / "run")
        contract = load_contract(lease_s=LEASE_S, prefetch=PREFETCH, workers=plan.workers)
        verdict = check_attempts(folder.read(), contract)
    assert not any(result.violations for result in verdict.rules.values()), verdict.violations
