"""Whole runs of the workloads that speak to the nodes alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atleastonce.histories.folder import RunFolder

pytestmark = pytest.mark.cluster

SHORT = (
    "--set",
    "settle_s=0.5",
    "--set",
    "lease_s=1",
    "--set",
    "first_s=1.5",
    "--seed",
    "5",
    "--json",
)


def verify(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run a command to its end: exit status, the object of `--json`, standard error."""
    done = subprocess.run(
        (sys.executable, "-m", "atleastonce.verifier", *arguments),
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ),
        check=False,
    )
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


@pytest.mark.parametrize(
    ("workload", "final"),
    [
        (("queue",), "drain"),
        (("log", "--set", "txn=true"), "final-read"),
        (("claim",), "final-read"),
    ],
)
def test_short_run_under_kill_leader_is_valid_and_judged_alike_from_its_folder(
    tmp_path: Path, workload: tuple[str, ...], final: str
) -> None:
    status, verdict, told = verify(
        *("run", *workload, "--nemesis", "kill-leader", "--time-limit", "6"),
        *("--store", str(tmp_path), *SHORT),
    )

    assert status == 0, told
    assert any(fault["bit"] for fault in verdict["faults"])
    folder = RunFolder(verdict["run"])
    records = folder.read()
    assert not records.damage
    assert any(op.f == final and op.type == "ok" for op in records.ops)
    assert {death.role for death in records.deaths} == {"node"}
    assert not folder.supervisor.joinpath("status.json").exists()

    status, again, _ = verify("check", verdict["run"], "--json")

    assert status == 0
    assert again["rules"] == verdict["rules"]


@pytest.mark.parametrize(
    ("bug", "rule"),
    [("lease-ignored-on-pop", "lease-overlap"), ("orphaned-claims", "claim-left-behind")],
)
def test_planted_bug_is_caught_by_the_queue_and_its_rule_named(
    tmp_path: Path, bug: str, rule: str
) -> None:
    status, verdict, told = verify(
        *("run", "queue", "--bug", bug, "--time-limit", "5"),
        *("--store", str(tmp_path), *SHORT),
    )

    assert status == 1, told
    assert verdict["rules"][rule]["valid"] is False


def test_clocks_that_jump_break_no_rule(tmp_path: Path) -> None:
    status, verdict, told = verify(
        *("run", "queue", "--nemesis", "bump-clock", "--time-limit", "8"),
        *("--store", str(tmp_path), *SHORT),
    )

    assert status == 0, told
    assert all(fault["bit"] for fault in verdict["faults"])


def test_nodes_refuse_damaged_logs_and_lose_nothing(tmp_path: Path) -> None:
    status, verdict, told = verify(
        *("run", "queue", "--nemesis", "flip-log", "--time-limit", "10"),
        *("--store", str(tmp_path), *SHORT),
    )

    assert status == 0, told
    (fault,) = verdict["faults"]
    assert fault["bit"]
