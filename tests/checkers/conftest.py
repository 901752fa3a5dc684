from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.notation_parser import parse

from .queries import assert_queries_leave_out_nothing

Judge = Callable[..., Verdict]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """Judge a history in notation by the shipped contract, with bounds by name."""
    numbers = itertools.count()

    def judge_(text: str, **bounds: float) -> Verdict:
        records = parse(text).write(tmp_path / str(next(numbers))).read()
        contract = load_contract("atleastonce", **bounds)
        assert_queries_leave_out_nothing(records, contract)
        return check_attempts(records, contract)

    return judge_


@pytest.fixture
def broken(judge: Judge) -> Callable[..., set[str]]:
    """Judge a history and return the names of the rules that it breaks."""

    def broken_(text: str, **bounds: float) -> set[str]:
        verdict = judge(text, **bounds)
        assert not verdict.reasons, verdict.reasons
        names = {name for name, result in verdict.rules.items() if result.violations}
        assert (verdict.valid is False) == bool(names)
        assert {violation.rule for violation in verdict.violations} == names
        return names

    return broken_
