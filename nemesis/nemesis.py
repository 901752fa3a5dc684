"""Applies a plan to a world: each fault at its time, written down first, always healed."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import trio

from ..histories.faults import FaultEvent, FaultStage
from .acts import Act, Evidence, NoBiteError, Stage
from .events import BIT, HEALED, RECOVERED, Events, event_of
from .fault import Fault
from .ledger import Ledger
from .registry import ACTS
from .results import FaultResult
from .settings import DEFAULTS, NemesisSettings
from .world import FaultRecorder, Target, World

__all__ = ["ACTS", "run_plan"]


async def run_plan(
    plan: Sequence[Fault],
    world: World,
    ledger: Ledger,
    recorder: FaultRecorder,
    settings: NemesisSettings = DEFAULTS,
    worker: int | None = None,
    *,
    events: Events | None = None,
    time_limit_s: float = math.inf,
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
        events: Of the run; those of the plan's own faults are announced here too.
        time_limit_s: A fault whose event has not come by then does not happen.

    Returns:
        What became of each fault, in the plan's order.

    Raises:
        ExceptionGroup: Of `OSError`: a process cannot be started again, or the ledger not written.
    """
    stage = Stage(world, settings, set(), worker=worker, events=events or Events(), ledger=ledger)
    nemesis = _Nemesis(stage, ledger, recorder)
    results = [FaultResult(fault, fault.target) for fault in plan]
    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for result in results:
            nursery.start_soon(nemesis.apply, result, begun, begun + time_limit_s)
    return results


class _Nemesis:
    def __init__(self, stage: Stage, ledger: Ledger, recorder: FaultRecorder) -> None:
        self._stage = stage
        self._ledger = ledger
        self._recorder = recorder

    async def apply(self, result: FaultResult, begun: float, latest: float) -> None:
        """One fault from its time to its recovery."""
        fault = result.fault
        if fault.after:
            with trio.move_on_at(latest) as patience:
                await self._stage.events.wait(fault.after)
            if patience.cancelled_caught:
                self._not_found(result, f"{fault.after} did not happen")
                return
            begun = trio.current_time()
        await trio.sleep_until(begun + fault.at_s)
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
            begun_s = time.monotonic()
            try:
                evidence = await act.bite()
            except NoBiteError as failure:
                result.reason = str(failure)
            else:
                result.bit = True
                self._note(result, act.pid, "effect", _took("onset_ms", begun_s) | evidence)
                self._announce(BIT, result)
                await act.hold()
        finally:
            await self._heal(result, act)
        recovered = await act.recover()
        if recovered is None:
            wait_s = self._stage.settings.recover_wait_s
            result.reason = result.reason or f"{result.target} was not healthy after {wait_s:g} s"
        else:
            self._note(result, act.pid, "recovered", recovered)
            self._announce(RECOVERED, result)

    async def _heal(self, result: FaultResult, act: Act) -> None:
        wait_s = self._stage.settings.heal_wait_s
        evidence: Evidence | None = None
        begun_s = time.monotonic()
        with trio.CancelScope(shield=True, deadline=trio.current_time() + wait_s):
            evidence = await act.heal()
            evidence = _took("heal_ms", begun_s) | evidence
        if evidence is None:
            result.reason = result.reason or f"{result.target} was not healed within {wait_s:g} s"
            return
        if result.reason:
            evidence |= {"no_bite": result.reason}
        self._ledger.fault_healed(result.fault.id)
        self._note(result, act.pid, "healed", evidence)
        self._announce(HEALED, result)

    def _announce(self, stage: str, result: FaultResult) -> None:
        self._stage.events.announce(event_of(stage, result.fault.id))

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


def _took(name: str, begun_s: float) -> Evidence:
    """How long a step took, proof included; an act that knows it better says so itself."""
    return {name: round((time.monotonic() - begun_s) * 1000, 3)}
