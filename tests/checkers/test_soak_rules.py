"""What a soak expects of its jobs and its memory: legal, and broken in one way each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from atleastonce.checkers.contract import ContractError, load_contract
from atleastonce.checkers.soak_checker import check_soak
from atleastonce.checkers.soak_contract import (
    SOAK_RULES,
    GrowthBound,
    SoakContract,
    soak_contract_from_json,
)
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.lines import write_lines
from atleastonce.histories.memory import Held, MemorySample
from atleastonce.histories.notation import at
from atleastonce.histories.notation_parser import parse

Check = Callable[..., Verdict]

LEGAL = """
0.0  dispatch good backoff=1
0.0  dispatch bad backoff=1 tries=2
0.1  w1 got good#1
0.1  w1 start good#1
0.1  w2 got bad#1
0.1  w2 start bad#1
0.3  w1 end good
0.3  w1 ack good
0.3  w2 end bad threw
0.3  w2 ack bad
1.5  w2 got bad#2
1.5  w2 start bad#2
1.7  w2 end bad threw
1.7  w2 ack bad
1.7  w2 gave-up bad exception
20   drained
21   stop
"""
LOAD_S = 9.0


def _memory(leak_mib_s: float) -> list[MemorySample]:
    return [
        MemorySample(
            t_ns=at(second),
            wall_ns=0,
            held={
                "supervisor": Held(
                    pid=1, rss=round((30 + leak_mib_s * second) * 1024), pss=30_000, private=0
                )
            },
        )
        for second in range(int(LOAD_S))
    ]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Judge a history by what a soak of a good and a bad job expects."""
    numbers = itertools.count()

    def check_(text: str, leak_mib_s: float = 0.0, **changes: Any) -> Verdict:
        folder = parse(text).write(tmp_path / str(next(numbers)))
        write_lines(folder.memory, _memory(leak_mib_s))
        fields = {"jobs": 2, "bad": ("bad",), "restarts": 0, "load_s": LOAD_S, **changes}
        contract = SoakContract(
            attempts=load_contract("atleastonce", workers=2, prefetch=1),
            growth={"supervisor": GrowthBound(factor=1.25)},
            **fields,
        )
        return check_soak(folder.read(), soak_contract_from_json(contract.to_json()))

    return check_


def broken(verdict: Verdict) -> set[str]:
    """Name the soak's own rules that a verdict found broken."""
    names = {rule for rule in SOAK_RULES if verdict.rules[rule].violations}
    assert (verdict.valid is False) or not names
    assert names <= {violation.rule for violation in verdict.violations}
    return names


def test_what_goes_as_a_soak_expects_is_valid_and_says_how_much_there_was(check: Check) -> None:
    verdict = check(LEGAL)

    assert verdict.valid is True, verdict
    assert set(SOAK_RULES) < set(verdict.rules)
    assert verdict.strength["soak"] == {
        "jobs": 2,
        "bad": 1,
        "starts": 3,
        "completed": 1,
        "given_up": 1,
    }
    memory = verdict.strength["memory"]
    assert isinstance(memory, dict)
    assert set(memory) == {"supervisor"}


def test_master_that_grows_breaks_growth_and_nothing_else(check: Check) -> None:
    assert broken(check(LEGAL, leak_mib_s=10)) == {"growth"}


def test_job_that_no_worker_ever_saw_is_named(check: Check) -> None:
    verdict = check(LEGAL + "0.5 dispatch unseen\n", jobs=3)

    assert broken(verdict) == {"soak-jobs", "soak-ends"}
    assert {v.job for v in verdict.violations if v.rule == "soak-jobs"} == {"unseen"}


def test_job_that_nobody_dispatched_is_named(check: Check) -> None:
    text = LEGAL + "3 w1 got odd#1\n3 w1 start odd#1\n3.1 w1 end odd\n3.1 w1 ack odd\n"

    assert broken(check(text)) == {"soak-jobs"}


def test_job_whose_dispatch_may_have_taken_effect_may_run_and_may_not(check: Check) -> None:
    ran = "0.5 dispatch maybe info\n3 w1 got maybe#1\n3 w1 start maybe#1\n"
    ran += "3.1 w1 end maybe\n3.1 w1 ack maybe\n"

    for text in (ran, "0.5 dispatch maybe info\n"):
        assert broken(check(LEGAL + text)) == set()


def test_good_job_that_was_given_up_is_named(check: Check) -> None:
    assert broken(check(LEGAL, bad=())) == {"soak-ends", "soak-failed"}


def test_bad_job_that_completed_is_named(check: Check) -> None:
    assert broken(check(LEGAL, bad=("bad", "good"))) == {"soak-ends", "soak-failed"}


def test_second_completion_breaks_the_rule_about_ends(check: Check) -> None:
    text = LEGAL + "3 w1 got good#2\n3 w1 start good#2\n3.1 w1 end good\n3.1 w1 ack good\n"

    assert broken(check(text)) == {"soak-ends"}


def test_second_completion_after_a_death_before_the_ack_is_explained(check: Check) -> None:
    text = LEGAL.replace("0.3  w1 ack good\n", "0.31 w1 died 9\n")
    text += "9 w3 got good#2\n9 w3 start good#2\n9.1 w3 end good\n9.1 w3 ack good\n"

    verdict = check(text)

    assert verdict.rules["soak-ends"].explained == 1
    assert verdict.valid is True, verdict


def test_second_give_up_is_named(check: Check) -> None:
    text = LEGAL + "3 w1 got bad#3\n3 w1 gave-up bad max_attempts\n"

    assert broken(check(text)) == {"soak-ends"}


def test_dead_letters_that_lack_the_bad_job_are_named(check: Check) -> None:
    verdict = check(LEGAL.replace("21   stop", "20.1 letters\n21   stop"))

    assert broken(verdict) == {"soak-failed"}


def test_fewer_jobs_than_planned_make_a_soak_unknown(check: Check) -> None:
    verdict = check(LEGAL, jobs=3)

    assert verdict.valid == "unknown"
    assert "2 jobs were dispatched and acknowledged of 3 that were planned" in verdict.reasons


def test_new_code_that_was_never_put_in_place_makes_a_soak_unknown(check: Check) -> None:
    verdict = check(LEGAL, restarts=1)

    assert verdict.valid == "unknown"
    assert verdict.reasons == ["new code was put in place 0 times of 1"]


def test_soak_that_was_broken_off_is_unknown_and_blames_no_job_on_its_way(check: Check) -> None:
    begun = LEGAL[: LEGAL.index("1.5")] + "0.5 dispatch waiting\n"

    verdict = check(begun, jobs=3)

    assert verdict.valid == "unknown"
    assert broken(verdict) == set()
    assert verdict.rules["soak-ends"].valid == "unknown"


def test_memory_that_was_not_sampled_leaves_growth_unknown(check: Check) -> None:
    verdict = check(LEGAL, samples_min=50)

    assert verdict.valid == "unknown"
    assert verdict.rules["growth"].valid == "unknown"


def test_contract_that_is_none_is_refused() -> None:
    with pytest.raises(ContractError, match="soak contract"):
        soak_contract_from_json({"load_s": 1})
