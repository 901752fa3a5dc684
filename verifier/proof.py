"""The end of every plan: all faults healed, and the system proved to be well again."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec
import trio

from ..nemesis.ledger import read_ledger
from .cluster import Cluster

_PAUSE_S: Final = 0.1


class Proof(msgspec.Struct, kw_only=True):
    """What was seen after the last fault, before the system is drained; in `harness.json`.

    Attributes:
        healed: Whether nothing that a fault opened is still open.
        well: Whether all nodes were healthy under one leader of one term, and all masters alive.
        after_s: How long that took; how long was waited where it never came.
        leader: Who led then; empty if nobody did.
        term: Its term.
        nodes: Role or state by node, as last heard.
        masters: Whether each supervisor's master was alive.
        restarted: What was down though no fault held it.
    """

    healed: bool = False
    well: bool = False
    after_s: float = 0.0
    leader: str = ""
    term: int = 0
    nodes: dict[str, str] = {}
    masters: dict[str, bool] = {}
    restarted: list[str] = []

    def problems(self, open_faults: Sequence[str]) -> list[str]:
        """Say what keeps it from being a proof, a sentence each."""
        found = [f"fault {fault} was never healed" for fault in open_faults]
        if not self.well:
            told = ", ".join(f"{node} {state}" for node, state in self.nodes.items())
            dead = [name for name, alive in self.masters.items() if not alive]
            beside = f"; {', '.join(dead)} down" if dead else ""
            found.append(
                f"{self.after_s:g} s after the last fault the system was not well: {told}{beside}"
            )
        return found


async def prove_health(
    cluster: Cluster, ledger: Path, restarted: Sequence[str], wait_s: float
) -> tuple[Proof, list[str]]:
    """Wait until the system is well, at most so long; the proof, and what is missing from it."""
    open_faults = list(read_ledger(ledger).open_faults)
    proof = Proof(healed=not open_faults, restarted=list(restarted))
    begun_s = time.monotonic()
    with trio.move_on_after(wait_s):
        while not await _look(cluster, proof):
            await trio.sleep(_PAUSE_S)
    proof.after_s = round(time.monotonic() - begun_s, 3)
    return proof, proof.problems(open_faults)


async def _look(cluster: Cluster, proof: Proof) -> bool:
    views = await cluster.watch.ask_all()
    proof.nodes = {
        node: "silent" if view.health is None else view.health.raft.role or view.health.status
        for node, view in views.items()
    }
    proof.masters = {
        each.name: each.child is not None and each.child.target.pid in cluster.running()
        for each in cluster.supervisors
    }
    terms = {view.health.raft.term for view in views.values() if view.health is not None}
    proof.leader = cluster.watch.leader() or ""
    proof.term = max(terms, default=0)
    leads = [role for role in proof.nodes.values() if role == "leader"]
    proof.well = (
        all(view.is_healthy for view in views.values())
        and len(terms) == 1
        and len(leads) == 1
        and all(proof.masters.values())
    )
    return proof.well
