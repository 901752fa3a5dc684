"""What the faults hit is told as tables."""

from __future__ import annotations

from atleastonce.verifier.tables import coverage_lines


def test_processes_and_jobs_have_a_table_each() -> None:
    lines = list(
        coverage_lines(
            {
                "fault_hits": {
                    "kill-leader": {"leader": {"healthy": 2, "settling": 1}},
                    "kill-worker": {"worker": {"running with unstarted": 3}},
                },
                "fault_coverage": {
                    "kill-leader": {"running": 4, "delayed": 0},
                    "kill-worker": {"running": 3, "delayed": 0},
                },
            }
        )
    )
    assert lines == [
        "",
        "fault        role hit  state                   times",
        "-----------  --------  ----------------------  -----",
        "kill-leader  leader    healthy                     2",
        "kill-leader  leader    settling                    1",
        "kill-worker  worker    running with unstarted      3",
        "",
        "jobs hit while  running  delayed",
        "--------------  -------  -------",
        "kill-leader           4        0",
        "kill-worker           3        0",
    ]


def test_a_run_without_faults_has_none() -> None:
    assert list(coverage_lines({"attempts": 3})) == []
