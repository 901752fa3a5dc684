"""A short soak over the real system, from the command line to the verdict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from atleastonce.histories.memory import read_memory

pytestmark = pytest.mark.cluster


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `verify` to its end."""
    command = (sys.executable, "-m", "atleastonce.verifier", *arguments)
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def test_soak_accounts_for_every_job_and_for_memory_and_is_judged_again_alike(
    tmp_path: Path,
) -> None:
    chosen = ("--minutes", "0.15", "--nodes", "1", "--workers", "4", "--seed", "3")

    done = verify("soak", *chosen, "--store", str(tmp_path), "--json")

    found = json.loads(done.stdout)
    assert done.returncode == 0, found["reasons"]
    assert {fault["kind"] for fault in found["faults"] if fault["bit"]} == {
        "kill-worker",
        "term-supervisor",
    }
    assert found["strength"]["soak"]["jobs"] > 30
    assert set(found["strength"]["memory"]) == {"supervisor", "fork-server", "worker", "n1"}
    assert "first third" in done.stderr
    assert len(read_memory(Path(found["run"]) / "memory.jsonl")) > 20
    again = verify("check", found["run"], "--json")
    assert again.returncode == 0
    assert json.loads(again.stdout)["rules"] == found["rules"]
