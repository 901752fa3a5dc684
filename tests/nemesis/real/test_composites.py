"""Faults in several steps, and on several processes at once, on real processes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.process import is_alive, is_stopped
from atleastonce.nemesis.world import WorkerView

from .applying import SETTINGS, apply, fault
from .dummy_world import DummyWorld


def aimed(kind: str, target: str, choice: int = 0) -> Fault:
    return msgspec.structs.replace(fault(kind), target=target, choice=choice)


@pytest.mark.parametrize(
    ("target", "hit"),
    [("majority", 2), ("minority", 1), ("all", 3), ("n2+n3", 2), ("followers", 2)],
)
def test_kill_nodes_hits_as_many_as_its_target_says(
    target: str, hit: int, world: DummyWorld, tmp_path: Path
) -> None:
    (result,) = apply(world, tmp_path, aimed("kill-nodes", target))
    assert result.bit
    assert len(world.started) == hit
    assert world.running_nodes() == ["n1", "n2", "n3"]
    assert len(result.target.split(",")) == hit


def test_pause_nodes_stops_and_continues_all_that_it_hits(
    world: DummyWorld, tmp_path: Path
) -> None:
    before = [world.node_process(node) for node in world.nodes()]
    (result,) = apply(world, tmp_path, aimed("pause-nodes", "majority"))
    assert result.bit
    assert result.evidence["healed"]["stopped_to_the_end"] is True
    assert result.evidence["healed"]["runs"] is True
    assert [world.node_process(node) for node in world.nodes()] == before
    assert not any(is_stopped(target) for target in before)


def test_rolling_restart_ends_with_the_leader(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, fault("rolling-restart"))
    assert result.bit
    assert world.started == ["n2", "n3", "n1"]
    steps = msgspec.convert(result.evidence["effect"]["steps"], dict[str, dict[str, object]])
    assert list(steps) == ["n2", "n3", "n1"]
    assert {step["ended"] for step in steps.values()} == {"exit 0"}


def test_kill_electing_kills_the_leader_and_its_successor(
    world: DummyWorld, tmp_path: Path
) -> None:
    (result,) = apply(world, tmp_path, fault("kill-electing"))
    assert result.bit
    effect = result.evidence["effect"]
    assert (effect["first"], effect["second"], effect["role"]) == ("n1", "n2", "leader")
    assert sorted(world.started) == ["n1", "n2"]
    assert world.running_nodes() == ["n1", "n2", "n3"]


def test_kill_catching_up_kills_a_follower_that_is_behind(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.behind = 7
    (result,) = apply(world, tmp_path, fault("kill-catching-up"))
    assert result.bit
    effect = {name: told for name, told in result.evidence["effect"].items() if name != "onset_ms"}
    assert effect == {
        "signal": "SIGKILL",
        "node": "n2",
        "behind": 7,
        "tries": 1,
        "nodes": {"n2": {"role": "follower", "state": "catching up"}},
    }
    assert world.started == ["n2", "n2"]
    assert world.running_nodes() == ["n1", "n2", "n3"]


def test_a_node_that_is_never_behind_is_no_bite(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, fault("kill-catching-up"))
    assert not result.bit
    assert result.reason == "n2 was never seen behind in 3 starts"
    assert world.running_nodes() == ["n1", "n2", "n3"]


def test_pause_kill_leaves_those_behind_and_the_killed_one_alone_for_a_while(
    world: DummyWorld, tmp_path: Path
) -> None:
    (result,) = apply(world, tmp_path, fault("pause-kill", duration_s=0.4))
    assert result.bit
    effect = result.evidence["effect"]
    killed = effect["killed"]
    [behind], [paused] = (msgspec.convert(effect[part], list[str]) for part in ("behind", "paused"))
    assert {behind, killed, paused} == {"n1", "n2", "n3"}
    assert world.started == [killed]
    assert result.evidence["healed"]["continued"] == [paused]
    assert result.evidence["healed"]["leader_after"] in (behind, killed)
    assert world.running_nodes() == ["n1", "n2", "n3"]


@pytest.mark.parametrize("kind", ["kill-supervisor-workers", "kill-lease-holder"])
def test_a_supervisor_and_workers_die_at_once(kind: str, world: DummyWorld, tmp_path: Path) -> None:
    world.start_supervisor_now()
    workers = [view.pid for view in world.workers()]
    (result,) = apply(world, tmp_path, fault(kind))
    assert result.bit
    assert result.evidence["effect"]["status"] == 9
    assert result.evidence["healed"]["workers_left"] == []
    assert world.started == ["supervisor"]
    if kind == "kill-lease-holder":
        [victim] = msgspec.convert(result.evidence["effect"]["workers"], list[int])
        assert victim in workers
        assert result.target == f"supervisor,worker {victim}"


def test_kill_fork_server_waits_for_another_one(world: DummyWorld, tmp_path: Path) -> None:
    world.start_supervisor_now()
    server = world.start_fork_server()
    (result,) = apply(world, tmp_path, fault("kill-fork-server"), settings=BRIEF)
    assert result.bit
    assert result.target == "fork server"
    assert not is_alive(server)
    now = world.fork_server()
    assert now is not None
    assert result.evidence["healed"]["replaced_by"] == now.pid
    assert world.started == []


BRIEF = msgspec.structs.replace(SETTINGS, exit_wait_s=0.2, recover_wait_s=1)


def in_state(state: str) -> Fault:
    return msgspec.structs.replace(fault("kill-worker"), options={"state": state})


def views(world: DummyWorld, **changes: int) -> None:
    """Have the first worker be in a state that it never leaves."""
    plain = DummyWorld.workers

    def workers() -> list[WorkerView]:
        found = list(plain(world))
        if not found:
            return found
        held = {"leases": 1, "unstarted": 0, "unacked": 0} | changes
        first = WorkerView(found[0].pid, found[0].state, "job-1", 0, **held)
        return [first, *found[1:]]

    world.workers = workers  # type: ignore[method-assign]


@pytest.mark.parametrize(
    ("state", "worker", "changes"),
    [
        ("running", "running", {}),
        ("prefetched", "idle", {"unstarted": 2}),
        ("unacked", "running", {"unacked": 1}),
    ],
)
def test_kill_worker_takes_one_that_is_in_the_state_asked_for(
    state: str, worker: str, changes: dict[str, int], world: DummyWorld, tmp_path: Path
) -> None:
    world.start_own_workers(3)
    world.worker_state = (worker, 1)
    views(world, **changes)
    busy = world.own_workers[0]
    (result,) = apply(world, tmp_path, in_state(state))
    assert result.bit
    assert result.target == f"worker {busy.pid}"
    opened = result.evidence["opened"]
    assert {name: opened[name] for name in changes} == changes


def test_a_worker_that_leaves_the_state_is_continued_and_not_killed(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.start_own_workers(1)
    world.worker_state = ("idle", 0)
    views(world, unacked=1)
    seen = world.workers
    flaky = [True]

    def workers() -> list[WorkerView]:
        flaky[0] = not flaky[0]
        found = list(seen())
        return found if flaky[0] else [WorkerView(v.pid, v.state, None, 0, 0) for v in found]

    world.workers = workers  # type: ignore[method-assign]
    (result,) = apply(world, tmp_path, in_state("unacked"))
    assert not result.bit
    assert result.reason == "no worker was unacked for 0.3 s"
    [worker] = world.own_workers
    assert is_alive(worker)
    assert not is_stopped(worker)


def test_cancellation_of_a_fault_in_steps_leaves_all_nodes_running(
    world: DummyWorld, tmp_path: Path
) -> None:
    from atleastonce.histories.lines import LineWriter
    from atleastonce.nemesis.ledger import Ledger, read_ledger
    from atleastonce.nemesis.nemesis import run_plan

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            plan = [fault("pause-kill", duration_s=60)]
            nursery.start_soon(run_plan, plan, world, ledger, recorder)
            with trio.fail_after(5):
                while len(world.running_nodes()) == 3:
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    ledger = Ledger(tmp_path / "ledger.jsonl")
    with LineWriter(tmp_path / "faults.jsonl") as recorder:
        trio.run(main)
    ledger.close()
    assert world.running_nodes() == ["n1", "n2", "n3"]
    assert read_ledger(tmp_path / "ledger.jsonl").open_faults == {}
