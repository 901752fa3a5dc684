"""`atleastonce supervisor …` on a real supervisor."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atleastonce.system.supervisor.control_files import write_control
from atleastonce.system.supervisor.core.control import Action, Control

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster
CHECKS = ("--check-liveness", "--check", "--check-capacity")


def test_a_pause_lets_jobs_finish_and_hands_the_rest_back_until_it_is_continued(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    gate = supervised.root / "gate"
    supervised.allow_long_jobs()
    supervised.config["workers"] = 1
    for name in "abc":
        broker.push("until_file", name, file=str(gate))
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), "job a")
    before = supervised.running()["a"]
    assert supervised.asked("pause")["state"] == "pausing"
    assert is_alive(before)
    gate.touch()
    wait_for(lambda: supervised.status()["state"] == "paused", "the pause")
    assert supervised.workers() == []
    assert [note[2] for note in supervised.notes("started")] == ["a"]
    assert [message.job for message in broker.ready] == ["b", "c"]
    assert (supervised.codes("--check-liveness"), supervised.codes("--check")) == ([], ["paused"])
    assert supervised.asked("continue", "--wait", "10")["state"] == "running"
    wait_for(lambda: len(supervised.notes("done")) == 3, "the rest")
    starts = {(note[2], note[3]) for note in supervised.notes("started")}
    assert starts == {("a", "1"), ("b", "1"), ("c", "1")}
    (death,) = supervised.lines("deaths.jsonl")
    assert (death["pid"], death["exit"]) == (before, 0)
    assert supervised.status()["circuit"] == "closed"


def test_terminate_waits_for_the_end_and_nothing_is_left(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    assert [supervised.codes(check) for check in CHECKS] == [[], [], []]
    assert supervised.asked("terminate", "--wait", "15")["done"]
    assert supervised.process is not None
    assert supervised.process.wait(10) == 0
    assert not any(is_alive(pid) for pid in supervised.pids)
    assert supervised.status()["state"] == "stopped"
    assert supervised.codes("--check-liveness") == ["not-running"]
    done = supervised.command("pause")
    assert (done.exit_code, "no supervisor runs here" in done.stderr) == (1, True)


def test_a_request_for_another_instance_or_of_another_time_is_refused(
    supervised: Supervised,
) -> None:
    supervised.start()
    now_us = time.monotonic_ns() // 1000
    instance = supervised.status()["instance"]
    for nonce, meant, asked_us in (
        ("a" * 8, "another", now_us),
        ("b" * 8, instance, now_us - 61_000_000),
        ("c" * 8, instance, now_us + 3_600_000_000),
    ):
        write_control(
            supervised.state_dir, Control(Action.TERMINATE, meant, nonce, asked_us, ttl_s=60)
        )
    wait_for(lambda: len(supervised.status()["controls"]) == 3, "three answers")
    refused = {answer["nonce"][0]: answer["refused"] for answer in supervised.status()["controls"]}
    assert refused["a"] == "it is for instance another"
    assert "held for 60 s" in refused["b"]
    assert refused["c"] == "it comes from the future"
    assert supervised.status()["state"] == "running"
    assert list((supervised.state_dir / "controls").iterdir()) == []


def test_a_hung_master_is_not_alive_and_an_untaken_request_is_withdrawn(
    supervised: Supervised,
) -> None:
    supervised.config["heartbeat_timeout_s"] = 1.0
    supervised.start()
    assert supervised.process is not None
    os.kill(supervised.process.pid, signal.SIGSTOP)
    try:
        wait_for(lambda: supervised.codes("--check-liveness") == ["no-heartbeat"], "no heartbeat")
        done = supervised.command("pause", "--timeout", "0.3")
        assert (done.exit_code, "withdrawn" in done.stderr) == (1, True)
        assert list((supervised.state_dir / "controls").iterdir()) == []
    finally:
        os.kill(supervised.process.pid, signal.SIGCONT)
    wait_for(lambda: supervised.codes("--check-liveness") == [], "a heartbeat")


def test_status_shows_every_worker_in_words_and_as_json(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.allow_long_jobs()
    broker.push("until_file", "a", file="/nowhere/at/all")
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), "job a")
    pid = supervised.running()["a"]
    told = supervised.asked("status")
    assert told["alive"]
    assert {worker["pid"] for worker in told["status"]["workers"]} >= {pid}
    lines = supervised.command("status").stdout.splitlines()
    assert "running, 2 of 2 workers, circuit closed, code 1" in lines[0]
    assert any(f"worker {pid}: running a for" in line for line in lines[1:])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pause", "--ttl", "29"), "29"),
        (("pause", "--timeout", "0"), "0"),
        (("dance",), "dance"),
        (("status",), "No such file or directory"),
        (("terminate",), "No such file or directory"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_status_2(
    tmp_path: Path, words: tuple[str, ...], said: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert Supervised(tmp_path, 1).command(*words).exit_code == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert said in line


def test_the_program_has_both_groups_of_commands(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "atleastonce.system.entry", "supervisor", "status"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ATLEASTONCE_STATE_DIR": str(tmp_path / "none")},
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [f"atleastonce: {tmp_path}/none: No such file or directory"]


def test_a_state_directory_open_to_others_is_refused_by_those_who_look(
    supervised: Supervised, capfd: pytest.CaptureFixture[str]
) -> None:
    supervised.start()
    supervised.state_dir.chmod(0o755)
    done = supervised.command("status", "--check", "--json")
    supervised.state_dir.chmod(0o700)
    assert (done.exit_code, "mode 0755" in capfd.readouterr().err) == (2, True)


@pytest.mark.parametrize("bugs", [[], ["broker-asked-before-stop"]])
def test_workers_hear_of_a_stop_before_the_broker_is_asked_anything_unless_planted(
    supervised: Supervised, broker: ScriptedBroker, bugs: list[str]
) -> None:
    gate = supervised.root / "gate"
    broker.reads_hang = True
    supervised.config.update(bugs=bugs, shutdown_grace_s=5.5)
    broker.push("until_file", "a", file=str(gate))
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), "job a")
    busy = supervised.running()["a"]
    (idle,) = {worker["pid"] for worker in supervised.workers()} - {busy}
    assert supervised.process is not None
    supervised.process.send_signal(signal.SIGTERM)
    wait_for(lambda: supervised.status()["state"] == "terminating", "the stop")
    if bugs:
        wait_for(lambda: broker.requests("/depth"), "the question")
        assert is_alive(idle)
    else:
        wait_for(lambda: not is_alive(idle), "the idle worker's end")
        assert is_alive(busy)
    gate.touch()
    assert supervised.process.wait(20) == 0
    exits = {d["pid"]: d["signal"] for d in supervised.lines("deaths.jsonl")}
    assert exits[idle] == (signal.SIGKILL if bugs else None)
    assert bool(broker.requests("/depth")) == bool(bugs)


def test_a_worker_that_ignores_everything_is_killed_after_the_grace_with_its_group(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config["workers"] = 1
    supervised.config["worker"].update(timeout_s=0.5)
    supervised.config["shutdown_grace_s"] = 1.0
    supervised.start()
    (worker,) = [w["pid"] for w in supervised.workers()]
    os.kill(worker, signal.SIGSTOP)
    server = supervised.status()["fork_server"]
    os.kill(server, signal.SIGSTOP)
    assert supervised.asked("terminate")["state"] == "terminating"
    assert supervised.process is not None
    assert supervised.process.wait(30) == 0
    assert not is_alive(worker)
    assert not is_alive(server)
    rounds = [json.loads(line) for line in supervised.log().splitlines() if "grace is" in line]
    assert len(rounds) >= 5
    gaps = [b["t_ns"] - a["t_ns"] for a, b in itertools.pairwise(rounds)]
    assert all(gap >= 0.9e9 for gap in gaps)
