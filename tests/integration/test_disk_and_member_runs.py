"""Whole runs under faults on disks and members."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cluster


def run(folder: Path, nemesis: str, time_limit_s: int) -> dict[str, Any]:
    """Run the queue workload to its end, which must be valid; the object of `--json`."""
    settings = ("settle_s=0.5", "lease_s=1", "first_s=1.5")
    pairs = [word for setting in settings for word in ("--set", setting)]
    size = ("--time-limit", str(time_limit_s), "--seed", "5", "--store", str(folder), "--json")
    command = ("-m", "atleastonce.verifier", "run", "queue", "--nemesis", nemesis)
    done = subprocess.run(
        (sys.executable, *command, *size, *pairs),
        capture_output=True,
        text=True,
        timeout=180,
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def evidence(folder: Path, event: str) -> list[dict[str, Any]]:
    (path,) = folder.glob("queue-*/*/faults.jsonl")
    events = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [each["evidence"] for each in events if each["event"] == event]


@pytest.mark.parametrize("nemesis", ["failing-sync", "full-disk"])
def test_a_node_whose_disk_fails_ends_and_nothing_is_lost(tmp_path: Path, nemesis: str) -> None:
    assert all(fault["bit"] for fault in run(tmp_path, nemesis, 8)["faults"])
    for seen in evidence(tmp_path, "effect"):
        assert set(seen["ended"].values()) == {"exit 71"}


def test_a_power_loss_costs_unsynced_bytes_and_nothing_that_was_acknowledged(
    tmp_path: Path,
) -> None:
    assert all(fault["bit"] for fault in run(tmp_path, "power-loss", 9)["faults"])
    assert all(seen["lost_bytes"] > 0 for seen in evidence(tmp_path, "effect"))


def test_a_wiped_member_is_a_voter_again_and_nothing_is_lost(tmp_path: Path) -> None:
    assert all(fault["bit"] for fault in run(tmp_path, "wipe-rejoin", 14)["faults"])
    assert all(seen["rejoined"] for seen in evidence(tmp_path, "healed"))
