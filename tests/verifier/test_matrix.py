"""Many runs: which there are, what is read of each, and what is said of all."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from atleastonce.system.bugs import BUGS
from atleastonce.verifier.errors import UsageError
from atleastonce.verifier.matrix import (
    RESULTS,
    Cell,
    Result,
    all_cells,
    defect_cells,
    main,
    run_all,
    summary,
)


def test_every_workload_meets_every_nemesis_that_fits_it() -> None:
    cells = list(all_cells(["queue", "jobs"], ["none", "kill-worker", "kill-leader"], [1, 2]))

    assert {(cell.workload, cell.nemesis) for cell in cells} == {
        ("queue", "none"),
        ("queue", "kill-leader"),
        ("jobs", "none"),
        ("jobs", "kill-worker"),
        ("jobs", "kill-leader"),
    }
    assert {cell.seed for cell in cells} == {1, 2}


def test_the_log_is_also_written_by_transactions_and_all_nodes_also_die_with_a_lossy_disk() -> None:
    cells = list(all_cells(["log"], ["none", "kill-all"], [1]))

    assert [(cell.nemesis, cell.settings) for cell in cells] == [
        ("none", ()),
        ("none", ("txn=true",)),
        ("kill-all", ()),
        ("kill-all", ("disk=lossy",)),
        ("kill-all", ("txn=true",)),
        ("kill-all", ("txn=true", "disk=lossy")),
    ]


def test_every_defect_that_is_not_for_the_simulator_alone_is_run() -> None:
    names = {cell.bug for cell in defect_cells([], [1])}

    assert names == {name for name, bug in BUGS.items() if not bug.is_simulated}
    assert [cell.bug for cell in defect_cells(["orphaned-claims"], [1, 2])] == [
        "orphaned-claims",
        "orphaned-claims",
    ]


def test_names_that_nobody_knows_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown workload 'jab'"):
        list(all_cells(["jab"], ["none"], [1]))
    with pytest.raises(UsageError, match="unknown nemesis 'storm'"):
        list(all_cells(["queue"], ["storm"], [1]))
    with pytest.raises(UsageError, match="unknown bug 'double-vote'"):
        list(defect_cells(["double-vote"], [1]))
    with pytest.raises(SystemExit) as raised:
        main(["--workloads", "jab"])
    assert raised.value.code == 2


def test_command_line_of_a_cell_says_what_it_is() -> None:
    cell = Cell("log", "kill-all", 3, ("txn=true", "disk=lossy"))
    command = " ".join(cell.arguments(Path("s"), 40))
    assert command == (
        "run log --nemesis kill-all --set txn=true --set disk=lossy "
        "--time-limit 40 --seed 3 --store s --json --quiet"
    )
    assert Cell("", "", 1, (), "orphaned-claims").arguments(Path("s"), 20)[:3] == [
        "run",
        "--bug",
        "orphaned-claims",
    ]


def test_run_that_does_not_even_start_is_written_down_as_crashed(tmp_path: Path) -> None:
    cells = [Cell("queue", "none", 1, ("lease_s=none",))]

    [result] = run_all(cells, tmp_path, lanes=1, time_limit_s=1)

    assert (result.status, result.word) == (2, "CRASHED")
    assert "lease_s" in result.reasons[0]
    line = (tmp_path / RESULTS).read_bytes()
    assert msgspec.json.decode(line, type=Result) == result


def test_summary_counts_verdicts_and_who_caught_a_defect() -> None:
    cell = Cell("", "", 1, (), "orphaned-claims")
    results = [
        Result(cell, 1, {"claim-left-behind": 2, "lost": 1}),
        Result(cell, 1, {"lost": 1}),
        Result(cell, 3, reasons=["no delivery was acked"]),
        Result(cell, 0),
    ]

    assert summary(results) == [
        "4 runs: 1 valid, 2 INVALID, 1 unknown, 0 CRASHED",
        "orphaned-claims: caught in 2 of 4, by claim-left-behind in 1 (claim-left-behind, lost)",
    ]
    assert results[2].line() == "unknown  orphaned-claims seed 1: no delivery was acked"
