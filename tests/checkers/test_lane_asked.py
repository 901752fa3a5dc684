"""What a lane asks beside its jobs: what the broker counts, and who is refused a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.lane_checker import check_lane
from atleastonce.checkers.lane_contract import (
    LANE_RULES,
    CountsExpected,
    JobsExpected,
    LaneContract,
)
from atleastonce.checkers.verdict import Json, Verdict
from atleastonce.histories.notation_parser import parse

LEGAL = """
0.0  dispatch good
0.1  w1 got good#1
0.1  w1 start good#1
0.3  w1 end good
0.3  w1 ack good
20   drained
21   stop
"""


def judge(folder: Path, asked: tuple[str, dict[str, Json]] | None, **expected: Any) -> Verdict:
    """Judge a lane of one job, and one answer to what it asked."""
    notes = parse(LEGAL)
    if asked is not None:
        notes.ask(3.0, *asked)
    contract = LaneContract(
        lane="made-up",
        profile="plain",
        attempts=load_contract("atleastonce", workers=2, prefetch=1),
        jobs=(JobsExpected(jobs=("good",)),),
        lane_s_max=10,
        idle_s_max=2,
        **expected,
    )
    return check_lane(notes.write(folder / "run").read(), contract)


def broken(verdict: Verdict) -> set[str]:
    return {rule for rule in LANE_RULES if verdict.rules[rule].violations}


COUNTED: dict[str, Json] = {"processed": 1, "failed": 0, "dead": 0}
EXPECTED = (CountsExpected(processed=1, failed=0),)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""),
        ({"processed": 2}, "counted 2 jobs processed, 0 failed and 0 dead letters"),
        ({"failed": 1}, "1 failed"),
        ({"dead": 1}, "1 dead letters"),
    ],
)
def test_what_the_broker_counts_is_what_was_done(
    tmp_path: Path, change: dict[str, Json], wrong: str
) -> None:
    verdict = judge(tmp_path, ("count-jobs", {**COUNTED, **change}), counts=EXPECTED)

    assert broken(verdict) == ({"lane-counts"} if wrong else set())
    assert wrong in "".join(each.sentence for each in verdict.violations)


def test_a_lane_whose_jobs_were_not_counted_is_unknown(tmp_path: Path) -> None:
    verdict = judge(tmp_path, None, counts=EXPECTED)

    assert verdict.valid == "unknown"
    assert verdict.reasons == ["the broker's counts were read 0 times of 1"]


REFUSED: dict[str, Json] = {
    "kind": "a link",
    "directory": "/state",
    "exit": 2,
    "lines": ["supervisor: /state: is a symbolic link"],
    "left": [],
}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, ""),
        ({"exit": None}, "had to be killed"),
        ({"exit": 0}, "exit status 0"),
        ({"lines": []}, "wrote 0 lines"),
        ({"lines": ["supervisor: /state: no", "and so on"]}, "wrote 2 lines"),
        ({"lines": ["supervisor: no"]}, "one that names the directory"),
        ({"left": ["status.json"]}, "left status.json"),
    ],
)
def test_a_supervisor_is_refused_a_directory_that_is_not_its_own_in_one_line(
    tmp_path: Path, change: dict[str, Json], wrong: str
) -> None:
    verdict = judge(tmp_path, ("intrude", {**REFUSED, **change}), strangers=("a link",))

    assert broken(verdict) == ({"lane-owner"} if wrong else set())
    assert wrong in "".join(each.sentence for each in verdict.violations)


def test_a_lane_whose_strangers_never_came_is_unknown(tmp_path: Path) -> None:
    verdict = judge(tmp_path, None, strangers=("a link", "in use"))

    assert verdict.valid == "unknown"
    assert verdict.reasons == ["no supervisor was started in a directory that is a link, in use"]
