"""The master: keeps a fork server and a pool of workers, and answers for both.

One trio task each for signals, the fork server, the pool, the lease channel and the status file;
one for each lease that is renewed and each dead worker whose jobs go back. Decisions are made in
`core`; here and in `fleet` they meet processes, sockets and files.
"""

from __future__ import annotations

import os
import signal
import time
import uuid
from dataclasses import replace
from typing import Final

import msgspec
import trio

from ..client import AsyncClient, BrokerError, ClientOptions, calls, load_security
from ..jobs.settings import WorkerSettings
from .config import SupervisorConfig
from .control_desk import ControlDesk
from .core.control import Action
from .fleet import Fleet
from .fork_link import ForkLink
from .generations import ForkServers
from .hand_back import HandBackService
from .leases import LeaseService, listen
from .logbook import Logbook
from .maintenance import follow_maintenance
from .orphans import bury_orphans, kill_orphans
from .pool_keeping import PoolKeeping
from .records import PoolState, Status, replace_file
from .remote_status import open_publisher
from .sized_pool import build_crews
from .statedir import StateDirectory
from .worker_view import view_workers

STATUS_S: Final = 0.5
STATUS_S_MIN: Final = 0.02
KILL_AGAIN_S: Final = 1.0
KILLS_OF_WORKERS: Final = 5
"""After so many rounds in vain the fork servers are killed, and the kernel takes their workers."""


