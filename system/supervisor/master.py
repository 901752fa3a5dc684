"""The master: keeps a fork server and a pool of workers, and answers for both.

One trio task each for signals, the fork server, the pool, the lease channel and the status file;
one for each lease that is renewed and each dead worker whose jobs go back. Decisions are made in
`core`; here and in `fleet` they meet processes, sockets and files.
"""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import Final

import msgspec
import trio

from ..client import AsyncClient, ClientOptions, load_security
from .config import SupervisorConfig, find_job_problems
from .fleet import Fleet
from .fork_link import BootError, ForkLink, start_fork_server
from .hand_back import HandBackService
from .leases import LeaseService, listen
from .logbook import Logbook
from .orphans import bury_orphans, kill_orphans
from .records import PoolState, Status, append_line, make_death, replace_file
from .statedir import StateDirectory, StateDirectoryError, try_lock_generation
from .worker_view import view_workers

GENERATION_WAIT_S: Final = 10.0
STATUS_S: Final = 0.25
STATUS_S_MIN: Final = 0.02
KILL_AGAIN_S: Final = 1.0
END_S: Final = 5.0


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
        self._link: ForkLink | None = None
        self._stop_said = trio.Event()
        self._own: set[int] = set()
        bugs = config.planted() | frozenset(config.worker.bugs)
        settings = msgspec.structs.replace(
            config.worker,
            state_dir=str(directory.workers),
            lease_socket=str(directory.lease_socket()),
            bugs=tuple(sorted(bugs)),
        )
        endpoints = settings.client_endpoints()
        security = load_security(config.worker.security)
        patient = ClientOptions(tls=security.tls, bearer=security.bearer)
        self._renewing = AsyncClient(
            endpoints, replace(patient, try_timeout_s=config.renewal.timeout_s)
        )
        try_s = config.hand_back_policy().budget_us / 1e6 / len(endpoints)
        self._handing = AsyncClient(endpoints, replace(patient, try_timeout_s=try_s))
        self._hand_backs = HandBackService(
            self._handing,
            endpoints,
            config.hand_back_policy(),
            directory.left_journals(),
            settings,
            directory.hand_backs,
            bugs,
            log,
        )
        self._fleet = Fleet(
            config.workers, config.restart_policy(), settings, directory, bugs, log, self._change
        )

    async def run(self) -> None:
        """Run until a signal says stop and every process is gone.

        Raises:
            BootError: The application cannot be loaded (in an exception group).
            StateDirectoryError: Processes of an earlier supervisor do not end (likewise).
            OSError: The lease socket cannot be made.
        """
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
                nursery.start_soon(leases.serve, listener)
                await self._serve(leases)
                nursery.cancel_scope.cancel()
        await self._renewing.aclose()
        await self._handing.aclose()
        self._directory.remove_socket()
        self._state = "stopped"
        self._write_status()
        self._log.info("stopped")

    async def _serve(self, leases: LeaseService) -> None:
        """Boot, work, drain, end; returns when no process of this supervisor lives."""
        with trio.CancelScope() as booting:
            async with trio.open_nursery() as waiting:
                waiting.start_soon(self._cancel_on_stop, booting)
                self._link = await self._boot()
                waiting.cancel_scope.cancel()
        if self._link is None:
            return
        self._state = "running"
        # Workers are all dead when the inner one ends; their hand-backs may still be on the way.
        async with trio.open_nursery() as settling, trio.open_nursery() as working:
            settling.start_soon(self._hand_backs.settle_left)
            working.start_soon(self._fleet.keep)
            working.start_soon(self._keep_fork_server, settling, leases)
            await self._stop_said.wait()
            await self._drain()
            working.cancel_scope.cancel()
        await self._end()

    async def _cancel_on_stop(self, scope: trio.CancelScope) -> None:
        await self._stop_said.wait()
        scope.cancel()

    async def _boot(self) -> ForkLink:
        """Start a fork server when no process of an earlier one lives.

        Raises:
            BootError: It cannot serve.
            StateDirectoryError: Old processes do not end.
        """
        deadline = trio.current_time() + GENERATION_WAIT_S
        while (lock := try_lock_generation(self._directory)) is None:
            if trio.current_time() >= deadline:
                raise StateDirectoryError(
                    f"{self._directory.root}: workers of an earlier supervisor still run after "
                    f"{GENERATION_WAIT_S:g} s"
                )
            await trio.sleep(0.01)
        self._directory.clear_workers()
        link = await start_fork_server(
            self._config.app,
            self._directory.deaths,
            lock,
            self._config.boot_timeout_s,
            self._own,
        )
        problems = find_job_problems(self._config, link.ready.timeouts_s)
        if problems:
            with trio.CancelScope(shield=True):
                await link.close_requests()
                await link.bury()
            raise BootError("\n".join(problems))
        self._log.info("fork server ready", fork_server=link.pid, boot_s=link.ready.seconds)
        return link

    async def _keep_fork_server(self, settling: trio.Nursery, leases: LeaseService) -> None:
        """Follow the fork server, and start another when it is gone; runs for ever."""
        while True:
            if self._link is not None:
                status = await self._fleet.follow(self._link, settling, leases, self._hand_backs)
                self._note_fork_server_death(self._link.pid, status)
                self._link = None
            if self._fleet.stopping:
                return
            try:
                self._link = await self._boot()
            except (BootError, StateDirectoryError) as error:
                self._log.error("fork server cannot start", error=str(error))
                await trio.sleep(self._config.restart_backoff_max_s)

    def _note_fork_server_death(self, pid: int, status: int) -> None:
        self._log.error("fork server ended", fork_server=pid, status=status)
        append_line(self._directory.deaths, make_death(pid, status, "fork-server", None, False))

    async def _drain(self) -> None:
        """Wait for the workers to finish, kill them when the grace is over, and again."""
        with trio.move_on_after(self._config.shutdown_grace_s):
            await self._fleet.wait_empty()
            return
        while not self._fleet.is_empty:
            self._log.warning("grace is over", workers=len(self._fleet.workers))
            self._fleet.signal_all(signal.SIGKILL)
            with trio.move_on_after(KILL_AGAIN_S):
                await self._fleet.wait_empty()

    async def _end(self) -> None:
        """End the fork server and whatever the jobs have left running."""
        if self._link is not None:
            await self._link.close_requests()
            with trio.CancelScope(deadline=trio.current_time() + END_S) as scope:
                status = await self._link.bury()
            if scope.cancelled_caught:
                self._link.kill()
                status = await self._link.bury()
            if status != 0:
                self._note_fork_server_death(self._link.pid, status)
            self._link = None
        while left := kill_orphans():
            self._log.warning("orphans killed", pids=[str(pid) for pid in left])
            await trio.sleep(0.01)

    async def _watch_signals(self) -> None:
        """Take the stop signals; the workers hear of it before anything else happens."""
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if self._fleet.stopping:
                    continue
                self._fleet.stop()
                self._state = "terminating"
                self._log.info("terminating", signal=signal.Signals(number).name)
                self._stop_said.set()
                self._change()

    def _change(self) -> None:
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
        status = Status(
            t_ns=time.monotonic_ns(),
            master=os.getpid(),
            fork_server=None if self._link is None else self._link.pid,
            state=self._state,
            circuit=self._fleet.pool.circuit.value,
            workers=view_workers(self._fleet.workers.values(), self._directory.workers),
        )
        replace_file(self._directory.status, status)
