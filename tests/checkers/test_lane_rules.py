"""What a lane expects of its jobs, its workers and its time: legal, and broken in one way each."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.lane_checker import check_lane
from atleastonce.checkers.lane_contract import (
    LANE_RULES,
    JobsExpected,
    LaneContract,
    ProbesExpected,
)
from atleastonce.checkers.verdict import Json, Verdict
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

GOOD = JobsExpected(jobs=("good",), runs=(1,), pickups=(1,))
BAD = JobsExpected(
    jobs=("bad",),
    ends="failed",
    starts_min=2,
    starts_max=2,
    runs=(1, 2),
    pickups=(1, 2),
    cause="exception",
    gap_s_min=0.9,
    gap_s_max=3.0,
    again_s_min=1.0,
)


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """Judge a history by what a lane of a good and a bad job expects."""
    numbers = itertools.count()

    def check_(text: str, *jobs: JobsExpected, **changes: Any) -> Verdict:
        records = parse(text).write(tmp_path / str(next(numbers))).read()
        fields = {"lane_s_max": 10.0, "idle_s_max": 2.0, "pids_min": 2, "deaths_max": 0, **changes}
        contract = LaneContract(
            lane="made-up",
            profile="plain",
            attempts=load_contract("atleastonce", workers=2, prefetch=1),
            jobs=jobs or (GOOD, BAD),
            **fields,
        )
        return check_lane(records, contract)

    return check_


def broken(verdict: Verdict) -> set[str]:
    """Name the lane's own rules that a verdict found broken."""
    names = {rule for rule in LANE_RULES if verdict.rules[rule].violations}
    assert (verdict.valid is False) or not names
    assert names <= {violation.rule for violation in verdict.violations}
    return names


def test_what_goes_as_the_lane_expects_is_valid_and_says_how_much_there_was(check: Check) -> None:
    verdict = check(LEGAL)

    assert verdict.valid is True, verdict
    assert set(LANE_RULES) < set(verdict.rules)
    assert verdict.strength["lane"] == {
        "took_s": 1.7,
        "starts": 3,
        "completed": 1,
        "given_up": 1,
    }


def test_a_job_that_was_never_dispatched_breaks_the_rule_about_dispatches(check: Check) -> None:
    verdict = check(LEGAL, GOOD, BAD, JobsExpected(jobs=("absent",)))

    assert broken(verdict) == {"lane-dispatch"}


def test_a_dispatch_that_should_be_refused_and_was_taken_is_named(check: Check) -> None:
    refused = JobsExpected(jobs=("good",), ends="refused")

    assert broken(check(LEGAL, refused, BAD)) == {"lane-dispatch", "lane-starts"}


def test_a_dispatch_that_was_refused_as_expected_is_legal(check: Check) -> None:
    refused = JobsExpected(jobs=("away",), ends="refused")

    assert check(LEGAL + "0.5 dispatch away fail\n", GOOD, BAD, refused).valid is True


def test_a_dispatch_that_was_refused_unexpectedly_is_named(check: Check) -> None:
    text = LEGAL + "0.5 dispatch away fail\n"
    away = JobsExpected(jobs=("away",), starts_min=0)

    assert broken(check(text, GOOD, BAD, away)) == {"lane-dispatch", "lane-ends"}


def test_a_job_that_ended_the_other_way_is_named(check: Check) -> None:
    other = JobsExpected(jobs=("bad",), ends="completed", starts_max=2)

    assert broken(check(LEGAL, GOOD, other)) == {"lane-ends", "lane-failed"}


def test_a_second_completion_is_named_unless_the_lane_allows_it(check: Check) -> None:
    text = LEGAL + "3 w1 got good#2\n3 w1 start good#2\n3.1 w1 end good\n3.1 w1 ack good\n"
    again = JobsExpected(jobs=("good",), starts_max=2)
    allowed = JobsExpected(jobs=("good",), starts_max=2, twice=True)

    assert broken(check(text, again, BAD)) == {"lane-ends"}
    assert broken(check(text, allowed, BAD)) == set()


