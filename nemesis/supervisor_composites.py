"""Faults on several processes of a supervisor at once, and on the one that workers come from."""

from __future__ import annotations

import signal
import time
from contextlib import ExitStack, suppress
from typing import Final

import trio

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, check_killed, exit_of, send_or_no_bite
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
    """kill-supervisor-workers: master, fork server and all workers, within a millisecond."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "bite before choose"
        self.workers = living(self.stage.world.workers())
        server = self.stage.world.fork_server()
        beside = [*([server] if server is not None else []), *self.workers]
        spread_us = self._kill(self.target, beside)
        status = await exit_of(self.stage, self.target)
        check_killed(self.target, status)
        return {
            "signal": "SIGKILL",
            "status": status,
            "beside": len(beside),
            "spread_us": spread_us,
        }

    def _kill(self, master: Target, beside: list[Target]) -> int:
        """Kill the others first, so that the master lives to see none of it settled."""
        self.told_to_end = True
        with ExitStack() as stack:
            descriptors = []
            for target in beside:
                with suppress(ProcessGoneError):
                    descriptors.append(stack.enter_context(opened(target)))
            begun_ns = time.monotonic_ns()
            for descriptor in descriptors:
                with suppress(ProcessGoneError):
                    send(descriptor, signal.SIGKILL)
            send_or_no_bite(master, signal.SIGKILL)
            return (time.monotonic_ns() - begun_ns) // 1000


class KillLeaseHolder(KillTogether):
    """kill-lease-holder: a worker in the middle of a job, and the master that renews its lease."""

    victim: WorkerView | None = None

    async def choose(self) -> tuple[Target, ...]:
        """See `Act`."""
        [master] = await super().choose()
        wait_s = self.stage.settings.worker_wait_s
        with trio.move_on_after(wait_s):
            while True:
                busy = [v for v in self.stage.world.workers() if v.state == "running"]
                holding = [view for view in busy if view.unstarted] or busy
                for view in holding[self.fault.choice % max(1, len(holding)) :]:
                    with suppress(ProcessGoneError):
                        worker = Target.of(view.pid, f"worker {view.pid}")
                        self.victim = view
                        self.hit = f"supervisor,{worker.name}"
                        return (master, worker)
                await trio.sleep(POLL_S)
        raise NoBiteError(f"no worker was in a job for {wait_s:g} s")

    async def bite(self) -> Evidence:
        """See `Act`."""
        assert self.target is not None, "bite before choose"
        assert self.victim is not None, "bite before choose"
        self.workers = living(self.stage.world.workers())
        worker = next((one for one in self.workers if one.pid == self.victim.pid), None)
        if worker is None:
            raise NoBiteError(f"worker {self.victim.pid} had already ended")
        spread_us = self._kill(self.target, [worker])
        status = await exit_of(self.stage, self.target)
        check_killed(self.target, status)
        held: dict[str, Json] = {"job": self.victim.job, "unstarted": self.victim.unstarted}
        return {
            "signal": "SIGKILL",
            "status": status,
            "worker": worker.pid,
            "held": held,
            "spread_us": spread_us,
        }
