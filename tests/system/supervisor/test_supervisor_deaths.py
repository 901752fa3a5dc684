"""Deaths of every role: nobody survives his master, and every death is on record."""

from __future__ import annotations

import os
import signal

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster


def test_a_dead_master_takes_everyone_along_and_the_deaths_are_recorded(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    broker.push("until_file", "a", file="/nowhere/at/all")
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), "job a")
    pids = {worker["pid"] for worker in supervised.workers()}
    assert supervised.process is not None
    supervised.process.kill()
    supervised.process.wait(10)
    wait_for(lambda: not any(is_alive(pid) for pid in supervised.pids), "their end")
    wait_for(lambda: len(supervised.lines("deaths.jsonl")) == 2, "the records")
    deaths = supervised.lines("deaths.jsonl")
    assert {death["pid"] for death in deaths} == pids
    assert {death["role"] for death in deaths} == {"worker"}


def test_a_new_master_begins_when_the_old_generation_is_gone(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    before = {worker["pid"] for worker in supervised.workers()}
    assert supervised.process is not None
    supervised.process.kill()
    supervised.process.wait(10)
    supervised.start()
    assert not any(is_alive(pid) for pid in before)
    assert before == {death["pid"] for death in supervised.lines("deaths.jsonl")}
    broker.push("quick", "a")
    wait_for(lambda: supervised.notes("done"), "a job under the new master")


def test_a_dead_fork_server_is_replaced_and_its_workers_are_accounted_for(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    status = supervised.status()
    before = {worker["pid"] for worker in status["workers"]}
    os.kill(status["fork_server"], signal.SIGKILL)

    def replaced() -> bool:
        now = {worker["pid"] for worker in supervised.workers()}
        return len(now) == 2 and now.isdisjoint(before)

    wait_for(replaced, f"a new generation\n{supervised.log()}")
    roles = {death["pid"]: death["role"] for death in supervised.lines("deaths.jsonl")}
    assert roles == {status["fork_server"]: "fork-server", **dict.fromkeys(before, "worker")}
    assert supervised.status()["circuit"] == "closed"
    broker.push("quick", "a")
    wait_for(lambda: supervised.notes("done"), "a job under the new fork server")
    assert supervised.stop() == 0


def test_five_crashes_open_the_circuit_and_a_probe_closes_it(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config.update(workers=1, stable_after_s=1.0)
    for number in range(5):
        broker.push("crash", f"bad-{number}")
    supervised.config["worker"]["prefetch"] = 1
    supervised.launch()
    wait_for(lambda: supervised.status().get("circuit") == "open", "the open circuit")
    assert len(supervised.lines("deaths.jsonl")) == 5
    wait_for(lambda: supervised.status()["circuit"] == "probing", "the probe")
    broker.push("quick", "good")
    wait_for(lambda: supervised.notes("done"), "a job of the probe")
    wait_for(lambda: supervised.status()["circuit"] == "closed", "the closed circuit")
    assert len(supervised.lines("deaths.jsonl")) == 5


@pytest.mark.parametrize(
    ("bugs", "circuit"), [([], "closed"), (["timeout-counts-as-crash"], "open")]
)
def test_timeouts_leave_the_circuit_closed_unless_planted(
    supervised: Supervised, broker: ScriptedBroker, bugs: list[str], circuit: str
) -> None:
    supervised.config.update(workers=1, bugs=bugs, restart_backoff_max_s=20.0)
    supervised.config["worker"]["prefetch"] = 1
    for number in range(5):
        broker.push("overrun", f"slow-{number}")
    supervised.launch()
    wait_for(lambda: len(supervised.lines("deaths.jsonl")) == 5, "five timeouts")
    assert {death["marker"] for death in supervised.lines("deaths.jsonl")} == {"timeout"}
    wait_for(lambda: supervised.status()["circuit"] == circuit, f"circuit {circuit}")


def test_what_a_job_leaves_running_ends_with_its_worker_or_its_supervisor(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config["workers"] = 1
    broker.push("leave_children", "a")
    supervised.start()
    (done,) = wait_for(lambda: supervised.notes("done"), "the job")
    worker = int(done[2])
    group = [int(note[2]) for note in supervised.notes("child")]
    detached = [int(note[2]) for note in supervised.notes("detached")]
    assert group
    assert detached
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in group), "the end of the worker's group")
    assert supervised.stop() == 0
    assert not any(is_alive(pid) for pid in detached)
