"""Whoever is killed, nothing is left: no worker, no fork server, nothing that a job started."""

from __future__ import annotations

import os
import signal

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster


def with_children(supervised: Supervised, broker: ScriptedBroker) -> dict[str, list[int]]:
    """Start two workers, and a job that has started two programs; all pids, by what they are."""
    supervised.allow_long_jobs()
    broker.push("spawn_children", "a", file=str(supervised.root / "gate"))
    supervised.start()
    wait_for(lambda: supervised.notes("done"), "the programs")
    status = supervised.status()
    return {
        "master": [status["master"]],
        "fork-server": [status["fork_server"]],
        "workers": [worker["pid"] for worker in status["workers"]],
        "group": [int(note[2]) for note in supervised.notes("child")],
        "detached": [int(note[2]) for note in supervised.notes("detached")],
    }


def gone(pids: dict[str, list[int]], *kinds: str) -> None:
    named = [pid for kind in kinds for pid in pids[kind]]
    wait_for(lambda: not any(is_alive(pid) for pid in named), f"the end of {kinds}")


def test_a_killed_worker_takes_its_group_along(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    wait_for(lambda: "a" in supervised.running(), "the job in the status")
    os.kill(supervised.running()["a"], signal.SIGKILL)
    gone(pids, "group")
    assert supervised.stop() == 0
    gone(pids, "master", "fork-server", "workers", "detached")


def test_a_killed_fork_server_takes_its_workers_and_their_groups_along(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    os.kill(pids["fork-server"][0], signal.SIGKILL)
    gone(pids, "fork-server", "workers", "group")
    wait_for(lambda: len(supervised.workers()) == 2, "the next generation")
    assert supervised.stop() == 0
    gone(pids, "master", "detached")


def test_a_killed_master_takes_everything_along(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    os.kill(pids["master"][0], signal.SIGKILL)
    gone(pids, "master", "fork-server", "workers", "group", "detached")


def test_killed_in_the_middle_of_a_restart_the_master_takes_old_and_new_along(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    assert supervised.asked("restart")["accepted"]
    wait_for(lambda: supervised.status()["code"] == 2, "the new fork server")
    now = supervised.status()
    pids["new"] = [now["fork_server"], *(worker["pid"] for worker in now["workers"])]
    os.kill(pids["master"][0], signal.SIGKILL)
    gone(pids, *pids)


def test_all_killed_at_once_leave_programs_that_the_next_start_ends(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    for kind in ("master", "fork-server", "workers"):
        for pid in pids[kind]:
            os.kill(pid, signal.SIGSTOP)
    for kind in ("master", "fork-server", "workers"):
        for pid in pids[kind]:
            os.kill(pid, signal.SIGKILL)
    gone(pids, "fork-server", "workers")
    assert supervised.process is not None
    supervised.process.wait(10)
    supervised.start()
    gone(pids, "group", "detached")
    assert supervised.stop() == 0


def test_a_fork_server_that_hung_when_its_master_was_killed_does_not_block_the_next(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    os.kill(pids["fork-server"][0], signal.SIGSTOP)
    os.kill(pids["master"][0], signal.SIGKILL)
    gone(pids, "workers")
    assert supervised.process is not None
    supervised.process.wait(10)
    supervised.start()
    gone(pids, "fork-server", "group", "detached")
    assert supervised.stop() == 0


def test_processes_that_jobs_forked_do_not_block_the_next_fork_server(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    broker.push("leave_children", "a")
    supervised.start()
    wait_for(lambda: supervised.notes("done"), "the job")
    (detached,) = [int(note[2]) for note in supervised.notes("detached")]
    before = supervised.status()
    os.kill(before["fork_server"], signal.SIGKILL)
    wait_for(lambda: not is_alive(detached), "the end of what was left")
    wait_for(lambda: len(supervised.workers()) == 2, f"a new generation\n{supervised.log()}")
    assert supervised.status()["fork_server"] != before["fork_server"]


def test_a_terminate_ends_what_jobs_have_started(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    pids = with_children(supervised, broker)
    assert supervised.asked("terminate")["state"] == "terminating"
    (supervised.root / "gate").touch()
    gone(pids, *pids)
