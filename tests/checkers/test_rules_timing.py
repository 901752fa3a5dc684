"""Rules about when runs start and end, in which order, and in which process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from atleastonce.checkers.attempts import check_attempts
from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.verdict import Verdict
from atleastonce.histories.notation_parser import parse

Judge = Callable[..., Verdict]
Broken = Callable[..., set[str]]

END = """
    60.0 drained
    61.0 stop
"""


def run(worker: str, job: str, start: float, end: float, number: int = 1) -> str:
    return f"""
    {start - 0.01} {worker} got {job}#{number}
    {start} {worker} start {job}#{number}
    {end} {worker} end {job}
    {end + 0.01} {worker} ack {job}
    """


def test_two_runs_of_one_job_at_once_overlap(broken: Broken) -> None:
    history = "0.0 dispatch a" + run("w1", "a", 0.2, 3.0) + run("w2", "a", 1.0, 1.5, 2)
    assert "overlap" in broken(history + END)


def test_death_closes_a_run(broken: Broken) -> None:
    history = """
    0.0 dispatch a
    0.1 w1 got a#1
    0.2 w1 start a#1
    {death}
    """ + run("w2", "a", 9.0, 9.5, 2)
    assert broken(history.format(death="1.0 w1 died 9") + END) == set()
    assert "overlap" in broken(history.format(death="9.2 w1 died 9") + END, timeout_grace_s=30)


def test_run_without_end_or_death_is_open_and_overlaps(broken: Broken) -> None:
    history = """
    0.0 dispatch a
    0.1 w1 got a#1
    0.2 w1 start a#1
    """ + run("w2", "a", 9.0, 9.5, 2)
    assert broken(history + END) == {"overlap", "timeout-not-enforced"}


def test_runs_with_one_number_in_two_processes_do_not_overwrite_each_other(broken: Broken) -> None:
    history = "0.0 dispatch a" + run("w1", "a", 0.2, 3.0) + run("w2", "a", 0.3, 3.1, 1)
    assert {"overlap", "completed-twice", "duplicate-dispatch"} <= broken(history + END)


def test_delayed_job_before_its_time_is_early(broken: Broken) -> None:
    assert broken("0.0 dispatch a delay=2" + run("w1", "a", 2.1, 2.2) + END) == set()
    assert broken("0.0 dispatch a delay=2" + run("w1", "a", 1.9, 2.2) + END) == {"early"}


def test_clock_slack_is_not_early(broken: Broken) -> None:
    assert broken("0.0 dispatch a delay=2" + run("w1", "a", 1.996, 2.2) + END) == set()


def test_clock_under_correction_may_cut_a_delay_by_its_share_and_no_more(broken: Broken) -> None:
    assert broken("0.0 dispatch a delay=10" + run("w1", "a", 9.95, 10.2) + END) == set()
    assert broken("0.0 dispatch a delay=10" + run("w1", "a", 9.94, 10.2) + END) == {"early"}


THREW = """
    0.0 dispatch a backoff=1,3 tries=4
    0.1 w1 got a#1
    0.2 w1 start a#1
    0.3 w1 end a threw
    0.35 w1 ack a
    """


def test_retry_before_its_back_off_is_early(broken: Broken) -> None:
    assert broken(THREW + run("w1", "a", 1.4, 1.5, 2) + END) == set()
    assert broken(THREW + run("w1", "a", 1.1, 1.5, 2) + END) == {"early"}


def test_second_retry_has_the_second_back_off(broken: Broken) -> None:
    history = THREW + run("w1", "a", 1.4, 1.5, 2).replace("end a", "end a threw")
    assert broken(history + run("w1", "a", 4.6, 4.7, 3) + END) == set()
    assert broken(history + run("w1", "a", 2.6, 2.7, 3) + END) == {"early"}


def test_no_back_off_after_a_killed_run(broken: Broken) -> None:
    history = """
    0.0 dispatch a backoff=30 p=0
    0.0 dispatch b p=0
    0.1 w1 got a#1 b#1
    0.2 w1 start a#1
    0.5 w1 died 9
    """
    assert broken(history + run("w2", "a", 0.6, 0.7, 2) + run("w2", "b", 0.8, 0.9) + END) == set()


def test_run_past_timeout_and_grace_is_named(broken: Broken) -> None:
    history = "0.0 dispatch a timeout=1" + run("w1", "a", 0.2, 4.0)
    assert broken(history + END) == {"timeout-not-enforced"}
    assert broken(history + END, timeout_grace_s=3) == set()


def test_fifo_broken_among_first_attempts_is_named(broken: Broken) -> None:
    dispatches = "0.0 dispatch a\n 0.1 dispatch b\n"
    assert broken(dispatches + run("w1", "a", 0.2, 0.3) + run("w1", "b", 0.4, 0.5) + END) == set()
    assert broken(dispatches + run("w1", "b", 0.2, 0.3) + run("w1", "a", 0.4, 0.5) + END) == {
        "order"
    }


def test_no_order_across_partitions_or_after_a_delay(broken: Broken) -> None:
    runs = run("w1", "b", 0.2, 0.3) + run("w1", "a", 0.4, 0.5)
    assert broken("0.0 dispatch a p=0\n 0.1 dispatch b p=1\n" + runs + END) == set()
    assert broken("0.0 dispatch a delay=0.3\n 0.1 dispatch b\n" + runs + END) == set()


def test_job_handed_back_may_start_behind_younger_ones(broken: Broken) -> None:
    history = """
    0.0 dispatch a
    0.1 dispatch b
    0.2 dispatch c
    0.3 w1 got a#1 b#1
    0.4 w1 start a#1
    0.5 w1 died 9
    """
    runs = run("w2", "c", 0.6, 0.7) + run("w2", "b", 0.8, 0.9) + run("w2", "a", 1.0, 1.1, 2)
    assert broken(history + runs + END) == set()


def test_worker_that_writes_after_its_master_died_is_leaked(broken: Broken) -> None:
    history = """
    0.0 dispatch a
    0.0 dispatch b p=1
    0.5 fault kill-supervisor supervisor healed=2 recovered=3
    0.5 master died 9
    """ + run("w1", "a", 0.2, 0.3)
    assert broken(history + "0.6 w1 died 9" + run("w2", "b", 4.0, 4.1) + END) == set()
    assert broken(history + run("w1", "b", 4.0, 4.1) + END) == {"process-leaked"}


def test_worker_that_writes_after_the_stop_is_leaked(broken: Broken) -> None:
    history = "0.0 dispatch a" + run("w1", "a", 0.2, 0.3) + "30.0 drained\n 31.0 stop\n"
    late = "1.0 dispatch b info p=1" + run("w1", "b", 40.0, 40.1)
    assert broken(history) == set()
    assert broken(history + late) == {"process-leaked"}


def test_old_code_after_a_restart_is_stale(broken: Broken) -> None:
    history = (
        """
    0.0 w1 born code=v1
    5.0 restart code=v2
    5.0 w2 born code={code}
    0.0 dispatch a
    0.0 dispatch b delay=6
    """
        + run("w1", "a", 0.2, 0.3)
        + run("w2", "b", 6.2, 6.3)
    )
    assert broken(history.format(code="v2") + END) == set()
    assert broken(history.format(code="v1") + END) == {"stale-code"}


LONG_PAUSE = """
    0.0 dispatch a timeout=60
    0.5 fault {kind} n1 healed=12 recovered=13
    """


@pytest.mark.parametrize(("kind", "allowed"), [("pause-leader", True), ("kill-leader", False)])
def test_overlap_under_a_long_pause_needs_a_clause(
    tmp_path: Path, kind: str, allowed: bool
) -> None:
    history = LONG_PAUSE.format(kind=kind) + run("w1", "a", 0.2, 14.0) + run("w2", "a", 9.0, 9.5, 2)
    records = parse(history + END).write(tmp_path / "run").read()
    contract = load_contract()
    clauses = msgspec.structs.replace(contract.clauses, overlap_under_long_pause=True)
    lenient = msgspec.structs.replace(contract, clauses=clauses)
    assert check_attempts(records, contract).rules["overlap"].violations == 1
    result = check_attempts(records, lenient).rules["overlap"]
    assert (result.violations, result.explained) == ((0, 1) if allowed else (1, 0))
