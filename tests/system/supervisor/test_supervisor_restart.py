"""New code: it takes the place of the old without a gap, or, when it does not load, not at all."""

from __future__ import annotations

import os
import signal

import pytest

from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster


def deploy(supervised: Supervised, code: str) -> None:
    (supervised.root / "code").write_text(code, encoding="utf-8")


def codes(supervised: Supervised) -> dict[str, str]:
    """By job, the code that it ran with last."""
    return {note[2]: note[3] for note in supervised.notes("code")}


@pytest.mark.parametrize(
    ("bugs", "ran_with"), [([], "second"), (["restart-keeps-old-code"], "first")]
)
def test_a_job_after_a_restart_runs_with_the_new_code_unless_planted(
    supervised: Supervised, broker: ScriptedBroker, bugs: list[str], ran_with: str
) -> None:
    gate = supervised.root / "gate"
    supervised.allow_long_jobs()
    supervised.config["bugs"] = bugs
    deploy(supervised, "first")
    broker.push("code_until_file", "running", file=str(gate))
    supervised.start()
    wait_for(lambda: "running" in supervised.running(), "the running job")
    before = supervised.status()
    busy = supervised.running()["running"]
    (idle,) = {worker["pid"] for worker in before["workers"]} - {busy}
    deploy(supervised, "second")
    assert supervised.asked("restart")["accepted"]
    wait_for(lambda: not is_alive(idle), f"the idle worker's end\n{supervised.log()}")
    assert is_alive(busy)
    wait_for(lambda: len(supervised.workers()) == 2, "the idle worker's successor")
    broker.push("tell_code", "later", "p-0001")
    wait_for(lambda: "later" in codes(supervised), "a job of the new worker")
    assert codes(supervised) == {"later": ran_with}
    gate.touch()
    wait_for(lambda: not is_alive(busy), "the busy worker's end")
    assert codes(supervised) == {"later": ran_with, "running": "first"}
    if not bugs:
        wait_for(lambda: not is_alive(before["fork_server"]), "the old fork server's end")
        wait_for(lambda: not supervised.status()["is_restarting"], "the end of the restart")
        assert {worker["code"] for worker in supervised.workers()} == {2}
        roles = {d["pid"]: (d["role"], d["marker"]) for d in supervised.lines("deaths.jsonl")}
        assert roles == {idle: ("worker", "restart"), busy: ("worker", "restart")}
    assert supervised.status()["circuit"] == "closed"
    assert supervised.stop() == 0


def test_code_that_does_not_load_leaves_the_old_at_work_and_the_next_restart_is_heeded(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    before = supervised.status()
    deploy(supervised, "broken")
    done = supervised.command("restart", "--wait", "30")
    assert (done.exit_code, "code that does not load" in done.stderr) == (1, True)
    after = supervised.status()
    assert after["fork_server"] == before["fork_server"]
    assert {w["pid"] for w in after["workers"]} == {w["pid"] for w in before["workers"]}
    broker.push("tell_code", "a")
    wait_for(lambda: codes(supervised) == {"a": "first"}, "a job with the old code")
    deploy(supervised, "third")
    assert supervised.asked("restart", "--wait", "30")["done"]
    broker.push("tell_code", "b")
    wait_for(lambda: codes(supervised).get("b") == "third", "a job with the new code")


def test_a_worker_that_was_being_forked_when_new_code_came_does_not_keep_the_old(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.config.update(workers=1, restart_backoff_s=0.5)
    supervised.start()
    before = supervised.status()
    (worker,) = before["workers"]
    os.kill(worker["pid"], signal.SIGKILL)
    wait_for(lambda: not supervised.workers(), "the worker's end")
    server = before["fork_server"]
    os.kill(server, signal.SIGSTOP)
    deploy(supervised, "second")
    assert supervised.asked("restart")["accepted"]
    wait_for(lambda: supervised.status()["code"] == 2, "the new fork server")
    os.kill(server, signal.SIGCONT)
    broker.push("tell_code", "a")
    wait_for(lambda: supervised.workers() and not supervised.status()["is_restarting"], "its end")
    broker.push("tell_code", "b")
    wait_for(lambda: "b" in codes(supervised), "a job")
    assert codes(supervised)["b"] == "second"
    wait_for(lambda: not is_alive(server), "the old fork server's end")


def test_a_worker_may_ask_for_newer_code_by_its_marker(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    deploy(supervised, "second")
    broker.push("ask_for_restart", "a")
    wait_for(
        lambda: supervised.status()["code"] == 2 and not supervised.status()["is_restarting"],
        f"the new code\n{supervised.log()}",
    )
    wait_for(lambda: len(supervised.workers()) == 2, "both workers")
    assert {worker["code"] for worker in supervised.workers()} == {2}
    broker.push("tell_code", "b")
    wait_for(lambda: codes(supervised).get("b") == "second", "a job with the new code")
    assert {d["marker"] for d in supervised.lines("deaths.jsonl")} == {"restart"}


def test_a_restart_while_paused_is_there_when_it_is_continued(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    supervised.start()
    assert supervised.asked("pause", "--wait", "15")["done"]
    deploy(supervised, "second")
    assert supervised.asked("restart", "--wait", "15")["done"]
    assert supervised.workers() == []
    assert supervised.asked("continue")["accepted"]
    broker.push("tell_code", "a")
    wait_for(lambda: codes(supervised) == {"a": "second"}, "a job with the new code")


def test_a_stop_during_a_restart_ends_old_and_new(
    supervised: Supervised, broker: ScriptedBroker
) -> None:
    gate = supervised.root / "gate"
    supervised.allow_long_jobs()
    broker.push("until_file", "a", file=str(gate))
    supervised.start()
    wait_for(lambda: "a" in supervised.running(), "job a")
    assert supervised.asked("restart")["accepted"]
    wait_for(lambda: supervised.status()["code"] == 2, "the new fork server")
    supervised.status()
    assert supervised.process is not None
    supervised.process.send_signal(signal.SIGTERM)
    gate.touch()
    assert supervised.process.wait(20) == 0
    assert not any(is_alive(pid) for pid in supervised.pids)
