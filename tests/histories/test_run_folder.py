"""A run folder: every file round trips, damage is reported, several processes read the same."""

from __future__ import annotations

import os
import signal
from dataclasses import fields
from pathlib import Path

import msgspec
import numpy as np
import pytest

from atleastonce.histories.deaths import Death, death_of, read_deaths
from atleastonce.histories.dispatches import DispatchTable
from atleastonce.histories.errors import DamagedEvidenceError, UnknownVersionError
from atleastonce.histories.faults import FaultEvent, group_faults, read_faults
from atleastonce.histories.folder import RunFolder, RunRecords
from atleastonce.histories.host import this_host
from atleastonce.histories.lines import LineWriter, read_lines, write_lines
from atleastonce.histories.notation import HistoryBuilder
from atleastonce.histories.notation_parser import NotationError, parse
from atleastonce.histories.parallel import ReadingFailedError
from atleastonce.histories.scenario import Scenario, read_scenario, write_scenario

HISTORY = """
    0.0 dispatch a tries=2
    0.1 dispatch b p=1 delay=1
    0.2 w1 got a#1
    0.3 w1 start a#1
    0.4 w1 died 9 popping
    1.0 fault kill-leader n1 healed=2 recovered=3
    9.0 w2 got a#2 b#1
    9.1 w2 start a#2
    9.2 w2 end a threw
    9.3 w2 ack a
    9.3 w2 gave-up a
    9.4 w2 start b#1
    9.5 w2 end b
    9.6 w2 ack b
    30.0 drained
    31.0 stop
"""


def test_notation_writes_a_folder_that_reads_back(tmp_path: Path) -> None:
    run = parse(HISTORY).write(tmp_path / "run").read()
    assert run.damage == ()
    assert len(run.attempts) == 11
    assert [process.worker for process in run.attempts.processes] == ["w1", "w2"]
    assert [death.popping for death in run.deaths] == [True]
    (fault,) = run.faults
    assert (fault.kind, fault.bit) == ("kill-leader", True)
    assert run.scenario is not None
    assert run.scenario.plan[0]["id"] == fault.id
    assert {op.f for op in run.ops} == {"drain", "read-dead-letters", "read-failed-jobs", "stop"}


def assert_same(left: RunRecords, right: RunRecords) -> None:
    for name in ("event", "t_ns", "attempt", "outcome", "process", "run", "lease"):
        np.testing.assert_array_equal(getattr(left.attempts, name), getattr(right.attempts, name))
    for record_of in (left, right):
        assert len(record_of.attempts.job) == len(left.attempts.job)
    names = [
        [run.attempts.jobs[int(number)] for number in run.attempts.job] for run in (left, right)
    ]
    assert names[0] == names[1]
    for field in fields(DispatchTable):
        one, other = getattr(left.dispatches, field.name), getattr(right.dispatches, field.name)
        if isinstance(one, np.ndarray) and field.name != "job":
            np.testing.assert_array_equal(one, other)
    assert left.attempts.processes == right.attempts.processes
    assert left.attempts.gave_up == right.attempts.gave_up
    assert (left.ops, left.damage, left.torn) == (right.ops, right.damage, right.torn)


def test_several_processes_read_what_one_reads(tmp_path: Path) -> None:
    folder = parse(HISTORY).write(tmp_path / "run")
    with next(folder.attempts.glob("*.jsonl")).open("ab") as file:
        file.write(b"torn")
    assert_same(folder.read(processes=1), folder.read(processes=2))


def test_several_processes_refuse_an_unknown_version(tmp_path: Path) -> None:
    folder = parse(HISTORY).write(tmp_path / "run")
    folder.history.write_bytes(folder.history.read_bytes().replace(b'"v":1', b'"v":7'))
    with pytest.raises(UnknownVersionError, match="version 7"):
        folder.read(processes=2)


def test_reading_process_that_fails_says_why(tmp_path: Path) -> None:
    folder = parse(HISTORY).write(tmp_path / "run")
    next(folder.attempts.glob("*.jsonl")).chmod(0)
    if os.geteuid() == 0:
        (folder.attempts / "x.jsonl").mkdir()
    with pytest.raises((ReadingFailedError, PermissionError), match="Error"):
        folder.read(processes=2)


