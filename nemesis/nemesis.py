"""Applies a plan to a world: each fault at its time, written down first, always healed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import trio

from ..histories.faults import FaultEvent, FaultStage
from .acts import Act, Evidence, NoBiteError, Stage
from .clock_act import BumpClock
from .fault import Fault
from .ledger import Ledger
from .log_act import FlipLog
from .node_acts import KillNodes, PauseNode, TermNode
from .plan import DEFAULTS, NemesisSettings
from .results import FaultResult
from .supervisor_acts import StopSupervisor
from .worker_act import KillWorker
from .world import FaultRecorder, Target, World

ACTS: Final[dict[str, Callable[[Fault, Stage], Act]]] = {
    "kill-leader": KillNodes,
    "kill-follower": KillNodes,
    "kill-all": KillNodes,
    "term-leader": TermNode,
    "pause-leader": PauseNode,
    "kill-supervisor": StopSupervisor,
    "term-supervisor": StopSupervisor,
    "kill-worker": KillWorker,
    "bump-clock": BumpClock,
    "flip-log": FlipLog,
}


async def run_plan(
    plan: Sequence[Fault],
    world: World,
    ledger: Ledger,
    recorder: FaultRecorder,
    settings: NemesisSettings = DEFAULTS,
    worker: int | None = None,
) -> list[FaultResult]:
    """Apply every fault at its time, counted from this call.

    Faults run side by side. When this returns, or is cancelled, each fault that was opened has
    been healed; healing is shielded from cancellation, for at most `heal_wait_s`.

    Args:
        plan: From `make_plan` or `decode_plan`.
        world: The system.
        ledger: Written and synced before each act.
        recorder: Takes the events of `faults.jsonl`.
        settings: How long to wait for what.
        worker: Pid of the only worker that may be hit; None for any.

    Returns:
        What became of each fault, in the plan's order.

    Raises:
        ExceptionGroup: Of `OSError`: a process cannot be started again, or the ledger not written.
    """
    nemesis = _Nemesis(Stage(world, settings, set(), worker=worker), ledger, recorder)
    results = [FaultResult(fault, fault.target) for fault in plan]
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for result in results:
            nursery.start_soon(nemesis.apply, result, begun + result.fault.at_s)
    return results


class _Nemesis:
    def __init__(self, stage: Stage, ledger: Ledger, recorder: FaultRecorder) -> None:
        self._stage = stage
        self._ledger = ledger
        self._recorder = recorder

    async def apply(self, result: FaultResult, due: float) -> None:
        """One fault from its time to its recovery."""
        await trio.sleep_until(due)
        act = ACTS[result.fault.kind](result.fault, self._stage)
        try:
            try:
                targets = await act.choose()
            except NoBiteError as missing:
                self._not_found(result, str(missing))
                return
            result.target = act.hit
            await self._inject(result, act, targets)
        finally:
            self._stage.claims -= act.claimed

    def _not_found(self, result: FaultResult, reason: str) -> None:
        """Leave a fault in the record that a later judge must not miss."""
        result.reason = reason
        self._note(result, None, "opened", {"not_found": reason})
        self._note(result, None, "healed", {"not_found": reason})

    async def _inject(self, result: FaultResult, act: Act, targets: tuple[Target, ...]) -> None:
        self._ledger.fault_opened(result.fault.id, result.fault.kind, targets)
        self._note(result, act.pid, "opened", act.context())
        try:
            try:
                evidence = await act.bite()
            except NoBiteError as failure:
                result.reason = str(failure)
            else:
                result.bit = True
                self._note(result, act.pid, "effect", evidence)
                await act.hold()
        finally:
            await self._heal(result, act)
        recovered = await act.recover()
        if recovered is None:
            wait_s = self._stage.settings.recover_wait_s
            result.reason = result.reason or f"{result.target} was not healthy after {wait_s:g} s"
        else:
            self._note(result, act.pid, "recovered", recovered)

    async def _heal(self, result: FaultResult, act: Act) -> None:
        wait_s = self._stage.settings.heal_wait_s
        evidence: Evidence | None = None
        with trio.CancelScope(shield=True, deadline=trio.current_time() + wait_s):
            evidence = await act.heal()
        if evidence is None:
            result.reason = result.reason or f"{result.target} was not healed within {wait_s:g} s"
            return
        if result.reason:
            evidence |= {"no_bite": result.reason}
        self._ledger.fault_healed(result.fault.id)
        self._note(result, act.pid, "healed", evidence)

    def _note(
        self, result: FaultResult, pid: int | None, event: FaultStage, evidence: Evidence
    ) -> None:
        t_ns = time.monotonic_ns()
        setattr(result, f"{event}_ns", t_ns)
        result.evidence[event] = evidence
        self._recorder.write(
            FaultEvent(
                fault=result.fault.id,
                kind=result.fault.kind,
                target=result.target,
                event=event,
                t_ns=t_ns,
                wall_ns=time.time_ns(),
                pid=pid,
                evidence=evidence,
            )
        )
