"""A bound of time that was broken while the machine starved the system proves nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atleastonce.checkers.contract import Bounds, load_contract
from atleastonce.checkers.starvation import Starvation
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.notation import HistoryBuilder, at
from atleastonce.histories.scheduling import SchedulingSample

Judge = Callable[..., Verdict]

END = """
    90.0 drained
    91.0 stop
"""


def run(worker: str, job: str, start: float, end: float, number: int = 1) -> str:
    return f"""
    {start - 0.01:.3f} {worker} got {job}#{number}
    {start:.3f} {worker} start {job}#{number}
    {end:.3f} {worker} end {job}
    {end + 0.01:.3f} {worker} ack {job}
    """


CLEAN = (
    "0.0 dispatch a\n 0.0 dispatch z delay=30 p=9\n"
    + run("w1", "a", 0.1, 0.2)
    + run("w1", "z", 30.1, 30.2)
)
LATE = CLEAN + "1.0 dispatch b p=1" + run("w1", "b", 6.0, 6.1)
HANDED_BACK = (
    """
    0.0 dispatch a p=0
    0.0 dispatch b p=1
    0.0 dispatch c p=2
    0.1 w1 got a#1 b#1
    0.2 w1 start a#1
    1.0 w1 died 9
    """
    + run("w2", "c", 0.2, 0.3)
    + run("w2", "a", 9.1, 9.2, 2)
    + run("w2", "b", 6.0, 6.1)
)
OVERRUN = "0.0 dispatch a timeout=1\n" + run("w1", "a", 0.1, 5.1)
LEAKED = (
    "0.0 dispatch a\n 1.0 dispatch b p=1\n"
    + run("w1", "a", 0.1, 0.2)
    + "1.0 master died 9"
    + run("w1", "b", 4.0, 4.1)
)
DIED_BEFORE_ITS_ACK = """
    0.0 dispatch a
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a
    2.0 w1 died 9
    """ + run("w2", "a", 10.5, 10.6, 2)


def backlog(workers: int, jobs: int) -> str:
    lines = []
    for number in range(jobs):
        lines.append(f"0.0 dispatch j{number} p={number % 16} timeout=5")
        start = 0.1 + number // workers * 0.55
        lines.append(run(f"w{number % workers}", f"j{number}", start, start + 0.5))
    return "\n".join(lines)


SLOW = backlog(1, 60)

BROKEN: dict[str, tuple[str, str]] = {
    # rule: a history that breaks it, and the seconds in which that comes about
    "late": (LATE, "1.0 starved n1 until=6"),
    "hand-back-late": (HANDED_BACK, "1.0 starved supervisor until=6"),
    "stall": (CLEAN + "1.0 dispatch b p=1" + run("w1", "b", 9.0, 9.1), "1.0 starved n2 until=9"),
    "timeout-not-enforced": (OVERRUN, "1.0 starved supervisor until=5"),
    "process-leaked": (LEAKED, "1.0 starved fork-server until=4"),
    "completed-twice": (DIED_BEFORE_ITS_ACK, "0.0 starved n1 until=2"),
    "pace": (SLOW, "0.0 starved n1 until=34"),
}


def test_starved_run_without_a_broken_rule_is_valid(judge: Judge) -> None:
    verdict = judge(CLEAN + "0.0 starved n1 until=30" + END)
    assert verdict.valid is True
    assert verdict.reasons == []
    assert verdict.strength["starvation"] == {
        "sampled_s": 30.0,
        "starved_s": 30.0,
        "worst_window": {
            "process": "n1",
            "waited": 0.9,
            "ran": 0.05,
            "others": 0.9,
            "from_s": 0.0,
            "until_s": 0.5,
        },
    }


@pytest.mark.parametrize("rule", BROKEN)
def test_bound_of_time_that_starvation_can_explain_is_unknown(judge: Judge, rule: str) -> None:
    history, starved = BROKEN[rule]
    verdict = judge(history + starved + END)
    assert verdict.valid == "unknown"
    assert verdict.rules[rule].valid == "unknown"
    assert verdict.rules[rule].violations == 0
    assert not verdict.violations
    assert rule in {witness.rule for witness in verdict.in_doubt}
    (reason,) = (reason for reason in verdict.reasons if reason.startswith(rule))
    assert "waited 90% of the time for a core" in reason


@pytest.mark.parametrize("rule", BROKEN)
def test_bound_of_time_without_starvation_is_violated(judge: Judge, rule: str) -> None:
    history, _ = BROKEN[rule]
    verdict = judge(history + END)
    assert verdict.rules[rule].valid is False
    assert verdict.in_doubt == []
    assert "starvation" not in verdict.strength


@pytest.mark.parametrize("rule", BROKEN)
def test_starvation_at_another_time_excuses_nothing(judge: Judge, rule: str) -> None:
    history, _ = BROKEN[rule]
    verdict = judge(history + "40.0 starved n1 until=70" + END)
    assert verdict.rules[rule].valid is False
    assert verdict.in_doubt == []


def test_reason_names_process_share_and_seconds(judge: Judge) -> None:
    (reason,) = judge(LATE + "2.0 starved n1 until=4" + END).reasons
    assert reason == (
        "late is in doubt: the machine was starved: n1 waited 90% of the time for a core in "
        "2.000 s between 2.0 s and 4.0 s, while others used 90% of the cores; of the 4.980 s that "
        "are too long, 0.990 s lie outside of that, and 3.000 s are allowed"
    )


def test_less_starvation_than_the_excess_excuses_nothing(judge: Judge) -> None:
    # 4.98 s of waiting, 3 s allowed; half a second, and as much to recover, leave 3.98 s.
    assert judge(LATE + "2.0 starved n1 until=2.5" + END).rules["late"].valid is False


def test_wait_that_starvation_does_not_touch_is_a_violation_beside_one_in_doubt(
    judge: Judge,
) -> None:
    twice = LATE + "40.0 dispatch c p=1" + run("w1", "c", 46.0, 46.1)
    verdict = judge(twice + "1.0 starved n1 until=6" + END)
    assert verdict.valid is False
    assert (verdict.rules["late"].violations, verdict.rules["late"].in_doubt) == (1, 1)


def test_pace_that_is_too_slow_beside_the_starved_time_is_a_violation(judge: Judge) -> None:
    assert judge(SLOW + "0.0 starved n1 until=8" + END).rules["pace"].valid is False


def test_system_that_is_in_its_own_way_has_no_excuse(judge: Judge) -> None:
    assert judge(LATE + "1.0 starved n1 until=6 own=0.6" + END).valid is False


def test_process_that_waits_and_runs_as_much_is_not_starved(judge: Judge) -> None:
    assert judge(LATE + "1.0 starved n1 until=6 waited=0.5 ran=0.4" + END).valid is False


def test_short_waits_of_a_full_machine_are_no_starvation(judge: Judge) -> None:
    assert judge(LATE + "1.0 starved n1 until=6 waited=0.3 ran=0.05" + END).valid is False


def test_time_that_the_host_stole_is_starvation(judge: Judge) -> None:
    stolen = "1.0 starved n1 until=6 waited=0.1 ran=0.1 own=0.1 stolen=0.8"
    (reason,) = judge(LATE + stolen + END).reasons
    assert "its host took 80% of the cores away" in reason


def test_starved_verifier_may_have_seen_a_fault_too_late(judge: Judge) -> None:
    assert judge(LATE + "1.0 starved verifier until=6" + END).valid == "unknown"


def test_rules_without_a_bound_of_time_are_never_in_doubt(judge: Judge) -> None:
    lost = CLEAN + "1.0 dispatch b p=1"
    assert judge(lost + "0.0 starved n1 until=90" + END).rules["lost"].valid is False


def test_ack_that_was_confirmed_is_never_in_doubt(judge: Judge) -> None:
    twice = "0.0 dispatch a\n" + run("w1", "a", 0.1, 0.2) + run("w2", "a", 10.0, 10.1, 2)
    assert judge(twice + "0.0 starved n1 until=12" + END).rules["completed-twice"].valid is False


def test_stretch_reaches_beyond_its_end_by_its_length_and_no_more_than_the_recovery() -> None:
    notes = HistoryBuilder()
    notes.starved(10.0, "n1", 11.0)
    notes.starved(20.0, "n1", 30.0)
    starvation = Starvation(notes.scheduling, Bounds(recovery_s=3.0), at(0))
    assert starvation.measured == ((at(10), at(11)), (at(20), at(30)))
    assert starvation.stretches == ((at(10), at(12)), (at(20), at(33)))


def test_quiet_samples_are_counted_and_starve_nothing() -> None:
    quiet = [
        SchedulingSample(from_ns=at(t), t_ns=at(t + 0.5), own=0.3, others=0.7) for t in (0, 0.5)
    ]
    starvation = Starvation(quiet, load_contract().bounds, at(0))
    assert starvation.stretches == ()
    assert starvation.doubt((at(0), at(9)), 1) is None
    assert starvation.to_json()["starved_s"] == 0.0


EXPIRED = """
    0.0 dispatch a tries=5
    0.0 dispatch b p=1
    0.1 w1 got b#1 a#1
    0.2 w1 start b#1
    12.0 w1 end b
    12.1 w1 ack b
    """ + run("w2", "a", 9.0, 9.1, 2)
FENCED = (
    "0.0 dispatch a timeout=9\n"
    + run("w1", "a", 0.1, 2.0).replace("2.010 w1 ack a", "")
    + run("w2", "a", 9.0, 9.1, 2)
)
OVERLAPPING = "0.0 dispatch a timeout=60\n" + run("w1", "a", 0.1, 12.0) + run("w2", "a", 9, 9.1, 2)


@pytest.mark.parametrize(
    ("history", "rule"),
    [(EXPIRED, "attempt-number"), (FENCED, "completed-twice"), (OVERLAPPING, "overlap")],
)
def test_lease_that_ran_out_on_a_starved_machine_is_in_doubt(
    judge: Judge, history: str, rule: str
) -> None:
    starved = judge(history + "1.0 starved supervisor until=8" + END)
    assert starved.rules[rule].violations == 0
    assert starved.rules[rule].in_doubt > 0
    (reason,) = (reason for reason in starved.reasons if reason.startswith(rule))
    assert "a lease of 8.000 s may run out unrenewed meanwhile" in reason
    # Three seconds, and as many to recover, are not half of a lease of eight.
    for excuse in ("", "1.0 starved supervisor until=4", "20.0 starved supervisor until=40"):
        assert judge(history + excuse + END).rules[rule].valid is False


def test_number_that_was_forgotten_is_never_in_doubt(judge: Judge) -> None:
    reset = "0.0 dispatch a tries=5 backoff=1\n" + run("w1", "a", 0.1, 0.2).replace(
        "end a", "end a threw"
    )
    verdict = judge(reset + run("w2", "a", 9.0, 9.1, 1) + "0.0 starved n1 until=9" + END)
    assert verdict.rules["attempt-number"].valid is False
