"""`--level`: what is probed, chosen and refused before anything starts."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from atleastonce.nemesis.levels import CONTROL_GROUPS, LOOP_EXT4, POWERS, Finding
from atleastonce.nemesis.registry import NEMESES
from atleastonce.nemesis.spec import NemesisSpec
from atleastonce.verifier import levels
from atleastonce.verifier.cli import main
from atleastonce.verifier.levels import LevelError, choose, probe_machine
from atleastonce.verifier.probing import LevelProbe, RefusedError, try_all

GRANTED = frozenset({"links"})


def probe(attempt: Callable[[], str]) -> LevelProbe:
    return LevelProbe("thing", attempt, "much", "little", "do this")


def test_every_probe_of_this_machine_answers_and_a_failed_one_has_a_remedy() -> None:
    findings = probe_machine(extras=True)

    assert {
        name for power in POWERS.values() for n in (0, 1, 2) for name in power.probes_at(n)
    } <= {finding.name for finding in findings}
    for finding in findings:
        assert finding.found
        assert finding.passed == (finding.remedy == "")
    if os.geteuid() != 0:
        assert not any(f.passed for f in findings if f.name in (LOOP_EXT4, CONTROL_GROUPS))


def test_probe_that_hangs_is_given_up_and_its_children_with_it(tmp_path: Path) -> None:
    def hang() -> str:
        child = os.fork()
        if child:
            (tmp_path / "child").write_text(str(child))
        signal.pause()
        return "never"

    (finding,) = try_all([probe(hang)], limit_s=0.3)

    assert not finding.passed
    assert finding.found == "no answer within 0.3 s"
    child = Path("/proc", (tmp_path / "child").read_text(), "stat")
    deadline_s = time.monotonic() + 5
    while child.exists() and ") Z " not in child.read_text():
        assert time.monotonic() < deadline_s, "the probe's child lives on"


def test_probe_that_crashes_or_refuses_is_a_finding_and_no_crash_of_ours() -> None:
    def crash() -> str:
        os._exit(7)

    def refuse() -> str:
        raise RefusedError("no such luck", "be lucky")

    def fail() -> str:
        raise PermissionError(1, "Operation not permitted")

    crashed, refused, failed = try_all([probe(crash), probe(refuse), probe(fail)])

    assert crashed == Finding("thing", False, "the probe crashed", "little", "do this")
    assert refused == Finding("thing", False, "no such luck", "little", "be lucky")
    assert failed.found == "[Errno 1] Operation not permitted"


def test_run_without_special_faults_probes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[str] = []

    def note(names: Iterable[str]) -> list[Finding]:
        tried.extend(names)
        return []

    monkeypatch.setattr(levels, "probe_machine", note)

    chosen = choose("auto", {"kill-leader": frozenset()})

    assert (chosen.level.number, chosen.has_network, tried) == (0, False, [])


def test_run_whose_faults_need_no_network_gets_none_above_level_0(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        levels,
        "probe_machine",
        lambda names: [
            Finding(n, True, "seen", "…") for p in POWERS.values() for n in p.probes_at(2)
        ],
    )

    assert not choose("auto", {"lose-power": frozenset({"real-ext4"})}).has_network
    assert choose("auto", {"partition": frozenset({"links"})}).has_network
    assert choose("1", {"none": frozenset()}).has_network


def test_unknown_level_is_a_usage_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["run", "--level", "3", "--store", str(tmp_path / "store")])

    assert result.exit_code == 2
    assert result.stderr == "verify: --level '3' is not allowed; choose from: auto, 0, 1, 2\n"


def test_fault_that_the_level_lacks_ends_the_run_before_it_starts_with_status_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        NEMESES,
        "kill-all",
        NemesisSpec(name="kill-all", sentence="…", target="nodes", needs=frozenset({"packets"})),
    )

    result = CliRunner().invoke(
        main,
        ["run", "--nemesis", "kill-all", "--level", "0", "--store", str(tmp_path / "store")],
    )

    assert result.exit_code == 3
    assert result.stdout == ""
    line = result.stderr.strip()
    assert "\n" not in line
    for word in ("'kill-all'", "'packets'", "level 0", "level 1"):
        assert word in line
    assert not (tmp_path / "store").exists()


def test_lacking_power_is_no_usage_error() -> None:
    assert LevelError.status == 3


def test_doctor_prints_levels_for_people_and_for_programs(tmp_path: Path) -> None:
    told = CliRunner().invoke(main, ["doctor", "--store", str(tmp_path), "--json"])
    text = CliRunner().invoke(main, ["doctor", "--store", str(tmp_path)]).stdout

    found = json.loads(told.stdout)["levels"]
    assert set(found["levels"]) == {"0", "1", "2"}
    assert found["levels"]["0"]["on"]
    assert found["highest"] in (0, 1, 2)
    for name, entry in found["probes"].items():
        assert name in text
        assert (entry["state"] == "ok") == (entry["remedy"] == "")
    assert f"up to {found['highest']} for" in text
