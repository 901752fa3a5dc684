"""The fault on one worker: killed in the middle of a job."""

from __future__ import annotations

import random
import signal
import time
from contextlib import suppress
from typing import Final, Literal

import msgspec
import trio

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, Stage, send_or_no_bite
from .fault import Fault
from .options import options_of
from .process import ProcessGoneError, is_alive, send_to, wait_gone, wait_stopped
from .settings import NemesisSettings
from .world import Target, WorkerView

_LOOK_S: Final = 0.003
"""What is between a job's end and its ack lasts a few milliseconds."""


class WorkerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a worker is to be in the middle of.

    Attributes:
        state: `prefetched`: it holds jobs that have not begun; `running`: it is in a job;
            `unacked`: a job of it has ended, and the broker has not confirmed it; `any`: best a job
            with others in hand, and after a while whatever there is.
    """

    state: Literal["any", "prefetched", "running", "unacked"] = "any"


def draw_state(stream: random.Random, _: NemesisSettings) -> dict[str, Json]:
    """Draw one of the states in which a kill is charged or settled in its own way."""
    return {"state": stream.choice(("prefetched", "running", "unacked"))}


class KillWorker:
    """kill-worker: SIGKILL in the middle of a job; the supervisor is to replace it.

    A worker that is to be in a certain state is stopped first and looked at again: what the journal
    of a stopped worker says is true until it dies.
    """

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.fault = fault
        self.stage = stage
        self.claimed: frozenset[str] = frozenset()
        self.view: WorkerView | None = None
        self.target: Target | None = None
        self.before: frozenset[int] = frozenset()
        self.state = options_of(fault, WorkerOptions).state

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
            "unacked": view.unacked,
            "in_state_ms": waited_ms,
        }

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        if self.state != "any":
            return await self._choose_in_state()
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

    async def _choose_in_state(self) -> tuple[Target, ...]:
        """Find a worker that is in the state while it is stopped; it stays stopped."""
        stage, wait_s = self.stage, self.stage.settings.leader_wait_s
        announced: list[Target] = []
        try:
            with trio.move_on_after(wait_s):
                while True:
                    ranked = self._ranked()
                    if any(target not in announced for _, target in ranked):
                        announced += [target for _, target in ranked if target not in announced]
                        stage.will_touch(self.fault, announced)
                        continue  # Writing took longer than some states last.
                    fitting = [pair for pair in ranked if is_in_state(pair[0], self.state)]
                    if fitting:
                        view, target = fitting[self.fault.choice % len(fitting)]
                        if await self._stop_in_state(view, target):
                            return self._claim(self._now(view), target)
                    await trio.sleep(_LOOK_S)
        finally:
            if announced and self.target is None:
                stage.has_left(self.fault)
        raise NoBiteError(f"no worker was {self.state} for {wait_s:g} s")

    async def _stop_in_state(self, view: WorkerView, target: Target) -> bool:
        """Stop it; continue it if it has left the state meanwhile."""
        with suppress(ProcessGoneError):
            send_to(target, signal.SIGSTOP)
            stopped = False
            try:
                stopped = await wait_stopped(target, True, self.stage.settings.exit_wait_s)
                stopped = stopped and is_in_state(self._now(view), self.state)
            finally:
                if not stopped:
                    send_to(target, signal.SIGCONT)
            return stopped
        return False

    def _now(self, view: WorkerView) -> WorkerView:
        return next((one for one in self.stage.world.workers() if one.pid == view.pid), view)

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


def is_in_state(view: WorkerView, state: str) -> bool:
    """Whether a worker is in one of the states of `WorkerOptions`."""
    if state == "prefetched":
        return bool(view.unstarted) or view.state == "prefetched"
    if state == "running":
        return view.state == "running"
    return state == "any" or bool(view.unacked)


def _preference(view: WorkerView) -> int:
    """Lower is better: in a job with unstarted ones in hand, in a job, with jobs, without."""
    if view.state == "running":
        return 0 if view.unstarted or (view.unstarted is None and view.leases > 1) else 1
    return 2 if view.leases else 3
