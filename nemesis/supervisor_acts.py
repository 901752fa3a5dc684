"""Faults on the supervisor: its master killed, or asked to stop."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from typing import Final

import trio

from .acts import (
    POLL_S,
    Evidence,
    NoBiteError,
    Stage,
    check_killed,
    exit_of,
    see_gone,
    send_or_no_bite,
    terminate,
)
from .fault import Fault
from .process import ProcessGoneError, is_alive, wait_gone
from .world import Target, WorkerView

_SUPERVISOR: Final = "supervisor"


class StopSupervisor:
    """kill-supervisor, term-supervisor: end the master, see its workers gone, start it again."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        self.fault = fault
        self.stage = stage
        self.claimed: frozenset[str] = frozenset()
        self.hit = _SUPERVISOR
        self.target: Target | None = None
        self.workers: list[Target] = []
        self.workers_gone: Evidence = {}
        self.told_to_end = False

    @property
    def pid(self) -> int | None:
        """See `Act`."""
        return self.target.pid if self.target else None

    def context(self) -> Evidence:
        """See `Act`."""
        running = [view.job for view in self.stage.world.workers() if view.job is not None]
        return {"workers": len(self.workers), "running": list(running)}

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        stage, wait_s = self.stage, self.stage.settings.leader_wait_s
        with trio.move_on_after(wait_s):
            while True:
                target = stage.world.supervisor_process()
                if target is not None and _SUPERVISOR not in stage.claims:
                    self.claimed = frozenset({_SUPERVISOR})
                    stage.claims |= self.claimed
                    self.target = target
                    self.workers = living(stage.world.workers())
                    return (target,)
                await trio.sleep(POLL_S)
        raise NoBiteError(f"no supervisor that another fault does not hold for {wait_s:g} s")

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "bite before choose"
        self.told_to_end = True
        if self.fault.kind == "term-supervisor":
            return await terminate(self.stage, self.target, self.stage.settings.supervisor_grace_s)
        # Workers that came since the choice are watched too.
        self.workers = living(self.stage.world.workers())
        send_or_no_bite(self.target, signal.SIGKILL)
        status = await exit_of(self.stage, self.target)
        check_killed(self.target, status)
        return {"signal": "SIGKILL", "status": status}

    async def hold(self) -> None:
        """Wait until the workers are gone, and then for the planned time."""
        begun_s = time.monotonic()
        left = []
        for worker in self.workers:
            left_s = max(0.0, begun_s + self.stage.settings.exit_wait_s - time.monotonic())
            if not await wait_gone(worker, left_s):
                left.append(worker.pid)
        gone_s = round(time.monotonic() - begun_s, 3)
        self.workers_gone = {"workers_gone_s": gone_s, "workers_left": list(left)}
        await trio.sleep(self.fault.duration_s)

    async def heal(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "heal before choose"
        if self.told_to_end:
            await see_gone(self.stage, self.target)
        if is_alive(self.target):
            return {"alive": True}
        await self.stage.world.start_supervisor()
        return self.workers_gone | {"started": True}

    async def recover(self) -> Evidence | None:
        """See `Act`."""
        begun_s = time.monotonic()
        wait_s = self.stage.settings.recover_wait_s
        if not await self.stage.world.wait_supervisor_ready(wait_s):
            return None
        return {"ready_after_s": round(time.monotonic() - begun_s, 3)}


def living(views: Iterable[WorkerView]) -> list[Target]:
    """The workers that can still be identified."""
    found = []
    for view in views:
        try:
            found.append(Target.of(view.pid, f"worker {view.pid}"))
        except ProcessGoneError:
            continue  # The status is older than its death.
    return found