@pytest.mark.parametrize(
    "expected",
    [
        JobsExpected(jobs=("good",), starts_min=2, starts_max=3),
        JobsExpected(jobs=("good",), runs=(2,)),
        JobsExpected(jobs=("good",), pickups=(1, 2)),
    ],
)
def test_starts_and_their_numbers_are_exact(check: Check, expected: JobsExpected) -> None:
    assert broken(check(LEGAL, expected, BAD)) == {"lane-starts"}


def test_a_fault_after_which_nothing_ran_again_did_not_do_what_it_should(check: Check) -> None:
    assert broken(check(LEGAL, again_min=1)) == set()
    assert broken(check(LEGAL, again_min=2)) == {"lane-starts"}


@pytest.mark.parametrize("whole", [False, True])
def test_a_fault_that_came_after_the_work_proves_nothing_about_it(
    check: Check, whole: bool
) -> None:
    late = LEGAL.replace(
        "20   drained", "5    fault kill-leader n1 healed=6 recovered=7\n20   drained"
    )
    early = LEGAL.replace(
        "0.3  w1 end good", "0.2  fault kill-leader n1 healed=6 recovered=7\n0.3  w1 end good"
    )
    twice = JobsExpected(jobs=("good",), starts_min=2, starts_max=2)
    jobs = () if whole else (twice, BAD)
    changes = {"again_min": 2} if whole else {}

    verdict = check(late, *jobs, **changes)
    assert verdict.valid == "unknown", verdict
    assert "too late to hit it" in verdict.reasons[0]
    assert "lane-starts" in verdict.reasons[0]
    assert broken(check(early, *jobs, **changes)) == {"lane-starts"}


@pytest.mark.parametrize("place", ["letters", "failed"])
def test_ids_of_a_store_are_compared_and_not_only_counted(check: Check, place: str) -> None:
    verdict = check(LEGAL + f"20 {place} good\n")

    assert broken(verdict) == {"lane-failed"}
    told = [each.sentence for each in verdict.violations if each.rule == "lane-failed"]
    assert len(told) == 2
    assert "lack bad" in told[0]
    assert "also name good" in told[1]


def test_another_cause_is_named(check: Check) -> None:
    text = LEGAL.replace("gave-up bad exception", "gave-up bad timeout")

    assert broken(check(text)) == {"lane-cause"}


@pytest.mark.parametrize("change", [{"gap_s_min": 1.3}, {"gap_s_max": 1.1}, {"again_s_min": 1.5}])
def test_a_gap_outside_its_bounds_is_named(check: Check, change: dict[str, float]) -> None:
    fields: dict[str, Any] = {"again_s_min": 0.0, **change}
    bad = JobsExpected(jobs=("bad",), ends="failed", starts_max=2, cause="exception", **fields)

    assert broken(check(LEGAL, GOOD, bad)) == {"lane-gap"}


def test_too_few_processes_and_too_many_deaths_are_named(check: Check) -> None:
    died = LEGAL + "2.5 w1 died 9\n"

    assert broken(check(LEGAL, pids_min=3)) == {"lane-workers"}
    assert broken(check(died)) == {"lane-workers"}
    assert broken(check(died, deaths_max=1)) == set()
    assert broken(check(died, deaths_max=None)) == set()


def test_deaths_after_the_stop_are_the_stop(check: Check) -> None:
    assert broken(check(LEGAL + "21.2 w1 died exit=0\n")) == set()


def test_a_worker_that_outlives_the_run_that_timed_out_is_named(check: Check) -> None:
    timed_out = LEGAL.replace("end bad threw", "end bad timed_out").replace(
        "gave-up bad exception", "gave-up bad timeout"
    )
    bad = JobsExpected(jobs=("bad",), ends="failed", starts_max=2)
    quick = timed_out.replace("1.5  w2", "1.5  w3").replace("1.7  w2", "1.7  w3")
    quick += "0.4 w2 died 9\n1.8 w3 died 9\n"

    assert "lane-old-worker" in broken(check(timed_out, GOOD, bad, deaths_max=None))
    assert broken(check(quick, GOOD, bad, deaths_max=None)) == set()


