"""Faults on several processes of a supervisor at once, and on the one that workers come from."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, suppress
from typing import Final

import trio

from ..histories.ops import Json
from .acts import (
    POLL_S,
    Evidence,
    NoBiteError,
    check_killed,
    exit_of,
    send_or_no_bite,
)
from .process import ProcessGoneError, is_alive, opened, send, wait_gone
from .supervisor_acts import StopSupervisor, living
from .world import Target, WorkerView

_FORK_SERVER: Final = "fork server"


class KillForkServer(StopSupervisor):
    """kill-fork-server: SIGKILL; the master is to start another one, and workers from it."""

    fork_server: Target | None = None

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        await super().choose()
        wait_s = self.stage.settings.leader_wait_s
        with trio.move_on_after(wait_s):
            while True:
                self.fork_server = self.stage.world.fork_server()
                if self.fork_server is not None and is_alive(self.fork_server):
                    self.hit = _FORK_SERVER
                    return (self.fork_server,)
                await trio.sleep(POLL_S)
        raise NoBiteError(f"no fork server for {wait_s:g} s")

    @property
    def pid(self) -> int | None:
        """See `Act`."""
        return self.fork_server.pid if self.fork_server else None

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.fork_server is not None, "bite before choose"
        self.workers = living(self.stage.world.workers())
        send_or_no_bite(self.fork_server, signal.SIGKILL)
        if not await wait_gone(self.fork_server, self.stage.settings.exit_wait_s):
            raise NoBiteError("the fork server was not seen to end")
        return {"signal": "SIGKILL", "exit_seen": True}

    async def heal(self) -> Evidence:
        """See `Act`: the master heals it; see that it has."""
        if self.fork_server is not None and is_alive(self.fork_server):
            return {"alive": True}
        found: Target | None = None
        with trio.move_on_after(self.stage.settings.recover_wait_s):
            while found is None:
                now = self.stage.world.fork_server()
                if now is not None and now != self.fork_server and is_alive(now):
                    found = now
                await trio.sleep(POLL_S)
        return self.workers_gone | {"replaced_by": found.pid if found else None}


class KillTogether(StopSupervisor):
    """kill-supervisor-workers: master, fork server and all workers, within a few milliseconds."""

    server: Target | None = None

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        [master] = await super().choose()
        self.server = self.stage.world.fork_server()
        self.workers = living(self.stage.world.workers())
        return (master, *([self.server] if self.server is not None else []), *self.workers)

    def victims(self) -> list[Target]:
        """The workers that die with the master."""
        self.workers = living(self.stage.world.workers())
        return self.workers

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "bite before choose"
        victims = self.victims()
        spread_us = self._kill(self.target, victims)
        status = await exit_of(self.stage, self.target)
        check_killed(self.target, status)
        pids: list[Json] = [victim.pid for victim in victims]
        return {"signal": "SIGKILL", "status": status, "workers": pids, "spread_us": spread_us}

    def _kill(self, master: Target, workers: list[Target]) -> int:
        """Kill workers, fork server and master while the last two stand still.

        So neither settles anything, nor reaps a worker and dies before it has written that down.
        """
        self.told_to_end = True
        parents = [master, *([self.server] if self.server is not None else [])]
        with ExitStack() as stack:
            standing = _open(stack, parents)
            dying = _open(stack, workers)
            begun_ns = time.monotonic_ns()
            for descriptor in standing:
                send(descriptor, signal.SIGSTOP)
            for descriptor in (*dying, *reversed(standing)):
                with suppress(ProcessGoneError):
                    send(descriptor, signal.SIGKILL)
            return (time.monotonic_ns() - begun_ns) // 1000


def _open(stack: ExitStack, targets: list[Target]) -> list[int]:
    """Pidfds of those that live."""
    descriptors = []
    for target in targets:
        with suppress(ProcessGoneError):
            descriptors.append(stack.enter_context(opened(target)))
    return descriptors


class KillLeaseHolder(KillTogether):
    """kill-lease-holder: a worker in the middle of a job, and the master that renews its lease."""

    victim: WorkerView | None = None

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        targets = await super().choose()
        wait_s = self.stage.settings.worker_wait_s
        with trio.move_on_after(wait_s):
            while True:
                busy = [v for v in self.stage.world.workers() if v.state == "running"]
                holding = [view for view in busy if view.unstarted] or busy
                if holding:
                    self.victim = holding[self.fault.choice % len(holding)]
                    self.hit = f"supervisor,worker {self.victim.pid}"
                    return targets
                await trio.sleep(POLL_S)
        raise NoBiteError(f"no worker was in a job for {wait_s:g} s")

    def context(self) -> Evidence:
        """See `Act`."""
        victim = self.victim
        assert victim is not None, "context before choose"
        return super().context() | {"job": victim.job, "unstarted": victim.unstarted}

    def victims(self) -> list[Target]:
        """See `KillTogether`: the others die of the master's death."""
        found = [
            worker for worker in super().victims() if self.victim and worker.pid == self.victim.pid
        ]
        if not found:
            raise NoBiteError("the worker had already ended")
        return found
