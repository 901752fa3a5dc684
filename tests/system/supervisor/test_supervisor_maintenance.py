"""Maintenance mode, on real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from atleastonce.system.supervisor.maintenance import is_maintained, switch_maintenance

from .pooled import Pooled, push
from .scripted_broker import ScriptedBroker
from .supervised import Supervised, wait_for

_OPTIONS = """
[master]
app = "supervised_app:make_app"
poll_interval_s = 0.2
prefork = true
[driver]
partitions = 8
block_for_s = 1
request_timeout_s = 2
[pools.plain]
queues = ["mail"]
max_processes = 1
memory_mib = 0
[pools.forced]
queues = ["news"]
max_processes = 1
memory_mib = 0
force = true
quiet = false
"""


def test_only_a_plain_file_of_this_user_is_maintenance(tmp_path: Path) -> None:
    assert not is_maintained(tmp_path)
    (tmp_path / "maintenance").symlink_to(tmp_path / "elsewhere")
    assert not is_maintained(tmp_path)
    with pytest.raises(OSError, match="symbolic"):
        switch_maintenance(tmp_path, True)
    switch_maintenance(tmp_path, False)
    for wanted in (True, True, False, False):
        switch_maintenance(tmp_path, wanted)
        assert is_maintained(tmp_path) is wanted


@pytest.mark.cluster
def test_maintenance_lets_a_job_finish_hands_the_rest_back_and_outlives_the_master(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    gate = supervised.root / "gate"
    supervised.allow_long_jobs()
    supervised.config["workers"] = 1
    for name in "abc":
        broker.push("until_file", name, file=str(gate))
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), "job a")
    assert supervised.asked("maintenance", "on")["noticed"]
    assert supervised.status()["maintenance"] == "entering"
    gate.touch()
    assert supervised.asked("maintenance", "on", "--wait", "60")["done"]
    assert [message.job for message in broker.ready] == ["b", "c"]
    assert supervised.codes("--check-liveness") == []
    assert supervised.codes("--check-capacity") == ["maintenance"]
    assert "maintenance: on" in supervised.command("status").stdout
    assert supervised.stop() == 0
    supervised.launch()
    wait_for(lambda: supervised.status().get("state") == "running", "the next master")
    assert (supervised.status()["maintenance"], supervised.workers()) == ("on", [])
    assert supervised.asked("maintenance", "off", "--wait", "60")["done"]
    wait_for(lambda: len(supervised.notes("done")) == 3, "the rest")
    starts = {(note[2], note[3]) for note in supervised.notes("started")}
    assert starts == {("a", "1"), ("b", "1"), ("c", "1")}
    wait_for(lambda: supervised.codes("--check-capacity") == [], "the capacity")


@pytest.mark.cluster
def test_maintenance_is_switched_while_no_supervisor_runs(supervised: Supervised) -> None:
    supervised.state_dir.mkdir(mode=0o700)
    told = supervised.asked("maintenance", "on", "--wait", "5")
    assert told == {"maintenance": "on", "running": False, "noticed": True, "done": True}
    supervised.launch()
    wait_for(lambda: supervised.status().get("state") == "running", "a running supervisor")
    assert (supervised.status()["maintenance"], supervised.workers()) == ("on", [])
    assert supervised.command("maintenance", "perhaps").exit_code == 2


@pytest.mark.cluster
def test_a_forced_pool_works_in_maintenance_and_one_that_is_not_quiet_says_what_it_does(
    pooled: Pooled,
) -> None:
    pooled.options = _OPTIONS
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 2, f"two workers\n{pooled.log()}")
    assert pooled.asked("maintenance", "on", "--wait", "60")["done"]
    push(pooled.port, ("mail", "news"), 2, {"ms": 1}, job="nap")
    wait_for(lambda: len(pooled.notes("done")) == 2, f"the forced pool's jobs\n{pooled.log()}")
    assert {note[2] for note in pooled.notes("done")} == {"news0", "news1"}
    wait_for(lambda: pooled.codes("--check-capacity") == [], "the capacity")
    assert pooled.asked("maintenance", "off")["noticed"]
    wait_for(lambda: len(pooled.notes("done")) == 4, f"the other pool's jobs\n{pooled.log()}")
    assert {(note[2], note[3]) for note in pooled.notes("started")} == {
        (f"{queue}{number}", "1") for queue in ("mail", "news") for number in (0, 1)
    }
    lines = [line for line in pooled.log().splitlines() if not line.startswith("{")]
    said = [line.split()[1:6] for line in lines]
    assert said.count(["nap", "news0", "attempt", "1", "begins"]) == 1
    assert said.count(["nap", "news1", "attempt", "1", "completed"]) == 1
    assert not any(line[1].startswith("mail") for line in said), lines


@pytest.mark.cluster
def test_an_application_that_cannot_be_loaded_is_what_the_status_says(
    supervised: Supervised,
) -> None:
    supervised.config["app"] = "supervised_app:leave_a_thread"
    assert supervised.launch().wait(60) == 1
    assert supervised.status()["state"] == "stopped"
    done = supervised.command("status", "--check", "--json")
    reasons = {reason["code"]: reason["text"] for reason in json.loads(done.stdout)["reasons"]}
    assert list(reasons) == ["not-running", "start-failed"]
    assert "left 1 threads running (Thread-" in reasons["start-failed"]
