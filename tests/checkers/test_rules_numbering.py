"""Rules about attempt numbers, hand-backs and tries."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from atleastonce.checkers.verdict import Verdict

Judge = Callable[..., Verdict]
Broken = Callable[..., set[str]]

END = """
    60.0 drained
    61.0 stop
"""

RETRIED = """
    0.0 dispatch a tries=3 backoff=1
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a threw
    0.4 w1 ack a
    1.4 w1 got a#2
    1.5 w1 start a#2
    1.6 w1 end a
    1.7 w1 ack a
    """

HANDED_BACK = """
    0.0 dispatch a p=0
    0.0 dispatch b p=1
    0.1 w1 got a#1 b#1
    0.2 w1 start a#1
    1.0 w1 died 9
    1.1 w2 got b#1
    1.2 w2 start b#1
    1.3 w2 end b
    1.4 w2 ack b
    9.2 w2 got a#2
    9.2 w2 start a#2
    9.3 w2 end a
    9.4 w2 ack a
    """


def test_retry_carries_the_next_number(broken: Broken) -> None:
    assert broken(RETRIED + END) == set()


def test_retry_that_skips_a_number_is_named(broken: Broken) -> None:
    assert broken(RETRIED.replace("a#2", "a#3") + END) == {"attempt-number"}


def test_retry_that_repeats_a_number_is_named(broken: Broken) -> None:
    assert broken(RETRIED.replace("a#2", "a#1") + END) == {"attempt-number"}


def test_first_pickup_with_number_two_is_named(broken: Broken) -> None:
    history = """
    0.0 dispatch a
    0.1 w1 got a#2
    0.2 w1 start a#2
    0.3 w1 end a
    0.4 w1 ack a
    """
    assert broken(history + END) == {"attempt-number"}


def test_killed_run_counts_and_unstarted_job_does_not(broken: Broken) -> None:
    assert broken(HANDED_BACK + END) == set()


def test_killed_run_that_was_not_counted_is_named(broken: Broken) -> None:
    assert broken(HANDED_BACK.replace("a#2", "a#1") + END) == {"attempt-number"}


def test_charged_hand_back_is_named(broken: Broken) -> None:
    names = broken(
        HANDED_BACK.replace("got b#1\n", "got b#2\n").replace("start b#1", "start b#2") + END
    )
    assert names == {"uncharged-hand-back", "attempt-number"}


def test_charged_hand_back_on_a_graceful_stop_is_named(broken: Broken) -> None:
    history = """
    0.0 dispatch a p=0
    0.0 dispatch b p=1
    0.1 w1 got a#1 b#1
    0.2 w1 start a#1
    1.0 w1 end a
    1.0 w1 ack a
    1.1 w2 got b#{number}
    1.1 w1 died exit=0
    1.2 w2 start b#{number}
    1.3 w2 end b
    1.4 w2 ack b
    """
    assert broken(history.format(number=1) + END) == set()
    assert broken(history.format(number=2) + END) == {"uncharged-hand-back", "attempt-number"}


CHARGED = """
    0.0 dispatch a p=0
    0.0 dispatch b p=1
    0.1 w1 got a#1 b#1
    0.2 w1 start a#1
    {fault}
    1.0 w1 died 9
    9.1 w2 got b#2
    9.2 w2 start b#2
    9.3 w2 end b
    9.4 w2 ack b
    9.4 w2 got a#2
    9.5 w2 start a#2
    9.6 w2 end a
    9.7 w2 ack a
    """


@pytest.mark.parametrize("kind", ["kill-leader", "kill-follower", "kill-all", "kill-supervisor"])
def test_lease_that_expired_while_its_node_or_holder_was_lost_may_charge(
    judge: Judge, kind: str
) -> None:
    fault = f"1.0 fault {kind} n1 healed=2 recovered=3"
    verdict = judge(CHARGED.format(fault=fault) + END)
    assert verdict.valid is True, verdict.violations
    assert verdict.rules["attempt-number"].explained == 1


@pytest.mark.parametrize("kind", ["term-supervisor", "term-leader", "pause-leader", "kill-worker"])
def test_graceful_stop_pause_and_worker_kill_may_not_charge(broken: Broken, kind: str) -> None:
    fault = f"1.0 fault {kind} w1 healed=2 recovered=3"
    names = broken(CHARGED.format(fault=fault) + END)
    assert {"uncharged-hand-back", "attempt-number"} <= names


def test_fault_outside_the_lease_may_not_charge(broken: Broken) -> None:
    fault = "20.0 fault kill-leader n1 healed=21 recovered=22"
    assert "uncharged-hand-back" in broken(CHARGED.format(fault=fault) + END)


UNREAD = """
    0.0 dispatch a p=0
    0.0 dispatch b p=1
    0.1 w1 got a#1
    0.2 w1 start a#1
    1.0 w1 died 9 {popping}
    9.1 w2 got a#2 b#2
    9.2 w2 start a#2
    9.3 w2 end a
    9.4 w2 ack a
    9.5 w2 start b#2
    9.6 w2 end b
    9.7 w2 ack b
    """


def test_unread_batch_of_a_dead_worker_may_charge(judge: Judge) -> None:
    verdict = judge(UNREAD.format(popping="popping") + END)
    assert verdict.valid is True, verdict.violations
    assert verdict.rules["attempt-number"].explained == 1


def test_death_without_an_open_pop_may_not_charge(broken: Broken) -> None:
    assert broken(UNREAD.format(popping="") + END) == {"attempt-number"}


def test_one_unread_batch_charges_a_job_once(broken: Broken) -> None:
    history = UNREAD.format(popping="popping").replace("b#2", "b#3")
    assert broken(history + END) == {"attempt-number"}


def test_one_unread_batch_charges_no_more_than_prefetch_jobs(broken: Broken) -> None:
    jobs = [f"j{number}" for number in range(5)]
    lines = ["0.0 dispatch a p=9", "0.1 w1 got a#1", "0.2 w1 start a#1", "1.0 w1 died 9 popping"]
    lines += [f"0.0 dispatch {job} p={number}" for number, job in enumerate(jobs)]
    for number, job in enumerate(["a", *jobs]):
        t = 9.1 + number * 0.1
        lines += [f"{t} w2 got {job}#2", f"{t + 0.01} w2 start {job}#2"]
        lines += [f"{t + 0.02} w2 end {job}", f"{t + 0.03} w2 ack {job}"]
    history = "\n".join(lines) + END
    assert broken(history, prefetch=4) == {"attempt-number"}
    assert broken(history, prefetch=5) == set()


GIVEN_UP = """
    0.0 dispatch a tries=2 backoff=0
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a {first}
    0.4 w1 ack a
    """
SECOND = """
    1.5 w1 got a#2
    1.6 w1 start a#2
    1.7 w1 end a threw
    1.8 w1 ack a
    1.8 w1 gave-up a
    """


def test_given_up_before_its_tries_is_too_few(broken: Broken) -> None:
    assert broken(GIVEN_UP.format(first="threw") + SECOND + END) == set()
    assert broken(GIVEN_UP.format(first="threw") + "0.4 w1 gave-up a" + END) == {"too-few-tries"}


def test_given_up_by_fail_may_use_fewer_tries(broken: Broken) -> None:
    assert broken(GIVEN_UP.format(first="failed") + "0.4 w1 gave-up a failed" + END) == set()


def test_given_up_by_a_deadline_may_use_fewer_tries(broken: Broken) -> None:
    assert broken(GIVEN_UP.format(first="threw") + "0.4 w1 gave-up a deadline" + END) == set()


def test_given_up_without_any_run_is_too_few(broken: Broken) -> None:
    history = """
    0.0 dispatch a tries=1
    0.1 w1 got a#2
    0.2 w1 gave-up a max_attempts refused=2
    """
    assert broken(history + END) == {"attempt-number", "too-few-tries"}


def test_refusal_after_killed_runs_is_valid(broken: Broken) -> None:
    history = """
    0.0 dispatch a tries=1
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.5 w1 died 9
    9.0 w2 got a#2
    9.0 w2 gave-up a max_attempts refused=2
    """
    assert broken(history + END) == set()


def test_refusal_after_an_explained_charge_is_explained(judge: Judge) -> None:
    history = """
    0.0 dispatch a tries=1
    0.0 dispatch b p=1
    0.1 w1 got b#1 a#1
    0.2 w1 start b#1
    0.5 fault kill-supervisor supervisor healed=1 recovered=2
    0.5 w1 died 9
    9.0 w2 got a#2 b#2
    9.0 w2 gave-up a max_attempts refused=2
    9.2 w2 start b#2
    9.3 w2 end b
    9.4 w2 ack b
    """
    verdict = judge(history + END)
    assert verdict.valid is True, verdict.violations
    assert verdict.rules["too-few-tries"].explained == 1


def test_more_runs_than_tries_is_too_many(broken: Broken) -> None:
    history = RETRIED.replace("tries=3", "tries=1")
    assert broken(history + END) == {"too-many-tries"}


def test_run_beyond_tries_after_a_lost_answer_is_explained(judge: Judge) -> None:
    history = """
    0.0 dispatch a tries=1
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a
    0.4 w1 died 9
    8.5 w2 got a#2
    8.6 w2 start a#2
    8.7 w2 end a
    8.8 w2 ack a
    """
    verdict = judge(history + END)
    assert verdict.valid is True, verdict.violations
    assert verdict.rules["too-many-tries"].explained == 1


FORGIVEN = """
    0.0 dispatch a p=0
    0.1 w1 got a#1
    1.0 fault kill-leader n1 healed=2 recovered=3
    1.1 w1 died 9
    9.3 w2 got a#2
    9.4 w3 got a#1
    9.5 w3 start a#1
    9.6 w3 end a
    9.7 w3 ack a
    """


def test_charge_of_a_delivery_that_never_started_may_be_forgiven(broken: Broken) -> None:
    assert broken(FORGIVEN + END) == set()


def test_charge_of_a_run_is_never_forgiven(broken: Broken) -> None:
    ran = FORGIVEN.replace(
        "9.3 w2 got a#2", "9.3 w2 got a#2\n    9.31 w2 start a#2\n    9.32 w2 died 9"
    )
    assert broken(ran + END) >= {"attempt-number"}
