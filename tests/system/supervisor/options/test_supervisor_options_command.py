"""`atleastonce supervisor options` and the refusals of `atleastonce supervisor run`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from atleastonce.system.supervisor.cli import supervisor

BASE = ["--set", "master.app=a:b", "--set", "master.state_dir=/state"]


def run(*arguments: str, **environment: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(supervisor, list(arguments), env=environment, standalone_mode=False)
    return result.return_value, result.stdout, result.stderr


def test_options_are_listed_with_their_origin(tmp_path: Path) -> None:
    file = tmp_path / "options.toml"
    file.write_text("[master]\npoll_interval_s = 2\n", encoding="utf-8")
    status, out, _ = run(
        "options",
        "--config",
        str(file),
        *BASE,
        ATLEASTONCE_POOL_DEFAULT_QUEUES="a,b",
    )
    assert status == 0
    lines = out.splitlines()
    assert "master.poll_interval_s = 2  (file)" in lines
    assert "pools.default.queues = a,b  (environment)" in lines
    assert "master.state_dir = /state  (flag)" in lines
    assert "driver.prefetch = 1" in lines


def test_json_holds_options_problems_and_warnings() -> None:
    status, out, _ = run("options", "--json", *BASE, "--set", "driver.prefetch=2")
    assert status == 2
    told = json.loads(out)
    assert told["options"]["driver.prefetch"] == {"value": 2, "origin": "flag"}
    assert len(told["problems"]) == 1
    assert told["warnings"] == []


@pytest.mark.parametrize("command", ["run", "options"])
def test_refusals_are_one_line_each_and_status_2(command: str) -> None:
    status, _, error = run(command, "--set", "driver.prefetch=0", "--set", "pools.q.tries=x")
    assert status == 2
    assert len(error.splitlines()) == 4
    assert all(line.startswith("supervisor: ") for line in error.splitlines())
