"""Whole runs through the link proxy: partitions, captures, and what is left of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.histories.folder import RunFolder
from atleastonce.nemesis.levels import missing_of
from atleastonce.verifier.levels import probe_machine

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
        *("--level", "0", "--store", str(tmp_path), *SHORT, "--json"),
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


def test_packets_of_a_private_network_are_captured_where_they_are_lost(tmp_path: Path) -> None:
    done = verify(
        *("run", "queue", "--nemesis", "partition-leader", "--capture", "--time-limit", "9"),
        *("--level", "1", "--store", str(tmp_path), *SHORT, "--json"),
    )
    if missing_of(1, probe_machine()):
        assert done.returncode == 3, done.stderr
        return
    assert done.returncode == 0, done.stderr
    run = json.loads(done.stdout)["run"]
    shown = verify("packets", run, "--around", "partition-leader-1", "--window", "1", "--json")
    assert shown.returncode == 0, shown.stderr
    messages = json.loads(shown.stdout)["messages"]
    appends = [message for message in messages if message["kind"] == "appends"]
    assert {message["stage"] for message in appends} == {"sent", "delivered"}
    assert {message["verdict"] for message in appends if message["stage"] == "sent"} == {
        "pass",
        "drop",
    }