def test_a_lane_that_takes_too_long_is_named_with_the_last_job(check: Check) -> None:
    verdict = check(LEGAL, lane_s_max=1.5)

    assert broken(verdict) == {"lane-time"}
    assert verdict.violations[0].job == "bad"


def test_a_job_that_never_ends_takes_too_long(check: Check) -> None:
    text = LEGAL + "0.5 dispatch stuck\n"
    stuck = JobsExpected(jobs=("stuck",), starts_min=0)

    assert {"lane-time", "lane-idle"} <= broken(check(text, GOOD, BAD, stuck))


def test_idleness_counts_only_while_something_is_to_be_done(check: Check) -> None:
    verdict = check(LEGAL, idle_s_max=1.0)

    assert broken(verdict) == {"lane-idle"}
    assert "no job ran for 1.200 s" in verdict.violations[0].sentence


def test_pops_are_counted_between_the_two_counts(check: Check, tmp_path: Path) -> None:
    notes = parse(LEGAL)
    notes.ask(0.0, "count-pops", {"pops": 10})
    notes.ask(3.0, "count-pops", {"pops": 14})
    records = notes.write(tmp_path / "counted").read()
    contract = LaneContract(
        lane="made-up",
        profile="fast",
        attempts=load_contract("atleastonce", workers=2, prefetch=1),
        jobs=(GOOD, BAD),
        lane_s_max=10,
        idle_s_max=2,
        pops_per_job_max=2.0,
    )
    strict = msgspec.structs.replace(contract, pops_per_job_max=1.9)

    assert check_lane(records, contract).valid is True
    assert broken(check_lane(records, strict)) == {"lane-pops"}


def test_a_lane_whose_pops_were_not_counted_is_unknown(check: Check) -> None:
    verdict = check(LEGAL, pops_per_job_max=1.0)

    assert verdict.valid == "unknown"
    assert verdict.reasons == ["pops were counted 0 times, which takes two"]


def test_the_rules_of_the_delivery_contract_hold_in_a_lane_too(check: Check) -> None:
    text = LEGAL.replace("bad#2", "bad#3")
    bad = JobsExpected(jobs=("bad",), ends="failed", starts_max=2)

    verdict = check(text, GOOD, bad)

    assert verdict.valid is False
    assert verdict.rules["attempt-number"].violations == 1


@pytest.mark.parametrize(("supervisor", "leaks"), [("w1", 1), ("w9", 0), (None, 1)])
def test_a_supervisor_that_has_a_name_takes_only_its_own_workers_along(
    tmp_path: Path, supervisor: str | None, leaks: int
) -> None:
    notes = parse(LEGAL + "0.2 master died 9\n5 w1 got late#1\n5 dispatch late\n")
    notes.deaths = [
        msgspec.structs.replace(death, node=supervisor) if death.role == "master" else death
        for death in notes.deaths
    ]
    contract = LaneContract(
        lane="made-up",
        profile="plain",
        attempts=load_contract("atleastonce", workers=2, prefetch=1),
        jobs=(GOOD, BAD),
        lane_s_max=10,
        idle_s_max=2,
    )

    verdict = check_lane(notes.write(tmp_path / "named").read(), contract)

    named = [each.sentence for each in verdict.violations if each.rule == "process-leaked"]
    assert sum("until 4.8" in sentence for sentence in named) == leaks


def test_more_runs_than_allowed_within_a_time_are_a_burst(check: Check) -> None:
    def bad(most: int, within_s: float) -> JobsExpected:
        return JobsExpected(
            jobs=("bad",), ends="failed", starts_max=2, burst_max=most, burst_s=within_s
        )

    assert broken(check(LEGAL, GOOD, bad(1, 1.0))) == set()
    assert broken(check(LEGAL, GOOD, bad(2, 2.0))) == set()
    assert broken(check(LEGAL, GOOD, bad(1, 2.0))) == {"lane-burst"}


