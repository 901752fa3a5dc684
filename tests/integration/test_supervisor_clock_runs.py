"""Whole runs in which the supervisor's and its workers' time of day is moved."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atleastonce.histories.folder import RunFolder
from atleastonce.nemesis.clockshim.shim import ShimClock

pytestmark = pytest.mark.cluster

SHORT = (
    *("--set", "retry_after_s=4", "--set", "job_timeout_s=3", "--set", "shutdown_grace_s=4"),
    *("--set", "first_s=2", "--set", "share_overrun=0", "--set", "drain_margin_s=1"),
)


def run(store: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    command = (sys.executable, "-m", "atleastonce.verifier", "run", "--json", "--store", str(store))
    done = subprocess.run(
        (*command, *SHORT, *arguments),
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


@pytest.mark.parametrize("kind", ["bump-supervisor-clock", "strobe-supervisor-clock"])
def test_workers_whose_clocks_jump_break_no_rule(tmp_path: Path, kind: str) -> None:
    status, verdict, told = run(tmp_path, "--nemesis", kind, "--time-limit", "9", "--seed", "4")

    assert status == 0, told
    assert verdict["faults"]
    assert all(fault["bit"] for fault in verdict["faults"])
    folder = RunFolder(verdict["run"])
    for evidence in [fault.evidence["effect"] for fault in folder.read().faults]:
        # Master, fork server and four workers.
        assert evidence["processes"] == 6
        assert evidence["records"]
    with ShimClock(folder.path / "supervisor-clock.so") as shim:
        assert shim.offset_ns == 0


def test_retries_that_a_worker_plans_by_its_own_time_of_day_are_caught(tmp_path: Path) -> None:
    status, verdict, told = run(
        tmp_path, "--bug", "retry-by-time-of-day", "--time-limit", "20", "--seed", "3"
    )

    assert status == 1, told
    assert verdict["rules"]["early"]["valid"] is False
