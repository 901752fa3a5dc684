"""The fault on one worker: killed in the middle of a job."""

from __future__ import annotations

import signal
import time

import trio

from .acts import POLL_S, Evidence, NoBiteError, Stage, send_or_no_bite
from .fault import Fault
from .process import ProcessGoneError, is_alive, wait_gone
from .world import Target, WorkerView


class KillWorker:
    """kill-worker: SIGKILL in the middle of a job; the supervisor is to replace it."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.fault = fault
        self.stage = stage
        self.claimed: frozenset[str] = frozenset()
        self.view: WorkerView | None = None
        self.target: Target | None = None
        self.before: frozenset[int] = frozenset()

    @property
    def pid(self) -> int | None:
        """See `Act`."""
        return self.target.pid if self.target else None

    @property
    def hit(self) -> str:
        """See `Act`."""
        return self.target.name if self.target else self.fault.target

    def context(self) -> Evidence:
        """See `Act`."""
        view = self.view
        assert view is not None, "context before choose"
        waited_ms = (time.monotonic_ns() - view.since_ns) // 1_000_000
        return {
            "state": view.state,
            "job": view.job,
            "leases": view.leases,
            "unstarted": view.unstarted,
            "in_state_ms": waited_ms,
        }

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        wait_s = self.stage.settings.worker_wait_s
        deadline_s = time.monotonic() + wait_s
        while True:
            is_late = time.monotonic() >= deadline_s
            takes_any = is_late or self.stage.worker is not None
            ranked = self._ranked()
            if ranked and (takes_any or _preference(ranked[0][0]) == 0):
                best = _preference(ranked[0][0])
                equal = [pair for pair in ranked if _preference(pair[0]) == best]
                return self._claim(*equal[self.fault.choice % len(equal)])
            if is_late:
                raise NoBiteError(f"no worker for {wait_s:g} s")
            await trio.sleep(POLL_S)

    def _ranked(self) -> list[tuple[WorkerView, Target]]:
        found = []
        for view in self.stage.world.workers():
            if self.stage.worker not in (None, view.pid):
                continue
            try:
                target = Target.of(view.pid, f"worker {view.pid}")
            except ProcessGoneError:
                continue  # The status is older than its death.
            if is_alive(target) and target.name not in self.stage.claims:
                found.append((view, target))
        return sorted(found, key=lambda pair: (_preference(pair[0]), pair[0].pid))

    def _claim(self, view: WorkerView, target: Target) -> tuple[Target, ...]:
        self.view, self.target = view, target
        self.before = frozenset(other.pid for other in self.stage.world.workers())
        self.claimed = frozenset({target.name})
        self.stage.claims |= self.claimed
        return (target,)

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "bite before choose"
        send_or_no_bite(self.target, signal.SIGKILL)
        if not await wait_gone(self.target, self.stage.settings.exit_wait_s):
            raise NoBiteError(f"{self.target.name} was not seen to end")
        return {"signal": "SIGKILL", "exit_seen": True}

    async def hold(self) -> None:
        """Wait until the supervisor has put another worker in its place."""
        with trio.move_on_after(self.stage.settings.recover_wait_s):
            while self._replacement() is None:
                await trio.sleep(POLL_S)

    def _replacement(self) -> int | None:
        pids = [view.pid for view in self.stage.world.workers()]
        new = [pid for pid in pids if pid not in self.before]
        assert self.target is not None, "replaced before choose"
        return new[0] if new and self.target.pid not in pids else None

    async def heal(self) -> Evidence:
        """See `Act`."""
        await trio.lowlevel.checkpoint()
        return {"replaced_by": self._replacement()}

    async def recover(self) -> Evidence | None:
        """See `Act`."""
        if self._replacement() is None:
            return None
        begun_s = time.monotonic()
        if not await self.stage.world.wait_supervisor_ready(self.stage.settings.recover_wait_s):
            return None
        return {"ready_after_s": round(time.monotonic() - begun_s, 3)}


def _preference(view: WorkerView) -> int:
    """Lower is better: in a job with unstarted ones in hand, in a job, with jobs, without."""
    if view.state == "running":
        return 0 if view.unstarted or (view.unstarted is None and view.leases > 1) else 1
    return 2 if view.leases else 3
