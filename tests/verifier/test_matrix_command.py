"""`verify matrix`: which runs there are, what is not run again, and how verdicts are told."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest
from click.testing import CliRunner

from atleastonce.nemesis.levels import POWERS
from atleastonce.nemesis.registry import NEMESES
from atleastonce.nemesis.selectors import BACKEND
from atleastonce.verifier.cli import main
from atleastonce.verifier.errors import UsageError
from atleastonce.verifier.junit import write_junit
from atleastonce.verifier.matrix import RESULTS, Cell, Result, read_results
from atleastonce.verifier.matrix_command import (
    Wanted,
    matrix_cells,
    run_matrix,
    verdict_tables,
)
from atleastonce.workloads.lanes.lane import PROFILES
from atleastonce.workloads.lanes.registry import LANES

ALL = [frozenset(POWERS)]
VALID = Result(Cell("queue", "kill-leader", 1), 0, run="r1", seconds=70.5)
INVALID = Result(Cell("queue", "kill-leader", 2), 1, {"lost": 2}, run="r2", seconds=71)
UNKNOWN = Result(Cell("jobs", "kill-worker", 1), 3, {}, ["a fault did not bite"], "r3", 72)
LANE = Result(
    Cell("lanes", "kill-worker", 1, lane="worker-kill", profile="plain"), 0, run="r4", seconds=20
)
CRASHED = Result(Cell("jobs", "none", 1), 4, {}, ["no port"], seconds=1)


def wanted(**changes: object) -> Wanted:
    plain: dict[str, object] = {
        "workloads": (),
        "nemeses": (),
        "seeds": 1,
        "first_seed": 1,
        "time_limit_s": 60.0,
        "level": "auto",
    }
    return Wanted(**(plain | changes))  # type: ignore[arg-type]


def test_every_workload_meets_every_nemesis_that_fits_it_and_the_level() -> None:
    cells = matrix_cells(wanted(seeds=2), ALL)

    assert {cell.workload for cell in cells} == {"jobs", "queue", "log", "claim", "lanes"}
    fitting = {name for name, spec in NEMESES.items() if spec.target != BACKEND}
    assert {cell.nemesis for cell in cells if cell.workload == "jobs"} == fitting
    assert not any(
        NEMESES[cell.nemesis].target in ("worker", "supervisor")
        for cell in cells
        if cell.workload not in ("jobs", "lanes")
    )
    assert len(cells) == len(set(cells))
    assert {cell.seed for cell in cells} == {1, 2}


def test_a_nemesis_that_needs_more_nodes_has_them() -> None:
    for cell in matrix_cells(wanted(workloads=("queue",)), ALL):
        nodes_min = NEMESES[cell.nemesis].nodes_min
        assert cell.nodes == (nodes_min if nodes_min > 3 else 0)
        command = " ".join(cell.arguments(Path("s"), 60))
        assert (f"--nodes {cell.nodes}" in command) is (nodes_min > 3)


def test_what_the_level_lacks_is_no_part_of_it() -> None:
    needy = {name for name, spec in NEMESES.items() if spec.needs}
    cells = matrix_cells(wanted(), [frozenset()])
    assert not {cell.nemesis for cell in cells} & needy


def test_a_nemesis_that_only_one_of_the_levels_has_is_part_of_it() -> None:
    needs = sorted(NEMESES["packet-loss"].needs)
    cells = matrix_cells(wanted(workloads=("queue",)), [frozenset(), frozenset(needs)])
    assert "packet-loss" in {cell.nemesis for cell in cells}


def test_every_lane_is_run_with_its_own_fault_in_every_profile_that_it_has() -> None:
    cells = matrix_cells(wanted(workloads=("lanes",), seeds=2), ALL)

    assert [(cell.lane, cell.profile) for cell in cells if cell.seed == 1] == [
        (lane.name, profile)
        for lane in LANES.values()
        for profile in PROFILES
        if profile not in lane.not_in
    ]
    assert len(cells) == len(set(cells))
    by_name = {cell.lane: cell.nemesis for cell in cells}
    assert by_name["worker-kill"] == "kill-worker"
    assert by_name["stop-frozen"] == "pause-leader,term-supervisor"
    assert by_name["exception-retry"] == "none"


def test_of_lanes_there_are_those_that_bring_one_of_the_named_nemeses() -> None:
    asked = wanted(workloads=("queue", "lanes"), nemeses=("term-leader", "kill-worker"))
    assert [cell.name for cell in matrix_cells(asked, ALL)] == [
        "queue term-leader seed 1",
        "lanes worker-kill plain kill-worker seed 1",
        "lanes worker-kill fast kill-worker seed 1",
        "lanes backend-restart plain term-leader seed 1",
        "lanes backend-restart fast term-leader seed 1",
    ]
    package = matrix_cells(wanted(workloads=("lanes",), nemeses=("kill",)), ALL)
    assert {"kill-worker", "kill-supervisor", "kill-all"} == {cell.nemesis for cell in package}


def test_a_lane_keeps_its_own_size_and_time() -> None:
    command = " ".join(LANE.cell.arguments(Path("s"), 60, "1"))
    assert command == (
        "run --lane worker-kill --profile plain --level 1 --seed 1 --store s --json --quiet"
    )


def test_packages_are_nemeses_of_a_matrix_too() -> None:
    [cell] = matrix_cells(wanted(workloads=("queue",), nemeses=("kill",)), ALL)
    assert cell == Cell("queue", "kill", 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"workloads": ("jab",)}, "unknown workload 'jab'"),
        ({"workloads": ("soak",)}, "unknown workload 'soak'"),
        ({"nemeses": ("storm",)}, "unknown nemesis 'storm'"),
        ({"workloads": ("lane",)}, "unknown workload 'lane'"),
        ({"time_limit_s": 0.0}, "--time-limit 0 is not allowed; it must be above 0"),
        ({"time_limit_s": 3.0}, "jobs kill-leader seed 1: time limit 3 s is too short"),
        (
            {"workloads": ("lanes",), "nemeses": ("slow-links",)},
            "no nemesis of 'slow-links' fits a workload of 'lanes' at level auto",
        ),
        ({"seeds": 0}, "--seeds 0 is not allowed; choose from 1 to 1000"),
        (
            {"workloads": ("queue",), "nemeses": ("kill-worker",)},
            "no nemesis of 'kill-worker' fits a workload of 'queue' at level auto",
        ),
    ],
)
def test_what_cannot_be_had_is_one_line(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        matrix_cells(wanted(**changes), ALL)


def write(store: Path, *results: Result, torn: str = "") -> None:
    lines = [msgspec.json.encode(result).decode() + "\n" for result in results]
    (store / RESULTS).write_text("".join(lines) + torn, encoding="utf-8")


def test_what_a_store_holds_is_not_run_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, VALID)
    asked = wanted(workloads=("queue",), nemeses=("kill-leader",))

    status = run_matrix(asked, tmp_path, 1, tmp_path / "out.xml", only_list=False, as_json=False)

    assert status == 0
    told = capsys.readouterr().out
    assert f"1 of 1 runs are in {tmp_path} already" in told
    assert "1 runs: 1 valid, 0 INVALID, 0 unknown, 0 CRASHED" in told
    assert (tmp_path / "out.xml").exists()


def test_a_run_that_crashed_and_a_line_that_is_torn_count_as_not_run(tmp_path: Path) -> None:
    write(tmp_path, VALID, CRASHED, INVALID, torn='{"cell":{"workload":"jo')
    assert read_results(tmp_path) == {VALID.cell: VALID, INVALID.cell: INVALID}
    assert read_results(tmp_path / "nowhere") == {}


def test_verdicts_stand_in_a_table_of_nemeses_and_workloads() -> None:
    assert list(verdict_tables([VALID, INVALID, UNKNOWN, CRASHED])) == [
        "",
        "nemesis      queue               jobs",
        "-----------  ------------------  -------",
        "kill-leader  1 INVALID, 1 valid  -",
        "kill-worker  -                   unknown",
        "none         -                   CRASHED",
    ]


def test_lanes_have_a_table_of_their_own_with_a_column_for_each_profile() -> None:
    again = Result(msgspec.structs.replace(LANE.cell, profile="fast"), 1, {"lost": 1})
    assert list(verdict_tables([VALID, LANE, again])) == [
        "",
        "nemesis      queue",
        "-----------  -----",
        "kill-leader  valid",
        "",
        "lane         its fault    plain  fast",
        "-----------  -----------  -----  -------",
        "worker-kill  kill-worker  valid  INVALID",
    ]


def test_a_lane_that_a_store_holds_is_not_run_again(tmp_path: Path) -> None:
    write(tmp_path, LANE)
    assert read_results(tmp_path) == {LANE.cell: LANE}


def test_lanes_are_a_suite_of_junit(tmp_path: Path) -> None:
    write_junit([VALID, LANE], tmp_path / "junit.xml")
    root = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert [suite.get("name") for suite in root] == ["queue", "lanes"]
    [case] = root[1]
    assert case.get("classname") == "matrix.lanes"
    assert case.get("name") == "worker-kill plain kill-worker seed 1"


def test_junit_has_a_suite_for_each_workload_and_a_case_for_each_run(tmp_path: Path) -> None:
    write_junit([VALID, INVALID, UNKNOWN, CRASHED], tmp_path / "new" / "junit.xml")
    root = ElementTree.parse(tmp_path / "new" / "junit.xml").getroot()
    assert {k: root.get(k) for k in ("tests", "failures", "errors", "time")} == {
        "tests": "4",
        "failures": "2",
        "errors": "1",
        "time": "214.5",
    }
    cases = {case.get("name"): case for case in root.iter("testcase")}
    assert set(cases) == {
        "kill-leader seed 1",
        "kill-leader seed 2",
        "kill-worker seed 1",
        "none seed 1",
    }
    assert list(cases["kill-leader seed 1"]) == []
    [failure] = cases["kill-leader seed 2"]
    assert (failure.tag, failure.get("type")) == ("failure", "INVALID")
    assert failure.text == "lost: 2 violations\nrun r2"
    assert [wrong.tag for wrong in cases["none seed 1"]] == ["error"]


def test_a_matrix_can_be_listed_and_makes_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    arguments = ["matrix", "--list", "--workload", "queue", "--nemesis", "kill-leader,none"]
    done = CliRunner().invoke(main, [*arguments, "--store", str(store)], standalone_mode=False)
    assert done.stdout.splitlines() == ["queue kill-leader seed 1", "queue none seed 1"]
    assert not store.exists()
