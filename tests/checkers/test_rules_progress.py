"""Rules about progress: late, hand-back-late, stall, pace."""

from __future__ import annotations

from collections.abc import Callable

from atleastonce.checkers.verdict import Verdict

Judge = Callable[..., Verdict]
Broken = Callable[..., set[str]]

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


TWO = "0.0 dispatch a\n 0.0 dispatch z delay=30 p=9\n" + run("w1", "a", 0.1, 0.2)
LAST = run("w1", "z", 30.1, 30.2)


def test_ready_job_that_waits_for_a_free_worker_is_late(broken: Broken) -> None:
    history = TWO + "1.0 dispatch b p=1" + LAST
    assert broken(history + run("w1", "b", 1.1, 1.2) + END) == set()
    assert broken(history + run("w1", "b", 5.5, 5.6) + END) == {"late"}


def test_delayed_job_after_its_bound_is_late(broken: Broken) -> None:
    history = TWO + LAST + "0.0 dispatch b delay=2 p=1"
    assert broken(history + run("w1", "b", 2.5, 2.6) + END) == set()
    assert broken(history + run("w1", "b", 6.5, 6.6) + END) == {"late"}


def test_retry_after_its_back_off_and_bound_is_late(broken: Broken) -> None:
    history = (
        TWO
        + LAST
        + """
    1.0 dispatch b p=1 backoff=1
    1.1 w1 got b#1
    1.2 w1 start b#1
    1.3 w1 end b threw
    1.4 w1 ack b
    """
    )
    assert broken(history + run("w1", "b", 2.5, 2.6, 2) + END) == set()
    assert broken(history + run("w1", "b", 7.0, 7.1, 2) + END) == {"late"}


def test_job_behind_busy_workers_is_not_late(broken: Broken) -> None:
    history = "0.0 dispatch a timeout=9\n 0.0 dispatch b p=1\n"
    assert broken(history + run("w1", "a", 0.1, 8.0) + run("w1", "b", 8.1, 8.2) + END) == set()


def test_job_behind_a_held_partition_is_not_late(broken: Broken) -> None:
    history = "0.0 dispatch a timeout=9\n 0.0 dispatch b\n 0.0 dispatch c p=1\n"
    history += run("w2", "c", 0.1, 0.2) + "20.0 dispatch d p=1" + run("w2", "d", 20.1, 20.2)
    assert broken(history + run("w1", "a", 0.1, 8.0) + run("w1", "b", 8.1, 8.2) + END) == set()


def test_fault_window_excuses_lateness(broken: Broken) -> None:
    history = TWO + "1.0 dispatch b p=1" + LAST + run("w1", "b", 5.5, 5.6)
    assert broken(history + "1.5 fault kill-leader n1 healed=2 recovered=3" + END) == set()


HANDED_BACK = """
    0.0 dispatch a p=0
    0.0 dispatch b p=1
    0.0 dispatch c p=2
    0.1 w1 got a#1 b#1
    0.2 w1 start a#1
    1.0 w1 died 9
    """


def test_unstarted_job_of_a_dead_worker_that_waits_is_handed_back_late(broken: Broken) -> None:
    rest = HANDED_BACK + run("w2", "c", 0.2, 0.3) + run("w2", "a", 9.1, 9.2, 2)
    assert broken(rest + run("w2", "b", 1.2, 1.3) + END) == set()
    assert broken(rest + run("w2", "b", 6.0, 6.1) + END) == {"hand-back-late"}


def test_worker_fault_does_not_excuse_a_late_hand_back(broken: Broken) -> None:
    rest = HANDED_BACK + run("w2", "c", 0.2, 0.3) + run("w2", "a", 9.1, 9.2, 2)
    fault = "1.0 fault kill-worker w1 healed=1 recovered=1.1"
    assert broken(rest + fault + run("w2", "b", 6.0, 6.1) + END) == {"hand-back-late"}


def test_lost_lease_holder_excuses_a_late_hand_back(broken: Broken) -> None:
    rest = HANDED_BACK + run("w2", "c", 0.2, 0.3) + run("w2", "a", 9.1, 9.2, 2)
    fault = "1.0 fault kill-supervisor supervisor healed=2 recovered=3"
    assert broken(rest + fault + run("w2", "b", 9.5, 9.6) + END) == set()


def test_nothing_started_while_a_job_was_ready_is_a_stall(broken: Broken) -> None:
    history = TWO + "1.0 dispatch b p=1" + LAST
    assert "stall" in broken(history + run("w1", "b", 9.0, 9.1) + END)
    assert broken(history + run("w1", "b", 9.0, 9.1) + END, late_s=20, stall_s=20) == set()


def test_quiet_time_without_ready_jobs_is_no_stall(broken: Broken) -> None:
    assert broken(TWO + LAST + END) == set()


def backlog(workers: int, jobs: int, each_s: float) -> str:
    """Four configured workers, `workers` of them alive, `jobs` jobs waiting from the start."""
    lines = []
    for number in range(jobs):
        lines.append(f"0.0 dispatch j{number} p={number % 16} timeout=5")
        worker, turn = number % workers, number // workers
        start = 0.1 + turn * (each_s + 0.05)
        lines.append(run(f"w{worker}", f"j{number}", start, start + each_s))
    return "\n".join(lines)


def test_four_busy_workers_keep_the_pace(broken: Broken) -> None:
    assert broken(backlog(4, 160, 0.5) + END) == set()


def test_one_worker_of_four_with_a_backlog_breaks_the_pace(broken: Broken) -> None:
    assert broken(backlog(1, 60, 0.5) + END) == {"pace"}


def test_one_worker_without_a_backlog_keeps_the_pace(broken: Broken) -> None:
    lines = []
    for number in range(40):
        start = 1.0 + number
        lines.append(f"{start - 0.2} dispatch j{number} p={number % 16}")
        lines.append(run("w1", f"j{number}", start, start + 0.1))
    assert broken("\n".join(lines) + END) == set()


def test_fault_windows_do_not_count_for_the_pace(broken: Broken) -> None:
    fault = "0.0 fault kill-supervisor supervisor healed=28 recovered=30"
    assert broken(backlog(1, 60, 0.5) + fault + END) == set()


def test_slow_overhead_on_a_busy_machine_keeps_the_pace(broken: Broken) -> None:
    lines = []
    for number in range(160):
        lines.append(f"0.0 dispatch j{number} p={number % 16} timeout=5")
        start = 0.1 + (number // 4) * 0.6
        lines.append(run(f"w{number % 4}", f"j{number}", start, start + 0.25))
    assert broken("\n".join(lines) + END) == set()
