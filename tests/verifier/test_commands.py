"""What happens when a run does not come to its own end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from atleastonce.verifier import commands
from atleastonce.verifier.cli import main
from atleastonce.verifier.errors import NodeStartError


def _run_with(
    monkeypatch: pytest.MonkeyPatch, store: Path, failure: BaseException
) -> tuple[int, str, str]:
    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(commands, "execute", fail)
    result = CliRunner().invoke(main, ["run", "--store", str(store)])
    return result.exit_code, result.stdout, result.stderr


def test_bug_of_the_harness_is_exit_4_one_line_and_a_traceback_in_the_run_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    group = ExceptionGroup("a nursery", [RuntimeError("a wheel came off")])

    status, stdout, stderr = _run_with(monkeypatch, tmp_path, group)

    run = (tmp_path / "latest").resolve()
    assert (status, stdout) == (4, "")
    assert stderr.splitlines()[-1].startswith("verify: the harness failed: ExceptionGroup")
    assert str(run / "harness-error.txt") in stderr
    assert "Traceback" not in stderr
    assert "a wheel came off" in (run / "harness-error.txt").read_text()
    assert json.loads((run / "verdict.json").read_bytes())["valid"] == "unknown"


def test_node_that_does_not_start_is_told_with_its_log(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    failure = ExceptionGroup("a nursery", [NodeStartError("n1 ended; its log ends with\n  boom")])

    status, _, stderr = _run_with(monkeypatch, tmp_path, failure)

    assert status == 4
    assert stderr.endswith("verify: n1 ended; its log ends with\n  boom\n")


@pytest.mark.parametrize(
    "failure", [KeyboardInterrupt(), BaseExceptionGroup("a nursery", [KeyboardInterrupt()])]
)
def test_interruption_outside_the_run_is_unknown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failure: BaseException
) -> None:
    status, stdout, _ = _run_with(monkeypatch, tmp_path, failure)

    assert status == 3
    assert stdout.startswith("UNKNOWN")
    assert "interrupted" in stdout


@pytest.mark.parametrize(("workload", "rule"), [("queue", "pop-skip"), ("log", "torn")])
def test_run_without_a_verdict_names_the_rules_of_its_own_workload(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, workload: str, rule: str
) -> None:
    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(commands, "execute", fail)
    result = CliRunner().invoke(main, ["run", workload, "--store", str(tmp_path)])

    assert result.exit_code == 3
    run = (tmp_path / "latest").resolve()
    verdict = json.loads((run / "verdict.json").read_bytes())
    assert verdict["rules"][rule]["valid"] == "unknown"
    assert "overlap" not in verdict["rules"]
    contract = json.loads((run / "scenario.json").read_bytes())["contract"]
    assert (contract["name"], contract["nodes"], contract["lease_s"]) == (workload, 3, 3)
    assert CliRunner().invoke(main, ["check", str(run)]).exit_code == 3
    quiet = CliRunner().invoke(main, ["check", str(run), "--quiet"])
    assert (quiet.exit_code, len(quiet.stdout.splitlines()), quiet.stderr) == (3, 1, "")
    assert quiet.stdout.startswith("unknown")
