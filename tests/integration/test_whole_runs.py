"""Whole runs over the real system, from the command line to the verdict."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from atleastonce.histories.folder import RunFolder
from atleastonce.histories.ops import find_malformed, read_ops
from atleastonce.nemesis.ledger import read_ledger
from atleastonce.nemesis.process import is_alive

pytestmark = pytest.mark.cluster

# A short lease lets a run drain soon; nothing else about it is smaller than a default run.
SHORT = (
    *("--set", "retry_after_s=4", "--set", "job_timeout_s=3", "--set", "shutdown_grace_s=4"),
    *("--set", "first_s=2", "--set", "share_overrun=0", "--set", "drain_margin_s=1"),
)


_POLL = threading.Event()


@dataclass(slots=True)
class Finished:
    """A finished command."""

    status: int
    stdout: str
    stderr: str

    def object(self) -> dict[str, Any]:
        """The one object of `--json`."""
        found: dict[str, Any] = json.loads(self.stdout)
        return found


@dataclass(slots=True)
class Verify:
    """Runs `verify` against one store; ends what it started."""

    store: Path
    _running: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(
        self, *arguments: str, variables: dict[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """Start a command."""
        command, *rest = arguments
        where = () if command == "check" else ("--store", str(self.store))
        process = subprocess.Popen(
            (sys.executable, "-m", "atleastonce.verifier", command, *where, *rest),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(variables or {})},
        )
        self._running.append(process)
        return process

    def finish(self, process: subprocess.Popen[str], timeout_s: float = 90) -> Finished:
        """Wait for a command's end."""
        stdout, stderr = process.communicate(timeout=timeout_s)
        return Finished(process.returncode, stdout, stderr)

    def run(self, *arguments: str, variables: dict[str, str] | None = None) -> Finished:
        """Run a command to its end."""
        return self.finish(self.start(*arguments, variables=variables))

    def latest(self) -> Path:
        """The newest run's folder."""
        return (self.store / "latest").resolve()

    def wait_for(self, condition: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
        """Wait until a condition holds; fails with its name if it takes longer."""
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            assert time.monotonic() < deadline_s, f"waited {timeout_s} s until {what}"
            _POLL.wait(0.05)

    def stop_all(self) -> None:
        """Kill what still runs; the system dies with its verifier."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
                process.communicate(timeout=10)


def living(run: Path) -> Sequence[str]:
    """Name every process of a run that is still alive: those of its ledger, and its workers."""
    left = [t.name for t in read_ledger(run / "ledger.jsonl").processes if is_alive(t)]
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                command = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if str(run).encode() in command:
                left.append(command.decode("utf-8", "replace").replace("\0", " "))
    return left


@pytest.fixture
def verify(tmp_path: Path) -> Iterator[Verify]:
    """A `verify` with a store of its own."""
    command = Verify(tmp_path / "store")
    yield command
    command.stop_all()


def test_short_run_under_kill_leader_is_valid_and_judged_alike_from_its_folder(
    verify: Verify,
) -> None:
    done = verify.run(
        *("run", "--nemesis", "kill-leader", "--time-limit", "9", "--seed", "11", "--json"), *SHORT
    )

    assert done.status == 0, done.stderr
    verdict = done.object()
    assert verdict["valid"] is True
    assert verdict["seed"] == 11
    assert any(fault["kind"] == "kill-leader" and fault["bit"] for fault in verdict["faults"])
    run = Path(verdict["run"])
    assert run == verify.latest()
    assert living(run) == []
    _check_folder(RunFolder(run))

    again = verify.run("check", str(run), "--json")

    assert again.status == 0
    assert again.object()["rules"] == verdict["rules"]


def _check_folder(folder: RunFolder) -> None:
    ops = read_ops(folder.history)
    assert find_malformed(ops) is None
    ended_ok = {op.f for op in ops if op.type == "ok"}
    assert {"dispatch", "drain", "read-dead-letters", "read-failed-jobs", "stop"} <= ended_ok
    records = folder.read()
    assert not records.damage
    assert {"worker", "master", "node"} <= {death.role for death in records.deaths}
    assert read_ledger(folder.ledger).closed
    assert (folder.path / "cluster.token").stat().st_mode & 0o777 == 0o600


def test_planted_bug_is_caught_and_its_rule_named(verify: Verify) -> None:
    done = verify.run(
        *("run", "--bug", "lease-ignored-on-pop", "--time-limit", "6", "--json"), *SHORT
    )

    assert done.status == 1, done.stderr
    assert "chose --nemesis none" in done.stderr
    assert done.object()["rules"]["overlap"]["valid"] is False


@pytest.mark.parametrize("times", [1, 2])
def test_interrupt_heals_stops_everything_and_leaves_unknown(verify: Verify, times: int) -> None:
    process = verify.start(
        *("run", "--nemesis", "pause-leader", "--time-limit", "30"),
        *("--set", "pause_s_min=20", "--set", "pause_s_max=20", "--set", "first_s=0.5"),
    )
    verify.wait_for(lambda: _fault_stage(verify, "effect"), "a leader is paused")

    process.send_signal(signal.SIGINT)
    if times == 2:
        verify.wait_for(lambda: _fault_stage(verify, "healed"), "the fault is healed")
        process.send_signal(signal.SIGINT)
    done = verify.finish(process, 30)

    assert done.status == 3, done.stderr
    assert "UNKNOWN" in done.stdout
    assert "interrupted during load" in done.stdout
    run = verify.latest()
    assert _fault_stage(verify, "healed")
    assert living(run) == []
    assert read_ledger(run / "ledger.jsonl").closed
    assert json.loads((run / "verdict.json").read_bytes())["valid"] == "unknown"
    assert find_malformed(read_ops(run / "history.jsonl")) is None


def _fault_stage(verify: Verify, stage: str) -> bool:
    path = verify.store / "latest" / "faults.jsonl"
    return path.exists() and f'"event":"{stage}"' in path.read_text()


def test_verifier_that_is_killed_takes_its_children_along_and_heal_closes_its_ledger(
    verify: Verify,
) -> None:
    process = verify.start(
        *("run", "--nemesis", "pause-leader", "--time-limit", "30"),
        *("--set", "pause_s_min=20", "--set", "pause_s_max=20", "--set", "first_s=0.5"),
    )
    verify.wait_for(lambda: _fault_stage(verify, "effect"), "a leader is paused")
    run = verify.latest()
    assert living(run)

    process.kill()
    verify.finish(process, 10)

    verify.wait_for(lambda: not living(run), "all children are dead", 10)
    assert not read_ledger(run / "ledger.jsonl").closed
    healed = verify.run("heal")
    assert healed.status == 0
    assert str(run) in healed.stdout
    assert read_ledger(run / "ledger.jsonl").closed
    assert "nothing to heal" in verify.run("heal").stdout
    assert verify.run("check", str(run)).status == 3


def test_node_that_does_not_start_is_exit_4_with_the_end_of_its_log(
    verify: Verify, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'atleastonce.system.node' in sys.orig_argv:\n"
        "    os.write(2, b'no node today\\n')\n"
        "    os._exit(3)\n"
    )

    done = verify.run("run", "--time-limit", "5", variables={"PYTHONPATH": str(tmp_path)})

    assert done.status == 4
    assert "n1 ended while starting" in done.stderr
    assert "no node today" in done.stderr
    assert "Traceback" not in done.stderr
    assert living(verify.latest()) == []
