"""Workers that load the application themselves: the same care, without a fork of it."""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path

import pytest

from .pooled import QUEUES, Pooled, options, push
from .scripted_broker import ScriptedBroker
from .supervised import Supervised, is_alive, wait_for

pytestmark = pytest.mark.cluster
_FRESH = "atleastonce.system.supervisor.fresh_worker"


@pytest.fixture
def fresh(supervised: Supervised) -> Supervised:
    """A supervisor whose workers are fresh interpreters, not started yet."""
    supervised.config["prefork"] = False
    return supervised


def is_fresh(pid: int) -> bool:
    """Whether a process is an interpreter of its own; an empty command line is that of a zombie."""
    return _FRESH.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")


def _open_files(pid: int) -> list[str]:
    found = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        # One that it opens only to read it may be closed between the two looks.
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(path))
    return found


def pids(supervised: Supervised) -> set[int]:
    return {worker["pid"] for worker in supervised.workers()}


def test_each_worker_is_an_interpreter_of_its_own_under_the_same_parent(
    fresh: Supervised, broker: ScriptedBroker
) -> None:
    fresh.start()
    server = fresh.status()["fork_server"]
    for pid in pids(fresh):
        wait_for(functools.partial(is_fresh, pid), "the interpreter")
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        parent, _, session = (int(word) for word in stat[1:4])
        assert (parent, session) == (server, pid)
        assert str(fresh.state_dir / "generation.lock") in _open_files(pid)
    for name in "abcd":
        broker.push("quick", name)
    wait_for(lambda: len(fresh.notes("done")) == 4, f"four jobs\n{fresh.log()}")
    assert {int(note[2]) for note in fresh.notes("done")} <= pids(fresh)
    assert fresh.stop() == 0
    assert not any(is_alive(pid) for pid in fresh.pids)
    deaths = [death for death in fresh.lines("deaths.jsonl") if death["role"] == "worker"]
    assert [death["exit"] for death in deaths] == [0, 0]


@pytest.mark.parametrize("victim", ["master", "fork_server"])
def test_no_worker_outlives_its_master_or_its_fork_server(
    fresh: Supervised, broker: ScriptedBroker, victim: str
) -> None:
    fresh.allow_long_jobs()
    broker.push("until_file", "a", file=str(fresh.root / "never"))
    fresh.start()
    wait_for(lambda: "a" in fresh.running(), f"job a\n{fresh.log()}")
    before = pids(fresh)
    os.kill(fresh.status()[victim], signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in before), "the end of the workers")
    if victim == "fork_server":
        wait_for(lambda: len(pids(fresh) - before) == 2, f"new workers\n{fresh.log()}")


def loading(fresh: Supervised) -> set[int]:
    """Workers that load the application; the first that did only saw whether it can be."""
    return {int(note[2]) for note in fresh.notes("loading")[1:]}


@pytest.mark.parametrize("victims", [("master",), ("fork_server", "master"), ("fork_server",)])
def test_no_worker_that_is_still_loading_outlives_what_is_above_it(
    fresh: Supervised, victims: tuple[str, ...]
) -> None:
    fresh.config["app"] = "supervised_app:load_once_at_once"
    fresh.start()
    wait_for(lambda: loading(fresh) == pids(fresh), f"two that load\n{fresh.log()}")
    before = loading(fresh)
    for pid in [fresh.status()[victim] for victim in victims]:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not any(is_alive(pid) for pid in before), "the end of the workers")


def test_a_worker_that_is_killed_or_stopped_while_it_loads_ends_and_leaves_nothing(
    fresh: Supervised,
) -> None:
    fresh.config.update(workers=1, app="supervised_app:load_once_at_once", shutdown_grace_s=6.0)
    fresh.start()
    (before,) = pids(fresh)
    wait_for(lambda: loading(fresh) == {before}, "the load")
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: len(loading(fresh)) == 2, "the next worker")
    assert fresh.process is not None
    fresh.status()
    fresh.process.send_signal(signal.SIGTERM)
    wait_for(lambda: fresh.status().get("state") == "terminating", "the stop")
    (fresh.root / "gate").touch()
    assert fresh.process.wait(60) == 0
    ends = [(d["exit"], d["signal"]) for d in fresh.lines("deaths.jsonl") if d["role"] == "worker"]
    assert ends == [(None, 9), (0, None)]
    assert not any(is_alive(pid) for pid in fresh.pids)


def test_a_worker_that_loads_for_too_long_is_ended_and_counts_as_a_crash(
    fresh: Supervised,
) -> None:
    fresh.config.update(workers=1, app="supervised_app:load_once_at_once", boot_timeout_s=3.0)
    fresh.start()
    wait_for(lambda: fresh.lines("deaths.jsonl"), f"the end of the worker\n{fresh.log()}")
    assert fresh.lines("deaths.jsonl")[0]["signal"] == signal.SIGALRM
    assert '"exit":"crash"' in fresh.log()


