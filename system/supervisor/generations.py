"""The fork servers of one master: one that forks, and those whose workers make room for it.

New code needs a new fork server, since the old one has loaded the application already. It is
started beside the old one, and only when it can serve do the workers of the old one finish and
end, each with a `restart` marker; the old one closes with its last worker. New code that does not
load changes nothing.
"""

from __future__ import annotations

import os
from typing import Final

import trio

from .config import SupervisorConfig, find_job_problems
from .fleet import Fleet
from .fork_link import BootError, ForkLink, start_fork_server
from .hand_back import HandBackService
from .leases import LeaseService
from .logbook import Logbook
from .orphans import kill_marked
from .records import append_line, make_death
from .statedir import StateDirectory, StateDirectoryError, try_lock_generation

GENERATION_WAIT_S: Final = 10.0
GENERATION_PATIENCE_S: Final = 2.0
"""How long an earlier generation may take to end by itself before it is killed."""
END_S: Final = 5.0


class ForkServers:
    """Starts, follows, replaces and ends fork servers.

    Args:
        config: The supervisor's settings.
        directory: The state directory.
        fleet: The workers.
        own: Pids of children that this object reaps.
        log: The master's log.

    Attributes:
        current: The one that forks, or None while there is none.
        code: How often new code was started, the first start included.
        failure: Why the last restart did not happen, or None.
        start_failure: Why there is no code at all, or None.
    """

    def __init__(
        self,
        config: SupervisorConfig,
        directory: StateDirectory,
        fleet: Fleet,
        own: set[int],
        log: Logbook,
    ) -> None:
        self.current: ForkLink | None = None
        self.code = 1
        self.failure: str | None = None
        self.start_failure: str | None = None
        self._config = config
        self._directory = directory
        self._fleet = fleet
        self._own = own
        self._log = log
        self._living: set[ForkLink] = set()
        self._lock: int | None = None
        self._wanted = 1
        self._seen_marks = 0
        self._news = trio.Event()

    @property
    def is_restarting(self) -> bool:
        """Whether new code was asked for and does not have every worker yet."""
        link = self.current
        return self._wanted > self.code or any(
            worker.server is not link for worker in self._fleet.workers.values()
        )

    def restart(self) -> None:
        """Have all workers run newly loaded code; returns at once."""
        self._wanted += 1
        self.failure = None
        self.look()

    def look(self) -> None:
        """Notice what the fleet has learnt."""
        if self._fleet.restarts_wanted > self._seen_marks:
            self._seen_marks = self._fleet.restarts_wanted
            self._log.info("a worker asks for newer code")
            self.restart()
        self._news.set()
        self._news = trio.Event()

    async def boot(self) -> ForkLink:
        """Start a fork server; alone, or beside those that this master has already.

        Raises:
            BootError: It cannot serve.
            StateDirectoryError: Processes of an earlier supervisor do not end.
        """
        try:
            link = await self._boot()
        except (BootError, StateDirectoryError) as error:
            self.start_failure = str(error) if self.current is None else None
            raise
        self.start_failure = None
        return link

    async def _boot(self) -> ForkLink:
        code = self._wanted
        link = await start_fork_server(
            self._config.app,
            self._directory.deaths,
            await self._take_lock(),
            self._config.boot_timeout_s,
            self._own,
            code,
            loads=self._config.loads_once(),
        )
        problems = find_job_problems(self._config, link.ready.timeouts_s)
        if problems:
            with trio.CancelScope(shield=True):
                await link.close_requests()
                await link.bury()
            raise BootError("\n".join(problems))
        self._log.info(
            "fork server ready", fork_server=link.pid, boot_s=link.ready.seconds, code=code
        )
        self._living.add(link)
        self.current, self.code = link, code
        return link

    async def keep(
        self, first: ForkLink, settling: trio.Nursery, leases: LeaseService, backs: HandBackService
    ) -> None:
        """Keep one fork server that has the newest code; runs for ever.

        Args:
            first: The one that has booted.
            settling: Where hand-backs run.
            leases: Knows what workers hold.
            backs: Settles what dead workers held.
        """
        async with trio.open_nursery() as nursery:
            self._take_over(first, nursery, settling, leases, backs)
            while True:
                if self.current is None or self._wanted > self.code:
                    await self._renew(nursery, settling, leases, backs)
                else:
                    await self._news.wait()

    async def end(self) -> None:
        """End every fork server; all workers must be dead."""
        for link in list(self._living):
            await link.close_requests()
            with trio.CancelScope(deadline=trio.current_time() + END_S) as scope:
                status = await link.bury()
            if scope.cancelled_caught:
                link.kill()
                status = await link.bury()
            self._note_end(link, status)
        self._drop_lock()

    def kill(self) -> None:
        """SIGKILL every fork server, for want of an answer; the kernel kills their workers."""
        for link in self._living:
            link.kill()

    async def _renew(
        self,
        nursery: trio.Nursery,
        settling: trio.Nursery,
        leases: LeaseService,
        backs: HandBackService,
    ) -> None:
        before = self.current
        try:
            link = await self.boot()
        except (BootError, StateDirectoryError) as error:
            self._log.error("fork server cannot start", error=str(error))
            if before is not None and self.current is before:
                # The old code goes on; whoever wants the new one asks again.
                self._wanted, self.failure = self.code, str(error)
                return
            await trio.sleep(self._config.restart_backoff_max_s)
            return
        self._take_over(link, nursery, settling, leases, backs)
        if before is not None:
            nursery.start_soon(self._retire, before)

    def _take_over(
        self,
        link: ForkLink,
        nursery: trio.Nursery,
        settling: trio.Nursery,
        leases: LeaseService,
        backs: HandBackService,
    ) -> None:
        nursery.start_soon(self._follow, link, settling, leases, backs)
        self._fleet.use(link)

    async def _follow(
        self, link: ForkLink, settling: trio.Nursery, leases: LeaseService, backs: HandBackService
    ) -> None:
        status = await self._fleet.follow(link, settling, leases, backs)
        self._note_end(link, status)
        if self.current is link:
            self.current = None
        self.look()

    async def _retire(self, link: ForkLink) -> None:
        await self._fleet.wait_left(link)
        await link.close_requests()

    def _note_end(self, link: ForkLink, status: int) -> None:
        self._living.discard(link)
        if status == 0:
            self._log.info("fork server closed", fork_server=link.pid)
            return
        self._log.error("fork server ended", fork_server=link.pid, status=status)
        append_line(
            self._directory.deaths, make_death(link.pid, status, "fork-server", None, False)
        )

    async def _take_lock(self) -> int:
        """Return a descriptor of the lock that all generations of this master share.

        It is taken anew when nobody of this master holds it, which shows that nobody of an earlier
        one lives; and what that one's workers left is deleted.
        """
        if self._living and self._lock is not None:
            return os.dup(self._lock)
        self._drop_lock()
        began = trio.current_time()
        while (lock := try_lock_generation(self._directory)) is None:
            waited_s = trio.current_time() - began
            if waited_s >= GENERATION_WAIT_S:
                raise StateDirectoryError(
                    f"{self._directory.root}: workers of an earlier supervisor still run after "
                    f"{GENERATION_WAIT_S:g} s"
                )
            if waited_s >= GENERATION_PATIENCE_S:
                self._kill_what_is_left()
            await trio.sleep(0.01)
        began = trio.current_time()
        while self._kill_what_is_left() and trio.current_time() - began < GENERATION_WAIT_S:
            await trio.sleep(0.01)
        self._directory.clear_workers()
        self._lock = lock
        return os.dup(lock)

    def _kill_what_is_left(self) -> bool:
        """Kill what an earlier generation left, and whoever cannot end by itself any more."""
        left = kill_marked(self._directory.root)
        if left:
            self._log.warning("orphans killed", pids=[str(pid) for pid in left])
        return bool(left)

    def _drop_lock(self) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
