"""All lanes: which there are, when a fault's moment has come, and what is said of all."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from atleastonce.histories.attempts import AttemptLog
from atleastonce.verifier.cli import main
from atleastonce.verifier.errors import Exit, UsageError
from atleastonce.verifier.lane_watch import LaneEvents, LaneWatch
from atleastonce.verifier.lanes import (
    LaneCell,
    LaneResult,
    all_cells,
    as_object,
    list_lines,
    run_cell,
    table_lines,
    worst_status,
)
from atleastonce.workloads.lanes.lane import PROFILES, Trigger
from atleastonce.workloads.lanes.registry import LANES

GOOD = LaneResult(
    lane="worker-kill", profile="plain", status=0, took_s=9.5, starts=9, completed=8, run="r"
)
BAD = LaneResult(
    lane="stop-long", profile="fast", status=1, took_s=7.0, starts=3, broken={"overlap": 2}
)


def test_every_lane_meets_every_profile_unless_some_are_chosen() -> None:
    assert len(all_cells([], [])) == len(LANES) * len(PROFILES)
    assert all_cells(["stop-long"], ["fast"]) == [LaneCell("stop-long", "fast")]
    with pytest.raises(UsageError, match="unknown lane 'nope'"):
        all_cells(["nope"], [])


def test_the_list_counts_the_runs_and_says_what_is_left_out() -> None:
    cells = [LaneCell("stop-long", "plain"), LaneCell("stop-long", "fast", "for a reason")]

    first, *rest = list_lines(cells)

    assert first == "1 lanes x 2 profiles (plain, fast): 1 runs"
    assert rest[-1] == "  not run: stop-long fast: for a reason"


def test_the_table_shows_each_verdict_and_counts_them() -> None:
    lines = list(table_lines([GOOD, BAD]))

    assert lines[2].split() == ["worker-kill", "plain", "valid", "9.5", "9", "8", "0"]
    assert " ".join(lines[3].split()) == "stop-long fast INVALID 7.0 3 0 0 overlap 2"
    assert lines[-1] == "2 runs: 1 valid, 1 INVALID"


@pytest.mark.parametrize(
    ("statuses", "worst"),
    [
        ([0, 0], Exit.VALID),
        ([0, 3], Exit.UNKNOWN),
        ([3, 4], Exit.HARNESS),
        ([0, -9], Exit.HARNESS),
        ([4, 1, 3], Exit.INVALID),
        ([], Exit.HARNESS),
    ],
)
def test_the_exit_status_is_the_worst(statuses: list[int], worst: Exit) -> None:
    results = [LaneResult(lane="l", profile="p", status=status) for status in statuses]

    assert worst_status(results) is worst


def test_the_object_holds_every_result_and_what_was_not_run() -> None:
    cells = [LaneCell("worker-kill", "plain"), LaneCell("worker-kill", "fast", "why")]

    found = as_object(cells, [GOOD])

    assert found["status"] == 0
    (lane,) = json.loads(json.dumps(found))["lanes"]
    assert (lane["verdict"], lane["starts"], lane["run"]) == ("valid", 9, "r")
    assert found["not_run"] == [{"lane": "worker-kill", "profile": "fast", "why_not": "why"}]


def test_a_run_that_ends_without_a_report_shows_its_last_line(tmp_path: Path) -> None:
    result = run_cell(LaneCell("no-such-lane", "plain"), tmp_path, ())

    assert result.status == Exit.USAGE
    assert "unknown lane 'no-such-lane'" in result.reasons[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lanes", "--lane", "nope"], ["unknown lane 'nope'", "worker-kill"]),
        (["lanes", "--profile", "slow"], ["unknown profile 'slow'", "fast, plain"]),
        (["lanes", "--jobs", "0"], ["--jobs 0", "from 1 to 16"]),
        (["lanes", "--set", "lane_scale=x"], ["lane_scale=x"]),
        (["run", "--lane", "nope"], ["unknown lane 'nope'", "worker-kill"]),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    result = CliRunner().invoke(main, [*arguments, "--store", str(tmp_path / "store")])

    assert result.exit_code == Exit.USAGE
    complaint = result.stderr.strip().splitlines()[-1]
    assert complaint.startswith("verify: ")
    assert all(word in complaint for word in words), complaint


def test_the_list_runs_nothing(tmp_path: Path) -> None:
    store = tmp_path / "store"
    result = CliRunner().invoke(main, ["lanes", "--list", "--store", str(store)])

    assert result.exit_code == 0
    assert result.stdout.startswith(f"{len(LANES)} lanes x 2 profiles")
    assert not store.exists()


@pytest.mark.parametrize(
    ("trigger", "due"),
    [
        (Trigger(), (True, True, True)),
        (Trigger(starts=1), (False, True, True)),
        (Trigger(started=("a",)), (False, True, True)),
        (Trigger(started=("a", "b")), (False, False, True)),
        (Trigger(ended=("a",), started=("b",)), (False, False, True)),
    ],
)
def test_a_moment_has_come_when_all_of_it_was_recorded(
    trigger: Trigger, due: tuple[bool, bool, bool]
) -> None:
    events = LaneEvents()
    seen = [events.holds(trigger)]
    events.note("started", "a", 11, 100)
    seen.append(events.holds(trigger))
    events.note("ended", "a", 11, 150)
    events.note("started", "b", 12, 200)
    seen.append(events.holds(trigger))

    assert tuple(seen) == due


def test_the_first_run_is_the_one_that_began_first_whatever_file_is_read_first() -> None:
    events = LaneEvents()
    events.note("started", "b", 12, 200)
    events.note("started", "a", 11, 100)

    assert events.first_pid == 11


def test_records_are_seen_as_the_workers_write_them(tmp_path: Path) -> None:
    log, watch = AttemptLog(tmp_path, "1", "worker"), LaneWatch(tmp_path)
    assert watch.poll().starts == 0

    log.prefetched("a", 1, "lease")
    log.started("a", "run", 1, "lease")
    assert watch.poll().started.keys() == {"a"}
    log.ended("a", "run", "completed", None)

    assert watch.poll().ended == {"a"}
    assert watch.poll().starts == 1