def test_what_a_killed_worker_had_not_begun_is_handed_back(
    fresh: Supervised, broker: ScriptedBroker
) -> None:
    fresh.config["workers"] = 1
    fresh.allow_long_jobs()
    for name in "abc":
        broker.push("until_file", name, file=str(fresh.root / "gate"))
    fresh.start()
    wait_for(lambda: "a" in fresh.running(), f"job a\n{fresh.log()}")
    os.kill(fresh.running()["a"], signal.SIGKILL)
    wait_for(lambda: fresh.lines("handbacks.jsonl"), f"the hand-back\n{fresh.log()}")
    (handed,) = fresh.lines("handbacks.jsonl")
    assert (handed["unstarted"], handed["result"]) == (["b", "c"], "sent")


def test_a_timeout_leaves_its_marker_and_a_recycled_worker_is_replaced_at_once(
    fresh: Supervised, broker: ScriptedBroker
) -> None:
    fresh.config["workers"] = 1
    fresh.config["worker"].update(max_jobs=1, prefetch=1)
    fresh.start()
    broker.push("quick", "a")
    broker.push("overrun", "b")
    broker.push("quick", "c")
    wait_for(lambda: len(fresh.notes("done")) == 2, f"two jobs\n{fresh.log()}")
    wait_for(lambda: len(fresh.lines("deaths.jsonl")) >= 3, "three ends")
    ends = [(d["exit"], d["signal"], d["marker"]) for d in fresh.lines("deaths.jsonl")[:3]]
    assert ends == [(0, None, None), (None, 9, "timeout"), (0, None, None)]
    assert fresh.status()["circuit"] == "closed"


def test_new_code_is_what_every_worker_has_after_a_restart_and_broken_code_changes_nothing(
    fresh: Supervised, broker: ScriptedBroker
) -> None:
    fresh.config["workers"] = 1
    fresh.start()
    before = pids(fresh)
    wait_for(lambda: broker.seen, "a pop of loaded code")
    code = fresh.root / "code"
    code.write_text("broken")
    refused = fresh.command("restart", "--wait", "60")
    assert (refused.exit_code, "does not load" in refused.stderr) == (1, True)
    assert pids(fresh) == before
    code.write_text("second")
    assert fresh.asked("restart", "--wait", "60")["done"]
    assert pids(fresh).isdisjoint(before)
    broker.push("tell_code", "a")
    wait_for(lambda: fresh.notes("code"), "the code")
    assert fresh.notes("code")[0][2:] == ["a", "second"]
    markers = [d["marker"] for d in fresh.lines("deaths.jsonl") if d["role"] == "worker"]
    assert markers == ["restart"]


def test_code_that_breaks_behind_the_masters_back_opens_the_circuit_until_it_loads_again(
    fresh: Supervised, broker: ScriptedBroker
) -> None:
    fresh.config["workers"] = 1
    fresh.start()
    (before,) = pids(fresh)
    wait_for(lambda: is_fresh(before), "the interpreter")
    broker.push("quick", "a")
    wait_for(lambda: fresh.notes("done"), "a job")
    (fresh.root / "code").write_text("broken")
    os.kill(before, signal.SIGKILL)
    wait_for(lambda: fresh.status().get("circuit") == "open", f"the circuit\n{fresh.log()}")
    assert 1 in [death["exit"] for death in fresh.lines("deaths.jsonl")]
    assert "worker: cannot load supervised_app:make_app: SyntaxError" in fresh.log()
    (fresh.root / "code").unlink()
    broker.push("quick", "b")
    wait_for(lambda: len(fresh.notes("done")) == 2, f"the next job\n{fresh.log()}")


def test_an_application_that_starts_threads_is_no_problem_for_fresh_workers(
    fresh: Supervised,
) -> None:
    fresh.config["app"] = "supervised_app:leave_a_thread"
    fresh.start()
    wait_for(lambda: fresh.codes("--check-capacity") == [], "the capacity")


def test_an_application_that_does_not_load_ends_the_start_and_one_that_never_does_is_killed(
    fresh: Supervised,
) -> None:
    fresh.config["app"] = "supervised_app:fail_to_load"
    assert fresh.launch().wait(60) == 1
    assert "no such database" in fresh.status()["start_failure"]
    fresh.config.update(app="supervised_app:load_for_ever", boot_timeout_s=0.5)
    assert fresh.launch().wait(60) == 1
    assert "took longer than 0.5 s" in fresh.status()["start_failure"]
    (loading,) = [int(note[2]) for note in fresh.notes("loading")]
    wait_for(lambda: not is_alive(loading), "the end of what was loading")


def test_a_pool_may_fork_its_workers_where_the_others_load_the_application_themselves(
    pooled: Pooled,
) -> None:
    pooled.options = "\n".join(
        (
            options(0.2).replace("prefork = true", "prefork = false").partition("[pools.pool]")[0],
            "[pools.forked]",
            'queues = ["mail"]',
            "max_processes = 1",
            "timeout_s = 20",
            "prefork = true",
            "[pools.fresh]",
            'queues = ["news"]',
            "max_processes = 1",
            "timeout_s = 20",
        )
    )
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 2, f"two workers\n{pooled.log()}")
    push(pooled.port, QUEUES, 2, {"ms": 1}, job="nap")
    wait_for(lambda: len(pooled.notes("done")) == 4, f"all jobs\n{pooled.log()}")
    kinds = {note[2][:4]: is_fresh(int(note[4])) for note in pooled.notes("started")}
    assert kinds == {"mail": False, "news": True}
