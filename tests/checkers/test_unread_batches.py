"""Jobs of a batch that lies unread behind a long run are in their worker's hands, not ready."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.notation_parser import parse

Judge = Callable[..., Verdict]
Broken = Callable[..., set[str]]

END = """
    90.0 drained
    91.0 stop
"""
LONG = """
    0.0 dispatch long p=0 timeout=25
    0.1 w1 got long#1
    0.2 w1 start long#1
    14.2 w1 end long
    14.21 w1 ack long
"""


def run(worker: str, job: str, start: float, end: float) -> str:
    return f"""
    {start - 0.01:.3f} {worker} got {job}#1
    {start:.3f} {worker} start {job}#1
    {end:.3f} {worker} end {job}
    {end + 0.01:.3f} {worker} ack {job}
    """


def trickle(until: float = 24.0) -> str:
    """Three workers that get one short job each 0.8 s, of partitions of their own."""
    lines = []
    for number in range(int((until - 0.5) / 0.8)):
        start = 0.5 + number * 0.8
        lines.append(f"{start - 0.1:.3f} dispatch t{number} p=t{number % 8}")
        lines.append(run(f"w{2 + number % 3}", f"t{number}", start, start + 0.05))
    return "\n".join(lines)


BOTH = "14.22 w1 got b#1 c#1\n" + "".join(
    f"{start} w1 start {job}#1\n {start + 0.1} w1 end {job}\n {start + 0.11} w1 ack {job}\n"
    for job, start in (("b", 14.3), ("c", 14.5))
)
AHEAD = LONG + trickle() + "0.05 dispatch b p=1\n 0.05 dispatch c p=2\n"


def test_batch_that_lay_unread_behind_a_long_run_does_not_break_the_pace(broken: Broken) -> None:
    assert broken(AHEAD + BOTH + END) == set()


def test_engine_without_unread_batches_gets_no_allowance_for_them(tmp_path: Path) -> None:
    history = AHEAD + run("w1", "b", 14.23, 14.3) + run("w2", "c", 1.5, 1.6) + END
    records = parse(history).write(tmp_path).read()
    contract = load_contract()
    assert check_attempts(records, contract).valid is True
    charges = msgspec.structs.replace(contract.charges, unread_batch=False)
    strict = check_attempts(records, msgspec.structs.replace(contract, charges=charges))
    assert [violation.rule for violation in strict.violations] == ["pace"]


def test_same_jobs_given_to_a_worker_that_was_free_break_the_pace(broken: Broken) -> None:
    late = run("w2", "b", 14.22, 14.32) + run("w3", "c", 14.25, 14.32)
    assert broken(AHEAD + late + END) == {"pace"}


def test_job_from_after_the_start_of_the_run_was_not_in_an_unread_batch(broken: Broken) -> None:
    history = LONG + trickle()
    assert broken(history + "0.5 dispatch b p=1" + run("w1", "b", 14.23, 14.3) + END) == set()
    assert broken(history + "1.0 dispatch b p=1" + run("w1", "b", 14.23, 14.3) + END) == {"pace"}


def test_batch_with_one_job_from_after_the_start_of_the_run_was_claimed_later(
    broken: Broken,
) -> None:
    history = LONG + trickle() + "0.05 dispatch b p=1\n 6.0 dispatch c p=2\n"
    assert broken(history + BOTH + END) == {"pace"}


def test_batch_that_came_to_a_worker_at_rest_was_not_unread(broken: Broken) -> None:
    assert broken(AHEAD + run("w1", "b", 14.5, 14.6) + run("w1", "c", 14.7, 14.8) + END) == {"pace"}
    rested = run("w1", "b", 15.0, 15.1) + run("w2", "c", 14.25, 14.3)
    assert broken(AHEAD + rested + END) == {"pace"}


SLOW_ANSWER = LONG + trickle() + "0.05 dispatch b p=1" + run("w1", "b", 16.2, 16.3)


def test_answer_that_a_fault_held_up_was_unread_before(broken: Broken) -> None:
    assert broken(SLOW_ANSWER + END) == {"pace"}
    fault = "14.0 fault kill-leader n1 healed=15 recovered=16"
    assert broken(SLOW_ANSWER + fault + END) == set()


def test_answer_that_starvation_held_up_was_unread_before(judge: Judge) -> None:
    verdict = judge(SLOW_ANSWER + "14.0 starved w1 until=16.5" + END)
    assert verdict.valid is True, verdict.violations


def one_free_worker(taker: str) -> str:
    """One worker runs for 14 s; another one is free from 0.4 to 14.2 s."""
    other = "0.05 dispatch a p=1\n" + run("w2", "a", 0.3, 0.4) + "14.0 dispatch z p=9\n"
    return LONG + other + run("w2", "z", 14.2, 14.3) + run(taker, "b", 14.4, 14.5)


def test_unread_batch_beside_a_free_worker_is_not_late(broken: Broken) -> None:
    job = "0.06 dispatch b p=2"
    assert broken(one_free_worker("w1") + job + END) == set()
    assert "late" in broken(one_free_worker("w2") + job + END)
    assert "late" in broken(one_free_worker("w1") + "2.0 dispatch b p=2" + END)


def test_unread_batch_holds_its_partition(broken: Broken) -> None:
    behind = "5.0 dispatch d p=2\n" + run("w2", "d", 14.7, 14.8)
    assert broken(one_free_worker("w1") + "0.06 dispatch b p=2\n" + behind + END) == set()
    elsewhere = behind.replace("p=2", "p=3")
    assert "late" in broken(one_free_worker("w1") + "0.06 dispatch b p=2\n" + elsewhere + END)


def killed(popping: str = "popping", after: str = "") -> str:
    """A worker dies in a run of 14 s that began when jobs b and c were ready."""
    long = LONG.replace("14.2 w1 end long", f"14.2 w1 died 9 {popping}")
    again = run("w4", "long", 22.3, 22.4).replace("long#1", "long#2")
    return long.replace("14.21 w1 ack long", "") + again + trickle() + after


B_AND_C = "0.05 dispatch b p=1\n 0.05 dispatch c p=2\n"


def test_batch_that_a_dead_worker_never_read_does_not_break_the_pace(broken: Broken) -> None:
    history = killed() + B_AND_C
    assert broken(history + run("w2", "b", 14.5, 14.6) + run("w3", "c", 14.6, 14.7) + END) == set()
    late = run("w2", "b", 14.5, 14.6) + run("w3", "c", 23.5, 23.6)
    assert broken(history + late + END, lease_s=20) == {"pace"}


def test_death_without_an_unread_pop_explains_no_wait(broken: Broken) -> None:
    jobs = B_AND_C + run("w2", "b", 14.5, 14.6) + run("w3", "c", 14.6, 14.7)
    assert broken(killed("") + jobs + END) == {"pace"}


def test_dead_worker_never_read_more_jobs_than_a_batch_holds(broken: Broken) -> None:
    jobs = B_AND_C + run("w2", "b", 14.5, 14.6) + run("w3", "c", 14.6, 14.7)
    assert broken(killed() + jobs + END, prefetch=2) == set()
    assert broken(killed() + jobs + END, prefetch=1) == {"pace"}


def test_dead_worker_never_read_a_job_from_after_the_start_of_its_run(broken: Broken) -> None:
    job = "1.0 dispatch b p=1" + run("w2", "b", 14.5, 14.6)
    assert broken(killed() + job + END) == {"pace"}


def test_worker_that_left_after_a_long_run_may_have_handed_back_an_unread_batch(
    broken: Broken,
) -> None:
    jobs = B_AND_C + run("w2", "b", 14.5, 14.6) + run("w3", "c", 14.6, 14.7)
    assert broken(LONG + trickle() + "14.3 w1 died 0\n" + jobs + END) == set()
    assert broken(LONG + trickle() + "15.5 w1 died 0\n" + jobs + END) == {"pace"}


def test_batch_that_was_never_read_held_its_partition(broken: Broken) -> None:
    history = killed() + "0.05 dispatch b p=1\n" + run("w2", "b", 14.5, 14.6)
    behind = "1.0 dispatch d p=1\n" + run("w3", "d", 14.8, 14.9)
    assert broken(history + behind + END) == set()
    assert broken(history + behind.replace("p=1", "p=3") + END) == {"pace"}