def test_a_worker_that_was_killed_is_told_from_one_that_ended(check: Check) -> None:
    died = LEGAL + "2.5 w1 died 9\n"
    ended = LEGAL + "2.5 w1 died exit=0\n"
    late = LEGAL + "21.5 w1 died 9\n"

    assert broken(check(died, deaths_max=None, killed_max=0)) == {"lane-workers"}
    assert broken(check(died, deaths_max=None, killed_max=1)) == set()
    assert broken(check(ended, deaths_max=None, killed_max=0)) == set()
    assert broken(check(late, deaths_max=None, killed_max=0)) == set()


def test_new_code_that_was_never_put_in_place_leaves_the_lane_unknown(check: Check) -> None:
    assert check(LEGAL + "3 restart code=v1\n", restarts=1).valid is True
    verdict = check(LEGAL, restarts=1)
    assert verdict.valid == "unknown"
    assert verdict.reasons == ["new code was put in place 0 times of 1"]


SILENCE = ProbesExpected(code="not-consuming", after_s=2.0, again_s=2.0)
SILENT = LEGAL + "3 fault pause-leader n1 healed=8 recovered=8\n"
WELL: dict[str, Json] = {"live": True, "ready": True, "codes": [], "pids": [7]}
UNWELL: dict[str, Json] = {**WELL, "ready": False, "codes": ["not-consuming"]}


@pytest.mark.parametrize(
    ("answers", "wrong"),
    [
        ([(1.0, WELL), (4.0, WELL), (6.0, UNWELL), (9.0, UNWELL), (11.0, WELL)], ""),
        ([(1.0, WELL), (6.0, WELL), (11.0, WELL)], "1 of 1 answers"),
        ([(6.0, {**UNWELL, "codes": ["no-workers"]}), (11.0, WELL)], "'not-consuming'"),
        ([(6.0, UNWELL), (11.0, UNWELL)], "still not ready 3.000 s after the fault"),
        ([(6.0, {**UNWELL, "live": False}), (11.0, WELL)], "not alive"),
        ([(6.0, UNWELL), (11.0, {**WELL, "pids": [8]})], "workers changed: [7] then [8]"),
    ],
)
def test_a_supervisor_says_that_it_gets_no_jobs_and_keeps_its_workers(
    tmp_path: Path, answers: list[tuple[float, dict[str, Json]]], wrong: str
) -> None:
    notes = parse(SILENT)
    for at_s, answer in answers:
        notes.ask(at_s, "probe", answer)
    contract = LaneContract(
        lane="made-up",
        profile="plain",
        attempts=load_contract("atleastonce", workers=2, prefetch=1),
        jobs=(GOOD, BAD),
        lane_s_max=10,
        idle_s_max=2,
        probes=SILENCE,
    )

    verdict = check_lane(notes.write(tmp_path / "asked").read(), contract)

    assert broken(verdict) == ({"lane-probe"} if wrong else set())
    told = " ".join(each.sentence for each in verdict.violations)
    assert wrong in told


def test_a_supervisor_that_was_never_asked_leaves_the_lane_unknown(check: Check) -> None:
    verdict = check(SILENT, probes=SILENCE)

    assert verdict.valid == "unknown"
    assert verdict.reasons == ["the supervisor was never asked about itself"]


def test_a_lane_that_took_too_long_on_a_starved_machine_is_unknown(check: Check) -> None:
    starved = LEGAL + "0.4 starved n1 until=1.4 waited=0.9 ran=0.05\n"

    verdict = check(starved, lane_s_max=1.5)

    assert verdict.valid == "unknown"
    assert broken(verdict) == set()
    assert verdict.rules["lane-time"].in_doubt == 1
    assert "lane-time is in doubt: the machine was starved" in verdict.reasons[0]