class Master:
    """One supervisor's master.

    Args:
        config: Its settings.
        directory: Its state directory, locked.
        log: Its log.
    """

    def __init__(self, config: SupervisorConfig, directory: StateDirectory, log: Logbook) -> None:
        self._config = config
        self._directory = directory
        self._log = log
        self._changed = trio.Event()
        self._state: PoolState = "starting"
        self._stop_said = trio.Event()
        self._instance = uuid.uuid4().hex
        self._own: set[int] = set()
        bugs = self._bugs = config.planted() | frozenset(config.worker.bugs)
        endpoints = config.worker.client_endpoints()
        security = load_security(config.worker.security)
        patient = ClientOptions(tls=security.tls, bearer=security.bearer)
        self._renewing = AsyncClient(
            endpoints, replace(patient, try_timeout_s=config.renewal.timeout_s)
        )
        try_s = config.hand_back_policy().budget_us / 1e6 / len(endpoints)
        self._handing = AsyncClient(endpoints, replace(patient, try_timeout_s=try_s))
        crews, pools = build_crews(config, self._fill, bugs)
        self._hand_backs = HandBackService(
            self._handing,
            endpoints,
            config.hand_back_policy(),
            directory.left_journals(),
            [crew.settings for crew in crews],
            directory.hand_backs,
            bugs,
            log,
        )
        self._fleet = Fleet(crews, directory, bugs, log, self._change)
        self._pools = PoolKeeping(config, pools, self._fleet, directory, log)
        self._servers = ForkServers(config, directory, self._fleet, self._own, log)
        self._desk = ControlDesk(
            directory.root, self._instance, self._obey, config.control_ttl_s, log
        )
        self._publisher = open_publisher(config, self._status, log)

    def _fill(self, worker: WorkerSettings) -> WorkerSettings:
        """Add to a worker's settings what is the master's own."""
        socket = str(self._directory.lease_socket()) if self._config.renews() else None
        return msgspec.structs.replace(
            worker,
            state_dir=str(self._directory.workers),
            lease_socket=socket,
            bugs=tuple(sorted(self._bugs | frozenset(worker.bugs))),
        )

    async def run(self) -> None:
        """Run until a signal says stop and every process is gone.

        Raises:
            BootError: The application cannot be loaded (in an exception group).
            StateDirectoryError: Processes of an earlier supervisor do not end (likewise).
            OSError: The lease socket cannot be made.
        """
        try:
            await self._live()
        finally:
            if self._state == "starting":
                # It never came to work; whoever looks reads why.
                self._state = "stopped"
                self._write_status()
        self._state = "stopped"
        self._write_status()
        self._log.info("stopped")

    async def _live(self) -> None:
        with listen(self._directory.lease_socket()) as listener:
            async with trio.open_nursery() as nursery:
                leases = LeaseService(
                    nursery,
                    self._renewing,
                    self._config.renewal_policy(),
                    self._fleet.workers.get,
                    self._log,
                )
                nursery.start_soon(self._watch_signals)
                nursery.start_soon(self._keep_status)
                if self._publisher is not None:
                    nursery.start_soon(self._publisher.keep)
                nursery.start_soon(self._desk.keep)
                nursery.start_soon(follow_maintenance, self._directory.root, self._fleet.maintain)
                nursery.start_soon(leases.serve, listener)
                nursery.start_soon(leases.keep)
                await self._serve(leases)
                nursery.cancel_scope.cancel()
        if self._publisher is not None:
            await self._publisher.aclose()
        await self._renewing.aclose()
        await self._handing.aclose()
        await self._pools.aclose()
        self._directory.remove_socket()

    async def _serve(self, leases: LeaseService) -> None:
        """Boot, work, drain, end; returns when no process of this supervisor lives."""
        first: ForkLink | None = None
        with trio.CancelScope() as booting:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(self._cancel_on_stop, booting)
                first = await self._servers.boot()
                waiting.cancel_scope.cancel()
        if first is not None:
            self._state = "running"
            # Workers are all dead when the inner one ends; their hand-backs may be on the way.
            async with trio.open_nursery() as settling, trio.open_nursery() as working:
                settling.start_soon(self._hand_backs.settle_left)
                working.start_soon(self._fleet.keep)
                working.start_soon(self._pools.keep)
                working.start_soon(self._servers.keep, first, settling, leases, self._hand_backs)
                await self._stop_said.wait()
                await self._drain()
                working.cancel_scope.cancel()
        await self._end()

    async def _cancel_on_stop(self, scope: trio.CancelScope) -> None:
        await self._stop_said.wait()
        scope.cancel()

    async def _drain(self) -> None:
        """Wait for the workers to finish, kill them when the grace is over, and again."""
        with trio.move_on_after(self._config.shutdown_grace_s):
            if not self._fleet.stopping:
                await self._ask_before_stop()
            await self._fleet.wait_empty()
            return
        rounds = 0
        while not self._fleet.is_empty:
            self._log.warning("grace is over", workers=len(self._fleet.workers))
            self._fleet.kill_all()
            rounds += 1
            if rounds > KILLS_OF_WORKERS:
                self._servers.kill()
            with trio.move_on_after(KILL_AGAIN_S):
                await self._fleet.wait_empty()

    async def _ask_before_stop(self) -> None:
        """Do what `broker-asked-before-stop` does."""
        worker, grace_s = self._config.worker, self._config.shutdown_grace_s
        try:
            await self._handing.call(
                calls.depth(worker.queue, worker.consumer_group), deadline_s=grace_s * 2
            )
        except BrokerError as error:
            self._log.warning("depth unknown", error=str(error))
        finally:
            self._fleet.stop()

    async def _end(self) -> None:
        """End the fork servers and whatever the jobs have left running."""
        await self._servers.end()
        while left := kill_orphans():
            self._log.warning("orphans killed", pids=[str(pid) for pid in left])
            await trio.sleep(0.01)

    async def _watch_signals(self) -> None:
        """Take the stop signals; the workers hear of it before anything else happens."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                self._stop(signal.Signals(number).name)

    def _stop(self, reason: str) -> None:
        """Have every worker finish, and end when they have; what comes after waits for that."""
        if self._stop_said.is_set():
            return
        if "broker-asked-before-stop" not in self._bugs:
            self._fleet.stop()
        self._state = "terminating"
        self._log.info("terminating", reason=reason)
        self._stop_said.set()
        self._change()
        self._publish()

    def _obey(self, action: Action) -> str | None:
        """Do what a request asks, or say why not."""
        if action is Action.TERMINATE:
            self._stop("terminate")
        elif self._stop_said.is_set():
            return "the supervisor is terminating"
        elif action is Action.PAUSE:
            self._fleet.pause()
        elif action is Action.CONTINUE:
            self._fleet.resume()
        else:
            self._servers.restart()
        self._publish()
        return None

    def _publish(self) -> None:
        """Have the news published at once, where the status is published at all."""
        if self._publisher is not None:
            self._publisher.look()

    def _present_state(self) -> PoolState:
        if self._state == "running" and self._fleet.paused:
            return "paused" if self._fleet.is_empty else "pausing"
        return self._state

    def _change(self) -> None:
        self._servers.look()
        self._pools.look()
        self._changed.set()

    async def _keep_status(self) -> None:
        """Write the status file after a change of the pool, and in any case every `STATUS_S`.

        Leases and jobs come and go far too often to be written each time.
        """
        while True:
            self._write_status()
            bury_orphans(self._own | self._fleet.workers.keys())
            await trio.sleep(STATUS_S_MIN)
            with trio.move_on_after(STATUS_S):
                await self._changed.wait()
            self._changed = trio.Event()

    def _write_status(self) -> None:
        replace_file(self._directory.status, self._status())

    def _status(self) -> Status:
        return Status(
            t_ns=time.monotonic_ns(),
            master=os.getpid(),
            fork_server=None if self._servers.current is None else self._servers.current.pid,
            state=self._present_state(),
            circuit=self._fleet.circuit.value,
            workers=view_workers(self._fleet.workers.values(), self._directory.workers),
            instance=self._instance,
            desired=self._fleet.desired,
            code=self._servers.code,
            is_restarting=self._servers.is_restarting,
            restart_failure=self._servers.failure,
            start_failure=self._servers.start_failure,
            maintenance=self._fleet.maintenance,
            has_forced=self._fleet.has_forced,
            heartbeat_timeout_s=self._config.heartbeat_timeout_s,
            not_consuming_after_s=self._config.not_consuming_after_s,
            control_ttl_s=self._config.control_ttl_s,
            controls=self._desk.answered,
            pools=self._pools.status(),
        )
