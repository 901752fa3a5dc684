"""Lanes over the real system, from the command line to the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cluster


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `verify` to its end."""
    command = (sys.executable, "-m", "atleastonce.verifier", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_supervisor_that_stops_while_jobs_run_finishes_them_and_the_table_says_so(
    tmp_path: Path,
) -> None:
    chosen = ("--lane", "stop-short", "--profile", "fast", "--set", "lane_scale=0.1")

    done = verify("lanes", *chosen, "--store", str(tmp_path), "--json")

    found = json.loads(done.stdout)
    (lane,) = found["lanes"]
    assert done.returncode == found["status"] == 0, lane
    assert (lane["starts"], lane["completed"], lane["failed"]) == (2, 2, 0)
    assert "1 runs: 1 valid" in done.stderr


def test_planted_bug_is_caught_by_its_lane_and_the_rule_named(tmp_path: Path) -> None:
    done = verify("run", "--bug", "pop-ahead-always", "--store", str(tmp_path), "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 1, found["reasons"]
    assert found["rules"]["lane-pops"]["violations"] == 1
    assert "chose --lane trickle --profile fast" in done.stderr
