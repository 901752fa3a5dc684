"""The workers: when they start, what their ends mean, and how all are stopped."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import trio

from ..bugs import Bugs
from .adopted import bury_adopted
from .clock import now_us
from .core.exits import Exit, classify_exit
from .core.handback import DeadLease
from .core.pool import Circuit
from .crew import Crew
from .fork_link import ForkLink
from .forkwire import Exited, Forked, ForkFailed, ForkReply
from .hand_back import HandBackService
from .leases import LeaseService
from .logbook import Logbook
from .records import Maintenance, WorkerState
from .statedir import StateDirectory
from .worker_handle import Worker, open_pidfd

FORK_BUDGET_S: Final = 5.0
IDLEST: Final[tuple[WorkerState, ...]] = ("idle", "prefetched", "running")
"""Whom a crew that shrinks loses first."""
_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Request:
    """A fork that was asked for and not answered yet."""

    server: ForkLink
    crew: Crew
    slot: int
    deadline_us: int


class Fleet:
    """The workers of one master.

    Args:
        crews: Each kind of them.
        directory: The state directory.
        bugs: Planted defects.
        log: The master's log.
        changed: Called after any change.

    Attributes:
        workers: The living ones, by pid.
        stopping: Whether no worker starts any more.
        paused: Whether none starts until `resume`.
        maintained: Whether crews that are not forced neither work nor start.
        restarts_wanted: How many workers of the present code ended, unasked, with a marker that
            says that newer code is there.
    """

    def __init__(
        self,
        crews: Sequence[Crew],
        directory: StateDirectory,
        bugs: Bugs,
        log: Logbook,
        changed: Callable[[], None],
    ) -> None:
        self.workers: dict[int, Worker] = {}
        self._crews = tuple(crews)
        self.stopping = False
        self.paused = False
        self.maintained = False
        self.restarts_wanted = 0
        self._directory = directory
        self._bugs = bugs
        self._log = log
        self._changed = changed
        self._link: ForkLink | None = None
        self._given_up: set[ForkLink] = set()
        self._requests: dict[int, _Request] = {}
        self._numbers = 0
        self._news = trio.Event()

    @property
    def is_empty(self) -> bool:
        """Whether no worker lives and none is being started."""
        return not self.workers and not self._requests

    @property
    def desired(self) -> int:
        """How many workers there should be now."""
        return sum(crew.pool.active for crew in self._crews if not self._is_maintained(crew))

    @property
    def has_forced(self) -> bool:
        """Whether any crew works in maintenance, too."""
        return any(crew.is_forced for crew in self._crews)

    @property
    def maintenance(self) -> Maintenance:
        """How far maintenance has come."""
        if not self.maintained:
            return "off"
        crews = [worker.crew for worker in self.workers.values()]
        crews += [request.crew for request in self._requests.values()]
        return "on" if all(crew.is_forced for crew in crews) else "entering"

    @property
    def circuit(self) -> Circuit:
        """The worst state of a circuit: open, then probing, then closed."""
        states = {crew.pool.circuit for crew in self._crews}
        return next(c for c in (Circuit.OPEN, Circuit.PROBING, Circuit.CLOSED) if c in states)

    async def keep(self) -> None:
        """Start workers whenever a slot is due; runs for ever."""
        while True:
            now = now_us()
            if not self.stopping:
                self._check_budget(now)
            if self._link is not None and not self.stopping:
                for crew in self._crews:
                    if not self.is_held(crew):
                        await self._start_due(crew, now)
            await self._wait()

    async def follow(
        self,
        link: ForkLink,
        nursery: trio.Nursery,
        leases: LeaseService,
        hand_backs: HandBackService,
    ) -> int:
        """Work with one fork server until it is gone, and account for every worker it had.

        Args:
            link: The fork server, booted.
            nursery: Where hand-backs run.
            leases: Knows what workers hold.
            hand_backs: Settles what dead workers held.

        Returns:
            The fork server's raw wait status.
        """
        self._happened()
        async for reply in link.replies():
            self._obey(link, reply, nursery, leases, hand_backs)
        if self._link is link:
            self._link = None
        # Its children are this process's own only when the kernel has taken it down.
        status = await link.bury()
        now = now_us()
        for number, request in list(self._requests.items()):
            if request.server is link:
                del self._requests[number]
                request.crew.pool.start_failed(request.slot, now)
        for worker in [w for w in self.workers.values() if w.server is link]:
            exited = await bury_adopted(worker, self._directory)
            self._obey(link, exited, nursery, leases, hand_backs)
        self._happened()
        return status

    async def wait_empty(self) -> None:
        """Wait until no worker lives and none is being started."""
        while self.workers or self._requests:
            await self._news.wait()

    def use(self, link: ForkLink) -> None:
        """Fork from this server from now on, and have the workers of others make room."""
        if "restart-keeps-old-code" in self._bugs and self._link is not None:
            link = self._link
        self._link = link
        for worker in self.workers.values():
            if worker.server is not link or "restart-keeps-old-code" in self._bugs:
                worker.ask_to_end(signal.SIGUSR2)
        self._happened()

    async def wait_left(self, link: ForkLink) -> None:
        """Wait until no worker of a server that forks no more lives or is being started."""
        while self._link is link or self._has(link):
            await self._news.wait()

    def _has(self, link: ForkLink) -> bool:
        """Whether a worker of this server lives or is being started."""
        return any(worker.server is link for worker in self.workers.values()) or any(
            request.server is link for request in self._requests.values()
        )

    def pause(self) -> None:
        """Ask every worker to finish, and start none until `resume`."""
        self.paused = True
        for worker in self.workers.values():
            worker.ask_to_end(signal.SIGTERM)
        self._happened()

    def resume(self) -> None:
        """Start workers again."""
        self.paused = False
        self._happened()

    def maintain(self, wanted: bool) -> None:
        """Enter maintenance or leave it: what only forced crews do not notice."""
        if wanted is self.maintained:
            return
        self.maintained = wanted
        self._log.info("maintenance", on=wanted)
        for worker in self.workers.values():
            if self._is_maintained(worker.crew):
                worker.ask_to_end(signal.SIGTERM)
        self._happened()

    def is_held(self, crew: Crew) -> bool:
        """Tell whether a crew starts no worker for now."""
        return self.paused or self._is_maintained(crew)

    def _is_maintained(self, crew: Crew) -> bool:
        return self.maintained and not crew.is_forced

    def stop(self) -> None:
        """Ask every worker to finish, and start none from now on."""
        self.stopping = True
        for worker in self.workers.values():
            worker.ask_to_end(signal.SIGTERM)

    def kill_all(self) -> None:
        """SIGKILL every worker with all that it has started."""
        for worker in self.workers.values():
            worker.kill_with_group()

    def grow(self, crew: Crew, count: int) -> None:
        """Have a crew get so many workers more."""
        for _ in range(count):
            crew.pool.open(now_us())
        self._happened()

    def shrink(self, crew: Crew, count: int) -> None:
        """Have a crew lose so many workers: first those that wait to start, then the idlest.

        Each finishes the job that it runs.
        """
        vacant = crew.pool.vacant()[:count]
        for slot in vacant:
            crew.pool.close(slot)
        own = [w for w in self.workers.values() if w.crew is crew and not w.was_asked]
        own.sort(key=lambda worker: (IDLEST.index(worker.state), -worker.started_us))
        for worker in own[: count - len(vacant)]:
            crew.pool.close(worker.slot)
            worker.ask_to_end(signal.SIGTERM)
            self._log.info("worker not needed", worker=worker.pid, crew=crew.name)
        self._happened()

    async def _start_due(self, crew: Crew, now: int) -> None:
        for slot in crew.pool.due(now):
            if self._link is None:
                crew.pool.start_failed(slot, now)
            else:
                await self._fork(self._link, crew, slot)

    async def _fork(self, link: ForkLink, crew: Crew, slot: int) -> None:
        self._numbers += 1
        deadline_us = now_us() + round(FORK_BUDGET_S * _US)
        self._requests[self._numbers] = _Request(link, crew, slot, deadline_us)
        await link.fork(self._numbers, crew.settings, fresh=not crew.is_preforked)

    def _check_budget(self, now: int) -> None:
        late = {r.server for r in self._requests.values() if r.deadline_us <= now}
        for server in late - self._given_up:
            self._log.error("fork server does not answer", fork_server=server.pid)
            server.kill()
            self._given_up.add(server)
            if self._link is server:
                self._link = None

    async def _wait(self) -> None:
        """Wait until a slot or a fork's deadline is due, or something happened."""
        requests = self._requests.values()
        due = [r.deadline_us for r in requests if r.server not in self._given_up]
        if self._link is not None:
            nexts = (crew.pool.next_us() for crew in self._crews if not self.is_held(crew))
            due += [next_us for next_us in nexts if next_us is not None]
        if self.stopping or not due:
            await self._news.wait()
            return
        with trio.move_on_after(max(0.0, (min(due) - now_us()) / _US)):
            await self._news.wait()

    def _obey(
        self,
        link: ForkLink,
        reply: ForkReply,
        nursery: trio.Nursery,
        leases: LeaseService,
        hand_backs: HandBackService,
    ) -> None:
        now = now_us()
        if isinstance(reply, Forked):
            self._forked(link, reply, now)
        elif isinstance(reply, ForkFailed):
            self._log.error("fork failed", error=reply.error)
            request = self._requests.pop(reply.id)
            request.crew.pool.start_failed(request.slot, now)
        else:
            assert isinstance(reply, Exited), f"{reply} after the boot"
            self._exited(reply, now, nursery, leases, hand_backs)
        self._happened()

    def _happened(self) -> None:
        """Wake all who wait for news: the pool, a drain, the status file."""
        self._news.set()
        self._news = trio.Event()
        self._changed()

    def _forked(self, link: ForkLink, reply: Forked, now: int) -> None:
        request = self._requests.pop(reply.id)
        crew, slot = request.crew, request.slot
        worker = Worker(crew, slot, link, reply.pid, open_pidfd(reply.pid), now)
        self.workers[reply.pid] = worker
        crew.pool.started(slot, now)
        named = {"crew": crew.name} if crew.name else {}
        self._log.info("worker started", worker=reply.pid, slot=slot, **named)
        if self.stopping or self.is_held(crew) or crew.pool.is_closing(slot):
            worker.ask_to_end(signal.SIGTERM)
        elif self._link is not link:
            # It was on its way when newer code took over.
            worker.ask_to_end(signal.SIGUSR2)

    def _exited(
        self,
        reply: Exited,
        now: int,
        nursery: trio.Nursery,
        leases: LeaseService,
        hand_backs: HandBackService,
    ) -> None:
        worker = self.workers.pop(reply.pid)
        leases.forget_worker(worker)
        held = [
            DeadLease(held.lease, held.watch.expiry_us, held.watch.is_fenced)
            for held in worker.leases.values()
        ]
        journal = hand_backs.take_journal(worker.pid)
        if held or journal.is_owed:
            nursery.start_soon(
                hand_backs.settle,
                journal,
                held,
                worker.shutdown_said,
                leases.answered_by,
                worker.crew.settings,
            )
        if reply.marker == "restart" and worker.server is self._link and not worker.was_asked:
            self.restarts_wanted += 1
        kind = classify_exit(reply.status, reply.marker, self._bugs, was_asked=worker.was_asked)
        if kind is Exit.CRASH and worker.was_killed:
            kind = Exit.KILLED
        pool = worker.crew.pool
        before = pool.circuit
        pool.ended(worker.slot, kind, now)
        self._log.info(
            "worker ended",
            worker=worker.pid,
            slot=worker.slot,
            status=reply.status,
            marker=reply.marker,
            exit=kind.value,
            crashes=pool.crashes,
        )
        if pool.circuit is not before:
            self._log_circuit(worker.crew)

    def _log_circuit(self, crew: Crew) -> None:
        level = self._log.info if crew.pool.circuit is Circuit.CLOSED else self._log.warning
        named = {"crew": crew.name} if crew.name else {}
        level("circuit", state=crew.pool.circuit.value, **named)
