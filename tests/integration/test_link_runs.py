"""Whole runs through the link proxy: partitions, captures, and what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.histories.folder import RunFolder

pytestmark = pytest.mark.cluster

SHORT = ("--set", "settle_s=0.5", "--set", "first_s=1.5", "--seed", "5")


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, "-m", "atleastonce.verifier", *arguments),
        capture_output=True,
        text=True,
        timeout=120,
        env=dict(os.environ),
        check=False,
    )


def test_a_run_with_a_partition_is_valid_captured_and_leaves_nothing(tmp_path: Path) -> None:
    done = verify(
        *("run", "queue", "--nemesis", "partition-leader", "--capture", "--time-limit", "9"),
        *("--store", str(tmp_path), *SHORT, "--json"),
    )
    assert done.returncode == 0, done.stderr
    run = RunFolder(Path(json.loads(done.stdout)["run"]))
    ledger = (run.path / "ledger.jsonl").read_text()
    assert '"name":"links"' in ledger
    assert not (run.path / "links.sock").exists()

    shown = verify("packets", str(run.path), "--around", "partition-leader-1", "--json")
    assert shown.returncode == 0, shown.stderr
    messages = json.loads(shown.stdout)["messages"]
    held = [message for message in messages if message["verdict"] == "hold"]
    assert {message["fault"] for message in held} == {"partition-leader-1"}
    assert {"appends", "append-answers"} <= {message["kind"] for message in messages}


def test_a_fault_on_packets_ends_a_captured_run_before_it_starts(tmp_path: Path) -> None:
    done = verify(
        *("run", "queue", "--nemesis", "packet-loss", "--capture", "--store", str(tmp_path)), *SHORT
    )
    assert done.returncode == 3
    assert "'packets'" in done.stderr
    assert not list(tmp_path.glob("*/*/scenario.json"))
