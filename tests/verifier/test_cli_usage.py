"""Bad input: one line that names the value and the choices, exit status 2, no traceback."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from atleastonce.verifier.cli import main


def _verify(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["jobz"], ["unknown workload 'jobz'", "did you mean 'jobs'?", "choose from: claim, jobs"]),
        (["--nemesis", "kil-leader"], ["'kil-leader'", "did you mean 'kill-leader'?", "kill-all"]),
        (["--nemesis", "kill-leader,fire"], ["unknown nemesis 'fire'", "pause-leader"]),
        (["--nemesis", "none,kill-leader"], ["none stands alone"]),
        (["--nemesis", "kill-leader,kill-leader"], ["name each one once"]),
        (["--nemesis", ""], ["unknown nemesis ''", "kill-leader"]),
        (["--nemesis", ","], ["unknown nemesis ''", "kill-leader"]),
        (["--bug", "no-such-bug"], ["unknown bug 'no-such-bug'", "ack-before-fsync"]),
        (["--bug", "double-vote"], ["'double-vote'", "simulator only", "ack-before-fsync"]),
        (["--set", "prefech=4"], ["unknown setting 'prefech'", "did you mean 'prefetch'?"]),
        (["--set", "prefetch=four"], ["prefetch=four", "an integer from 1 to 100"]),
        (["--set", "prefetch"], ["'prefetch'", "KEY=VALUE"]),
        (["--set", "base_port=99999"], ["base_port=99999", "an integer from 0 to 65000"]),
        (["--set", "job_timeout_s=9"], ["job_timeout_s=9", "below retry_after_s"]),
        (["--nodes", "1", "--nemesis", "kill-leader"], ["--nodes 1", "kill-leader", "at least 3"]),
        (["--nodes", "2"], ["--nodes 2", "an odd number from 1 to 9"]),
        (["--nodes", "0"], ["--nodes 0", "an odd number from 1 to 9"]),
        (["--nodes", "-3"], ["--nodes -3", "an odd number from 1 to 9"]),
        (["--nodes", "many"], ["'--nodes'", "'many'"]),
        (["--workers", "0"], ["--workers 0", "from 1 to 256"]),
        (["--rate", "0"], ["--rate 0", "above 0"]),
        (["--rate", "nan"], ["--rate nan", "above 0"]),
        (["--interval", "-1"], ["--interval -1", "above 0"]),
        (["--time-limit", "0"], ["--time-limit 0", "above 0"]),
        (["--time-limit", "4", "--nemesis", "kill-leader"], ["4 s is too short", "kill-leader"]),
        (["--seed", "-1"], ["--seed -1"]),
        (["queue", "--nemesis", "kill-worker"], ["'kill-worker' needs a supervisor", "kill-all"]),
        (["log", "--nemesis", "none,kill-supervisor"], ["none stands alone"]),
        (["log", "--nemesis", "term-supervisor"], ["'log' runs nodes alone", "pause-leader"]),
        (["queue", "--bug", "crash-charges-prefetched"], ["'kill-worker' needs a supervisor"]),
        (["log", "--set", "txn=perhaps"], ["txn=perhaps", "true or false"]),
        (["--no-such-option"], ["--no-such-option"]),
        (["jobs", "twice"], ["twice"]),
    ],
)
def test_bad_input_to_run_is_one_line_and_exit_2(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    result = _verify("run", "--store", str(tmp_path / "store"), *arguments)

    assert result.exit_code == 2
    assert result.stdout == ""
    line = result.stderr.strip()
    assert "\n" not in line
    assert line.startswith("verify: ")
    for word in words:
        assert word in line
    assert not (tmp_path / "store").exists()


def test_store_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")

    result = _verify("run", "--store", str(tmp_path / "file" / "store"))

    assert result.exit_code == 2
    assert "store folder" in result.stderr
    assert "cannot be written" in result.stderr


def test_port_in_use_is_named_and_leaves_no_run_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = _verify("run", "--store", str(tmp_path), "--set", f"base_port={port}")

    assert result.exit_code == 2
    assert f"port {port} cannot be used" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_check_of_no_run_folder_is_refused(tmp_path: Path) -> None:
    result = _verify("check", str(tmp_path / "nowhere"))

    assert result.exit_code == 2
    assert "no run folder" in result.stderr


def test_unknown_command_is_one_line() -> None:
    result = _verify("rum")

    assert result.exit_code == 2
    assert "'rum'" in result.stderr
    assert (
        "choose from: check, doctor, heal, lanes, list, matrix, packets, plan, run" in result.stderr
    )
    assert "\n" not in result.stderr.strip()


def test_list_names_every_choice_with_a_sentence() -> None:
    found = json.loads(_verify("list", "--json").stdout)

    sections = {"workloads", "nemeses", "packages", "lanes", "rules", "bugs", "settings"}
    assert set(found) == sections
    for section in found.values():
        for entry in section.values():
            assert entry["sentence"]
    text = _verify("list").stdout
    for section in found.values():
        for name in section:
            assert name in text
    for workload in found["workloads"].values():
        for name, sentence in workload["rules"].items():
            assert name in text
            assert sentence in text


def test_version_names_the_command() -> None:
    result = _verify("--version")

    assert result.exit_code == 0
    assert result.stdout.startswith("verify (atleastonce) ")


def test_doctor_prints_each_probe(tmp_path: Path) -> None:
    result = _verify("doctor", "--store", str(tmp_path), "--json")

    assert result.exit_code in (0, 4)
    assert json.loads(result.stdout)["python"]["state"] == "ok"
    assert "fdatasync" in _verify("doctor", "--store", str(tmp_path)).stdout


def test_heal_of_a_store_that_is_not_there_is_refused(tmp_path: Path) -> None:
    result = _verify("heal", "--store", str(tmp_path / "nowhere"))

    assert result.exit_code == 2
    assert "nowhere" in result.stderr


def test_heal_of_an_empty_store_has_nothing_to_do(tmp_path: Path) -> None:
    result = _verify("heal", "--store", str(tmp_path))

    assert result.exit_code == 0
    assert "nothing to heal" in result.stdout
