"""The loop that sizes pools: polls, wakes, and the replicas that share with this supervisor."""

from __future__ import annotations

from collections.abc import Sequence

import trio

from .clock import now_us
from .core.coordination import first_covered
from .core.coordination import share as share_of
from .core.demand import Portion, QueueLoad, Share, alone
from .depths import DepthReader
from .fleet import Fleet
from .logbook import Logbook
from .replicas import Replicas
from .runtimes import RuntimeReader
from .sized_pool import SizedPool

_US = 1_000_000


class Sizing:
    """Sizes the pools of one master.

    Args:
        pools: The pools.
        poll_interval_s: Time between two looks at the queues.
        fleet: The workers.
        depths: Looks at the queues.
        runtimes: Looks at how long jobs take.
        replicas: Others that share the pools' targets, or None.
        log: The master's log.
    """

    def __init__(
        self,
        pools: Sequence[SizedPool],
        poll_interval_s: float,
        fleet: Fleet,
        depths: DepthReader,
        runtimes: RuntimeReader,
        replicas: Replicas | None,
        log: Logbook,
    ) -> None:
        self.pools = tuple(pools)
        self._interval_us = round(poll_interval_s * _US)
        self._fleet = fleet
        self._depths = depths
        self._runtimes = runtimes
        self._replicas = replicas
        self._log = log
        self._news = trio.Event()
        self._was_idle = False

    def wake(self, queues: set[str]) -> None:
        """Note that these queues have new messages."""
        for pool in self.pools:
            if queues.intersection(pool.config.queues):
                pool.scaler.wake()
        self._news.set()

    def look(self) -> None:
        """Notice that the fleet was paused, continued or stopped."""
        if self._is_idle is not self._was_idle:
            self._news.set()

    async def keep(self) -> None:
        """Size the pools until the fleet stops; then leave the replicas."""
        poll_us = now_us()
        while not self._fleet.stopping:
            self._was_idle = self._is_idle
            if self._is_idle:
                await self._leave()
                await self._news.wait()
                poll_us, self._news = now_us(), trio.Event()
                continue
            poll_us = await self._pass(poll_us)
            await self._wait(poll_us)
        # The workers have heard of the stop by now; what follows is bounded by the client.
        with trio.CancelScope(shield=True):
            await self._leave()

    @property
    def _is_idle(self) -> bool:
        return self._fleet.paused or self._fleet.stopping

    def _working(self) -> list[SizedPool]:
        """Return the pools that maintenance does not hold."""
        return [pool for pool in self.pools if not self._fleet.is_held(pool.crews[0])]

    async def _pass(self, poll_us: int) -> int:
        """Size whatever is due; return when the next poll is."""
        now = now_us()
        self._depths.begin()
        if now >= poll_us:
            # By the schedule, so that a poll that is late by a hair still finds the cooldown over.
            now, poll_us = poll_us, max(now_us(), poll_us + self._interval_us)
            if self._replicas is not None:
                working = {pool.scope for pool in self._working()}
                self._replicas.absent = {pool.scope for pool in self.pools} - working
                await self._replicas.heartbeat()
            due = [pool for pool in self._working() if pool.scaler.is_due(now)]
        else:
            due = [pool for pool in self._working() if _is_woken(pool, now)]
        for pool in due:
            await self._size(pool, now)
        return poll_us

    async def _size(self, pool: SizedPool, now: int) -> None:
        share = self._share(pool)
        if share is None:
            return
        queues = pool.config.queues
        depths = await self._depths.read(queues, pool.group)
        if self._is_idle or self._fleet.is_held(pool.crews[0]):
            return
        loads = None if depths is None else self._loads(pool, depths, now)
        pool.depths = {} if depths is None else dict(zip(queues, depths, strict=True))
        moves = pool.scaler.evaluate(now, loads, [crew.place() for crew in pool.crews], share)
        if moves.is_nothing:
            return
        self._log.info(
            "pool sized",
            pool=pool.config.name,
            target=sum(moves.target),
            stops=sum(moves.stops),
            starts=sum(moves.starts),
            depth=-1 if depths is None else sum(depths),
        )
        for crew, stops, starts in zip(pool.crews, moves.stops, moves.starts, strict=True):
            if stops:
                self._fleet.shrink(crew, stops)
            if starts:
                self._fleet.grow(crew, starts)

    def _loads(self, pool: SizedPool, depths: Sequence[int], now: int) -> list[QueueLoad]:
        if pool.config.scaling.strategy == "size":
            return [QueueLoad(depth) for depth in depths]
        self._runtimes.look(now, self._fleet.workers.values())
        crews = pool.crews if len(pool.crews) == len(depths) else pool.crews[:1] * len(depths)
        return [
            QueueLoad(depth, self._runtimes.runtime_us(now, crew))
            for depth, crew in zip(depths, crews, strict=True)
        ]

    def _share(self, pool: SizedPool) -> Share | None:
        """Return what is this supervisor's own of a demand; None while nobody can tell."""
        if self._replicas is None or not pool.scope:
            return alone
        view = self._replicas.view(pool.scope)
        if view is None:
            return None
        is_auto = pool.config.scaling.balance == "auto"

        def share(target: int, backlogged: int) -> Portion:
            mine = share_of(target, backlogged if is_auto else 0, view)
            covered = 0 if view.position is None else -(-backlogged // view.count)
            return Portion(mine, covered, first_covered(backlogged, view))

        return share

    async def _leave(self) -> None:
        if self._replicas is not None:
            await self._replicas.leave()

    async def _wait(self, poll_us: int) -> None:
        """Wait for the next poll, a pool that is due before it, or news."""
        dues = [poll_us]
        for pool in self._working():
            next_us = pool.scaler.next_us()
            # A replica that is woken without a view waits for its heartbeat.
            if next_us is not None and self._share(pool) is not None:
                dues.append(next_us)
        with trio.move_on_after(max(0.0, (min(dues) - now_us()) / _US)):
            await self._news.wait()
        self._news = trio.Event()


def _is_woken(pool: SizedPool, now: int) -> bool:
    next_us = pool.scaler.next_us()
    return next_us is not None and next_us <= now
