"""Disks that are slow, stall, fail or are full, and power that fails, on gated processes."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import trio

from atleastonce.histories.lines import LineWriter
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.ledger import Ledger
from atleastonce.nemesis.nemesis import run_plan
from atleastonce.nemesis.results import FaultResult

from .applying import SETTINGS, fault
from .gated_world import ENDS, GOES_ON, GatedWorld

PATIENT = msgspec.structs.replace(SETTINGS, leader_wait_s=10)


def on(target: str, kind: str, **options: str | float | bool) -> Fault:
    return msgspec.structs.replace(fault(kind), target=target, options=dict(options))


def apply_gated(folder: Path, *plan: Fault, after: str = ENDS) -> tuple[FaultResult, GatedWorld]:
    """Apply one fault to gated nodes."""
    world = GatedWorld(folder, after)

    async def main() -> list[FaultResult]:
        with trio.fail_after(40):
            async with trio.open_nursery() as nursery:
                await world.begin(nursery)
                results = await run_plan(plan, world, ledger, recorder, PATIENT)
                for node in world.nodes():
                    world.kill(node)
                return results

    ledger = Ledger(folder / "ledger.jsonl")
    try:
        with LineWriter(folder / "faults.jsonl") as recorder:
            (result,) = trio.run(main)
    finally:
        world.end()
        ledger.close()
    return result, world


def test_a_stalled_sync_is_seen_held_and_let_go(tmp_path: Path) -> None:
    result, world = apply_gated(tmp_path, on("n1+n3", "stalled-sync"))
    assert result.bit
    assert result.evidence["effect"]["hits"] == {"n1": 1, "n3": 1}
    assert result.evidence["effect"]["files"] == ["1.wal"]
    assert world.started == []


def test_slow_syncs_are_counted(tmp_path: Path) -> None:
    result, _ = apply_gated(tmp_path, on("n2", "slow-sync", sync_ms=20))
    hits = msgspec.convert(result.evidence["healed"]["hits"], dict[str, int])
    assert hits["n2"] > 1


@pytest.mark.parametrize("kind", ["failing-sync", "failing-write", "full-disk"])
def test_a_node_whose_disk_fails_ends_once_and_is_started_again(tmp_path: Path, kind: str) -> None:
    result, world = apply_gated(tmp_path, on("n2", kind))
    assert result.bit, result.reason
    assert result.evidence["effect"]["ended"] == {"n2": "exit 71"}
    assert world.started == ["n2"]


def test_a_node_that_goes_on_after_a_failed_sync_is_told_of(tmp_path: Path) -> None:
    result, _ = apply_gated(tmp_path, on("n2", "failing-sync"), after=GOES_ON)
    assert not result.bit
    assert result.reason == "n2 went on although its disk had failed"


def test_a_power_loss_takes_unsynced_bytes_and_leaves_synced_ones(tmp_path: Path) -> None:
    result, world = apply_gated(tmp_path, on("all", "power-loss"))
    assert result.bit, result.reason
    lost = msgspec.convert(result.evidence["effect"]["lost"], dict[str, list[dict[str, int | str]]])
    assert sorted(lost) == ["n1", "n2", "n3"]
    for [loss] in lost.values():
        floor, kept, size = (int(loss[name]) for name in ("floor", "kept", "size"))
        assert size == floor + 100
        assert floor <= kept < size
    assert sorted(world.started) == ["n1", "n2", "n3"]