def test_missing_and_damaged_files_become_damage_and_nothing_else(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "empty")
    folder.create()
    run = folder.read()
    assert (run.scenario, len(run.attempts), len(run.dispatches), run.damage) == (None, 0, 0, ())
    folder.deaths.write_bytes(b'{"v":1}\n')
    folder.scenario.write_bytes(b"[]")
    files = {Path(damage.file).name for damage in folder.read().damage}
    assert files == {"deaths.jsonl", "scenario.json"}


def test_scenario_round_trips_and_refuses_another_version(tmp_path: Path) -> None:
    path = tmp_path / "scenario.json"
    host = this_host()
    scenario = Scenario(
        workload="jobs",
        nemesis="none",
        seed=7,
        origin_ns=5,
        host=host.name,
        boot=host.boot,
        settings={"rate": 20},
        plan=[{"id": "x"}],
    )
    write_scenario(path, scenario)
    assert read_scenario(path) == scenario
    path.write_bytes(path.read_bytes().replace(b'"v": 1', b'"v": 3'))
    with pytest.raises(UnknownVersionError, match="version 3"):
        read_scenario(path)


def test_death_tells_signal_and_exit_from_the_wait_status() -> None:
    killed = death_of(9, 77, "worker", t_ns=1, wall_ns=2, host="h", boot="b")
    assert (killed.signal, killed.exit) == (signal.SIGKILL, None)
    exited = death_of(12 << 8, 77, "node", t_ns=1, wall_ns=2, host="h", boot="b")
    assert (exited.signal, exited.exit) == (None, 12)


def test_line_files_round_trip_and_tolerate_a_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "deaths.jsonl"
    deaths = [death_of(9, pid, "worker", t_ns=1, wall_ns=2, host="h", boot="b") for pid in (1, 2)]
    write_lines(path, deaths[:1])
    with LineWriter(path) as writer:
        writer.write(deaths[1])
    assert read_deaths(path) == deaths
    with path.open("ab") as file:
        file.write(b'{"v":1,"t_')
    assert read_deaths(path) == deaths
    with path.open("ab") as file:
        file.write(b"\n")
    with pytest.raises(DamagedEvidenceError, match=r"deaths\.jsonl at byte"):
        read_deaths(path)
    write_lines(path, [msgspec.structs.replace(deaths[0], v=4)])
    with pytest.raises(UnknownVersionError, match="version 4"):
        read_lines(path, Death)


def test_fault_without_effect_did_not_bite(tmp_path: Path) -> None:
    events = [
        FaultEvent(fault="f1", kind="kill-leader", target="n1", event="opened", t_ns=1, wall_ns=1),
        FaultEvent(
            fault="f2", kind="kill-leader", target="n1", event="effect", t_ns=2, wall_ns=1, pid=5
        ),
        FaultEvent(fault="f2", kind="kill-leader", target="n1", event="healed", t_ns=3, wall_ns=1),
    ]
    write_lines(tmp_path / "faults.jsonl", events)
    first, second = group_faults(read_faults(tmp_path / "faults.jsonl"))
    assert (first.bit, second.bit, second.pid, second.healed_ns) == (False, True, 5, 3)
    assert second.recovered_ns is None


@pytest.mark.parametrize(
    "line", ["0.0 w1 dances a", "soon dispatch a", "0.0 w1 start a", "0.0 w1 end a well"]
)
def test_line_that_is_no_notation_is_refused_with_its_text(line: str) -> None:
    with pytest.raises(NotationError, match=line.split(maxsplit=1)[0]):
        parse("0.0 dispatch a\n" + line)


def test_builder_numbers_offsets_by_partition() -> None:
    notes = HistoryBuilder()
    for job, p in (("a", "0"), ("b", "1"), ("c", "0")):
        notes.dispatch(0.0, job, p=p)
    answers = [op[4] for op in notes.ops if op[1] == "ok"]
    assert [answer["offset"] for answer in answers if isinstance(answer, dict)] == [0, 0, 1]
