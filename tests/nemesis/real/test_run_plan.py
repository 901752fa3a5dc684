"""Every kind of fault on real processes: its evidence, its healing, and what is written when."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.histories.faults import FaultEvent, group_faults, read_faults
from atleastonce.histories.lines import LineWriter
from atleastonce.nemesis.ledger import Ledger, LedgerLine, read_ledger
from atleastonce.nemesis.nemesis import run_plan
from atleastonce.nemesis.process import is_alive, is_stopped

from .applying import SETTINGS, apply, fault
from .dummy_world import DummyWorld


def events(folder: Path) -> list[FaultEvent]:
    return read_faults(folder / "faults.jsonl")


def test_kill_leader_kills_the_leader_and_starts_it_again(
    world: DummyWorld, tmp_path: Path
) -> None:
    before = world.node_process("n1")
    (result,) = apply(world, tmp_path, fault("kill-leader"))
    assert result.bit
    assert result.target == "n1"
    assert result.reason == ""
    assert world.started == ["n1"]
    assert world.node_process("n1") != before
    assert world.running_nodes() == ["n1", "n2", "n3"]
    written = events(tmp_path)
    assert [event.event for event in written] == ["opened", "effect", "healed", "recovered"]
    assert {event.pid for event in written} == {before.pid}
    assert written[1].evidence["signal"] == "SIGKILL"
    assert written[1].evidence["statuses"] == {"n1": int(signal.SIGKILL)}
    assert written[2].evidence["leader_after"] == "n2"
    (grouped,) = group_faults(written)
    assert grouped.bit
    assert result.effect_ns is not None
    assert result.healed_ns is not None
    assert result.healed_ns - result.effect_ns >= 100_000_000


def test_kill_follower_spares_the_leader(world: DummyWorld, tmp_path: Path) -> None:
    plan = [
        msgspec.structs.replace(fault("kill-follower", k, at_s=k * 0.6), choice=k) for k in (0, 1)
    ]
    results = apply(world, tmp_path, *plan)
    assert [result.target for result in results] == ["n2", "n3"]
    assert all(result.bit for result in results)


def test_kill_all_hits_every_node_at_once(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, fault("kill-all"))
    assert result.bit
    assert result.target == "n1,n2,n3"
    assert result.evidence["effect"]["statuses"] == {"n1": 9, "n2": 9, "n3": 9}
    spread_us = result.evidence["effect"]["spread_us"]
    assert isinstance(spread_us, int)
    # A millisecond when the machine is idle; a busy one may interrupt between two signals.
    assert spread_us < 50_000
    assert sorted(world.started) == ["n1", "n2", "n3"]


def test_term_leader_waits_for_the_graceful_exit(world: DummyWorld, tmp_path: Path) -> None:
    (result,) = apply(world, tmp_path, fault("term-leader"))
    assert result.bit
    evidence = dict(result.evidence["effect"])
    assert 0 < float(str(evidence.pop("onset_ms"))) < 20_000
    assert evidence == {"signal": "SIGTERM", "status": 0, "ended": "exit 0", "forced": False}
    assert world.started == ["n1"]


def test_term_nodes_waits_for_the_graceful_exit_of_each(world: DummyWorld, tmp_path: Path) -> None:
    both = msgspec.structs.replace(fault("term-nodes"), target="n1+n3")
    (result,) = apply(world, tmp_path, both)
    assert result.bit
    evidence = dict(result.evidence["effect"])
    assert 0 < float(str(evidence.pop("onset_ms"))) < 20_000
    graceful = {"signal": "SIGTERM", "status": 0, "ended": "exit 0", "forced": False}
    assert evidence == {"n1": graceful, "n3": graceful}
    assert sorted(world.started) == ["n1", "n3"]


def test_term_nodes_that_were_all_gone_did_not_bite(world: DummyWorld, tmp_path: Path) -> None:
    both = msgspec.structs.replace(fault("term-nodes"), target="n2+n3")
    for node in ("n2", "n3"):
        world.kill(node)
        trio.run(world.wait_exit, world.node_process(node))
    (result,) = apply(world, tmp_path, both)
    assert not result.bit
    assert "had already ended" in str(result.reason)
    assert sorted(world.started) == ["n2", "n3"]


def test_a_leader_that_ignores_sigterm_is_killed_and_that_is_recorded(
    stubborn_world: DummyWorld, tmp_path: Path
) -> None:
    (result,) = apply(stubborn_world, tmp_path, fault("term-leader"))
    assert result.evidence["effect"]["forced"] is True
    assert result.evidence["effect"]["ended"] == "signal SIGKILL"
    assert stubborn_world.started == ["n1"]


def test_pause_leader_is_seen_stopped_and_seen_running(world: DummyWorld, tmp_path: Path) -> None:
    before = world.node_process("n1")
    (result,) = apply(world, tmp_path, fault("pause-leader", duration_s=0.2))
    assert result.bit
    assert result.evidence["effect"]["state"] == "T"
    healed = result.evidence["healed"]
    assert healed["stopped_to_the_end"] is True
    assert healed["runs"] is True
    assert healed["leader_after"] == "n2"
    assert world.node_process("n1") == before
    assert world.started == []
    assert is_alive(before)
    assert not is_stopped(before)


@pytest.mark.parametrize("kind", ["kill-supervisor", "term-supervisor"])
def test_a_supervisor_is_ended_with_its_workers_and_started_again(
    kind: str, world: DummyWorld, tmp_path: Path
) -> None:
    world.start_supervisor_now()
    workers = [view.pid for view in world.workers()]
    (result,) = apply(world, tmp_path, fault(kind))
    assert result.bit
    assert result.evidence["healed"]["workers_left"] == []
    assert result.recovered_ns is not None
    assert world.started == ["supervisor"]
    now = [view.pid for view in world.workers()]
    assert not set(now) & set(workers)
    expected = 9 if kind == "kill-supervisor" else 0
    assert result.evidence["effect"]["status"] == expected


def test_kill_worker_takes_the_one_in_a_job_with_more_in_hand(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.start_own_workers(3)
    busy = world.own_workers[0]
    (result,) = apply(world, tmp_path, fault("kill-worker"))
    assert result.bit
    assert result.target == f"worker {busy.pid}"
    opened = result.evidence["opened"]
    assert (opened["state"], opened["job"], opened["leases"]) == ("running", "job-1", 2)
    replaced = result.evidence["healed"]["replaced_by"]
    assert replaced == world.own_workers[0].pid


def test_kill_worker_takes_any_worker_when_none_gets_busy(
    world: DummyWorld, tmp_path: Path
) -> None:
    world.start_own_workers(2)
    world.worker_state = ("prefetched", 1)
    busy = world.own_workers[0]
    (result,) = apply(world, tmp_path, fault("kill-worker"))
    assert result.bit
    assert result.target == f"worker {busy.pid}"
    assert result.opened_ns is not None


def test_two_faults_never_share_a_target(world: DummyWorld, tmp_path: Path) -> None:
    plan = (fault("kill-leader", duration_s=0.2), fault("pause-leader", duration_s=0.2))
    results = apply(world, tmp_path, *plan)
    assert {result.target for result in results} == {"n1", "n2"}
    assert all(result.bit for result in results)
    assert world.running_nodes() == ["n1", "n2", "n3"]


def test_a_fault_on_all_nodes_is_not_overtaken_by_those_that_come_later(
    world: DummyWorld, tmp_path: Path
) -> None:
    # From 0.0 s to 1.5 s at least one of these would hold a node, were they never made to wait.
    one_node = [
        fault("pause-leader", number, at_s=number * 0.1, duration_s=0.25) for number in range(12)
    ]
    whole = fault("kill-all", at_s=0.15)
    patient = msgspec.structs.replace(SETTINGS, leader_wait_s=6)

    results = apply(world, tmp_path, *one_node, whole, settings=patient)

    assert [result.reason for result in results] == [""] * 13
    assert all(result.bit for result in results)
    begun = sorted((result.effect_ns or 0, result.fault.kind) for result in results)
    assert [kind for _, kind in begun].index("kill-all") <= 3


def test_waiting_for_another_fault_to_recover_is_not_waiting_for_a_leader(
    world: DummyWorld, tmp_path: Path
) -> None:
    long = fault("pause-leader", duration_s=1.0)
    whole = fault("kill-all", at_s=0.1)
    assert SETTINGS.leader_wait_s < long.duration_s / 2

    results = apply(world, tmp_path, long, whole)

    assert [result.reason for result in results] == ["", ""]
    assert all(result.bit for result in results)


def no_leader(world: DummyWorld) -> None:
    world.leaderless = True


def nothing(world: DummyWorld) -> None:
    pass


@pytest.mark.parametrize(
    ("kind", "prepare", "reason"),
    [
        ("kill-leader", no_leader, "no leader for 0.3 s"),
        ("kill-all", no_leader, "no leader for 0.3 s"),
        ("kill-supervisor", nothing, "no supervisor that another fault does not hold for 0.3 s"),
        ("kill-worker", nothing, "no worker for 0.3 s"),
    ],
)
def test_a_fault_without_a_target_did_not_bite_and_says_why(
    kind: str,
    prepare: Callable[[DummyWorld], None],
    reason: str,
    world: DummyWorld,
    tmp_path: Path,
) -> None:
    prepare(world)
    (result,) = apply(world, tmp_path, fault(kind))
    assert not result.bit
    assert result.reason == reason
    (grouped,) = group_faults(events(tmp_path))
    assert not grouped.bit
    assert grouped.healed_ns is not None
    assert world.started == []


def test_a_node_that_ended_by_itself_is_no_bite_and_is_started(
    world: DummyWorld, tmp_path: Path
) -> None:
    async def dead_leader() -> str | None:
        await trio.sleep(0)
        return "n1"

    os.kill(world.node_process("n1").pid, signal.SIGTERM)
    trio.run(world.wait_exit, world.node_process("n1"))
    world.leader = dead_leader  # type: ignore[method-assign]
    (result,) = apply(world, tmp_path, fault("kill-leader"))
    assert not result.bit
    assert "had already ended" in result.reason
    assert world.started == ["n1"]
    assert [event.event for event in events(tmp_path)] == ["opened", "healed", "recovered"]


@pytest.mark.parametrize(
    "kind", ["kill-leader", "kill-all", "term-leader", "pause-leader", "kill-supervisor"]
)
def test_cancellation_heals_what_is_open(kind: str, world: DummyWorld, tmp_path: Path) -> None:
    world.start_supervisor_now()

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(run_plan, [fault(kind, duration_s=60)], world, ledger, recorder)
                with trio.fail_after(5):
                    while not any(e.event == "effect" for e in events(tmp_path)):
                        await trio.sleep(0.01)
                scope.cancel()
        assert scope.cancelled_caught

    ledger = Ledger(tmp_path / "ledger.jsonl")
    with LineWriter(tmp_path / "faults.jsonl") as recorder:
        trio.run(main)
    assert [event.event for event in events(tmp_path)] == ["opened", "effect", "healed"]
    assert world.running_nodes() == ["n1", "n2", "n3"]
    assert world.supervisor_process() is not None
    assert read_ledger(tmp_path / "ledger.jsonl").open_faults == {}
    ledger.close()


def test_cancellation_before_the_graceful_exit_still_leaves_the_node_running(
    stubborn_world: DummyWorld, tmp_path: Path
) -> None:
    settings = msgspec.structs.replace(SETTINGS, node_grace_s=60, exit_wait_s=0.2)
    before = stubborn_world.node_process("n1")

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            plan = [fault("term-leader")]
            nursery.start_soon(run_plan, plan, stubborn_world, ledger, recorder, settings)
            with trio.fail_after(5):
                while not events(tmp_path):
                    await trio.sleep(0.01)
            nursery.cancel_scope.cancel()

    ledger = Ledger(tmp_path / "ledger.jsonl")
    with LineWriter(tmp_path / "faults.jsonl") as recorder:
        trio.run(main)
    ledger.close()
    assert stubborn_world.started == ["n1"]
    assert stubborn_world.node_process("n1") != before
    assert stubborn_world.running_nodes() == ["n1", "n2", "n3"]


def test_the_ledger_is_written_before_the_act(world: DummyWorld, tmp_path: Path) -> None:
    target = world.node_process("n1")
    apply(world, tmp_path, fault("kill-leader"))
    text = (tmp_path / "ledger.jsonl").read_bytes().splitlines()
    lines = [msgspec.json.decode(line, type=LedgerLine) for line in text]
    assert [line.event for line in lines] == ["run", "opened", "healed", "closed"]
    assert lines[1].targets == (target,)
    effect = next(event for event in events(tmp_path) if event.event == "effect")
    assert lines[1].t_ns < effect.t_ns < lines[2].t_ns


def test_faults_begin_at_their_time(world: DummyWorld, tmp_path: Path) -> None:
    results = apply(world, tmp_path, fault("kill-leader", 1, 0.0), fault("kill-leader", 2, 0.5))
    first, second = (result.opened_ns for result in results)
    assert first is not None
    assert second is not None
    assert second - first >= 450_000_000
