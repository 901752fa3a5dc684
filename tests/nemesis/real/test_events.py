"""Faults that wait for an event begin after it, and say so when it never comes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import trio

from atleastonce.histories.lines import LineWriter
from atleastonce.nemesis.events import Events
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.ledger import Ledger
from atleastonce.nemesis.nemesis import run_plan
from atleastonce.nemesis.results import FaultResult

from .applying import SETTINGS, apply, fault
from .dummy_world import DummyWorld


def waiting(kind: str, after: str, at_s: float = 0.0) -> Fault:
    return msgspec.structs.replace(fault(kind, at_s=at_s), after=after)


def test_a_fault_waits_until_another_one_is_healed(world: DummyWorld, tmp_path: Path) -> None:
    plan = (fault("kill-leader", duration_s=0.3), waiting("pause-leader", "healed:kill-leader-1"))
    first, second = apply(world, tmp_path, *plan)
    assert first.healed_ns is not None
    assert second.opened_ns is not None
    assert second.opened_ns > first.healed_ns
    assert second.bit


def run(
    world: DummyWorld, folder: Path, plan: Fault, events: Events, limit_s: float
) -> FaultResult:
    async def main() -> list[FaultResult]:
        with trio.fail_after(10):
            return await run_plan(
                [plan], world, ledger, recorder, SETTINGS, events=events, time_limit_s=limit_s
            )

    ledger = Ledger(folder / "ledger.jsonl")
    with LineWriter(folder / "faults.jsonl") as recorder:
        [result] = trio.run(main)
    ledger.close()
    return result


def test_an_event_that_has_happened_opens_the_fault(world: DummyWorld, tmp_path: Path) -> None:
    events = Events()
    events.announce("first-job-started")
    assert run(world, tmp_path, waiting("kill-leader", "first-job-started"), events, 5).bit


def test_an_event_that_never_comes_is_a_fault_that_did_not_bite(
    world: DummyWorld, tmp_path: Path
) -> None:
    result = run(world, tmp_path, waiting("kill-leader", "leader-changed"), Events(), 0.1)
    assert not result.bit
    assert result.reason == "leader-changed did not happen"
    assert world.started == []
