"""Plans applied to a dummy world."""

from __future__ import annotations

from pathlib import Path

import trio

from atleastonce.histories.lines import LineWriter
from atleastonce.nemesis.fault import Fault
from atleastonce.nemesis.ledger import Ledger, read_ledger
from atleastonce.nemesis.nemesis import run_plan
from atleastonce.nemesis.plan import NemesisSettings
from atleastonce.nemesis.registry import NEMESES
from atleastonce.nemesis.results import FaultResult

from .dummy_world import DummyWorld

SETTINGS = NemesisSettings(
    leader_wait_s=0.3,
    worker_wait_s=0.3,
    exit_wait_s=3,
    node_grace_s=0.2,
    supervisor_grace_s=3,
    recover_wait_s=3,
    heal_wait_s=10,
)


def fault(kind: str, number: int = 1, at_s: float = 0.0, duration_s: float = 0.1) -> Fault:
    target = NEMESES[kind].target
    return Fault(id=f"{kind}-{number}", kind=kind, target=target, at_s=at_s, duration_s=duration_s)


def apply(
    world: DummyWorld, folder: Path, *plan: Fault, settings: NemesisSettings = SETTINGS
) -> list[FaultResult]:
    async def main() -> list[FaultResult]:
        with trio.fail_after(20):
            return await run_plan(plan, world, ledger, recorder, settings)

    ledger = Ledger(folder / "ledger.jsonl")
    with LineWriter(folder / "faults.jsonl") as recorder:
        results = trio.run(main)
    assert read_ledger(folder / "ledger.jsonl").open_faults == {}
    ledger.close()
    return results
