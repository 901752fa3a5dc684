"""A pool in virtual time: a broker that counts, workers that take time, and a `Scaler` between."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from atleastonce.system.supervisor.core.demand import QueueLoad, Share, alone
from atleastonce.system.supervisor.core.moves import Place
from atleastonce.system.supervisor.core.scaling import Scaler
from atleastonce.system.supervisor.core.scaling_policy import Balance, ScalingPolicy

S = 1_000_000
FORK_US = 5_000
READ_US = 2_000
WAKE_PATH_US = 5_000


@dataclass(slots=True, eq=False)
class VirtualWorker:
    """One worker: idle, busy until its job ends, or draining."""

    place: int
    busy_queue: int | None = None
    is_draining: bool = False


@dataclass
class SimulatedPool:
    """One pool from its start on.

    Args:
        policy: The pool's.
        poll_us: Time between polls.
        listens: Whether pushes wake it.
        job_us: How long every job takes.
        readable: Whether the depths can be read at a time.
        share: Whose portion it is.
    """

    policy: ScalingPolicy
    poll_us: int
    listens: bool = False
    job_us: int = 5 * S
    readable: Callable[[int], bool] = lambda now_us: True
    share: Share = alone
    now_us: int = 0
    ready: Counter[int] = field(default_factory=Counter)
    finished: Counter[int] = field(default_factory=Counter)
    workers: list[VirtualWorker] = field(default_factory=list)
    starting: Counter[int] = field(default_factory=Counter)
    sizes: list[tuple[int, int]] = field(default_factory=list)
    evaluations: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scaler = Scaler(self.policy, listens=self.listens)
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._number = 0
        self._wake_at_us: int | None = None
        self.at(0, self._poll)

    def at(self, at_us: int, act: Callable[[], None]) -> None:
        """Have something happen at a time."""
        self._number += 1
        heapq.heappush(self._events, (at_us, self._number, act))

    def push(self, at_us: int, queue: int, count: int) -> None:
        """Have jobs come."""

        def come() -> None:
            self.ready[queue] += count
            self._dispatch()
            if self.listens:
                self.at(self.now_us + WAKE_PATH_US, self._wake)

        self.at(at_us, come)

    def run(self, until_us: int) -> None:
        """Let time pass."""
        while self._events and self._events[0][0] <= until_us:
            self.now_us, _, act = heapq.heappop(self._events)
            act()
            self._check()
        self.now_us = until_us

    def depths(self) -> list[int]:
        """Return what each queue holds, running jobs included."""
        running = Counter(w.busy_queue for w in self.workers if w.busy_queue is not None)
        return [self.ready[queue] + running[queue] for queue in range(self.policy.queues)]

    def size(self) -> int:
        """Return how many workers run, draining ones left out."""
        return sum(not worker.is_draining for worker in self.workers)

    def time_to_us(self, size: int) -> int | None:
        """Return when the pool first had so many workers."""
        return next((at_us for at_us, seen in self.sizes if seen >= size), None)

    def places(self) -> list[Place]:
        """Return the workers of each place."""
        found = []
        for place in range(self.policy.places):
            own = [worker for worker in self.workers if worker.place == place]
            draining = sum(worker.is_draining for worker in own)
            found.append(Place(len(own) - draining + self.starting[place], draining))
        return found

    def _poll(self) -> None:
        if self.scaler.is_due(self.now_us):
            self._evaluate()
        self.at(self.now_us + self.poll_us, self._poll)

    def _wake(self) -> None:
        self.scaler.wake()
        self._plan_wake()

    def _plan_wake(self) -> None:
        next_us = self.scaler.next_us()
        if next_us is None:
            return
        at_us = max(next_us, self.now_us)
        if self._wake_at_us is None or self._wake_at_us > at_us:
            self._wake_at_us = at_us
            self.at(at_us, self._woken)

    def _woken(self) -> None:
        self._wake_at_us = None
        next_us = self.scaler.next_us()
        if next_us is not None and next_us <= self.now_us:
            self._evaluate()
        else:
            self._plan_wake()

    def _evaluate(self) -> None:
        loads = [QueueLoad(depth, self.job_us) for depth in self.depths()]
        is_readable = self.readable(self.now_us)
        moves = self.scaler.evaluate(
            self.now_us, loads if is_readable else None, self.places(), self.share
        )
        self.evaluations.append(self.now_us)
        for place, count in enumerate(moves.stops):
            self._stop(place, count)
        for place, count in enumerate(moves.starts):
            self.starting[place] += count
            for _ in range(count):
                self.at(self.now_us + READ_US + FORK_US, partial(self._start, place))
        self._plan_wake()

    def _start(self, place: int) -> None:
        self.starting[place] -= 1
        self.workers.append(VirtualWorker(place))
        self.sizes.append((self.now_us, self.size()))
        self._dispatch()

    def _stop(self, place: int, count: int) -> None:
        own = [w for w in self.workers if w.place == place and not w.is_draining]
        own.sort(key=lambda worker: worker.busy_queue is not None)
        for worker in own[:count]:
            worker.is_draining = True
            if worker.busy_queue is None:
                self.workers.remove(worker)
        self.sizes.append((self.now_us, self.size()))

    def _queues(self, place: int) -> Sequence[int]:
        return range(self.policy.queues) if self.policy.balance is Balance.OFF else (place,)

    def _dispatch(self) -> None:
        for worker in self.workers:
            if worker.busy_queue is not None or worker.is_draining:
                continue
            queue = next((q for q in self._queues(worker.place) if self.ready[q]), None)
            if queue is not None:
                self.ready[queue] -= 1
                worker.busy_queue = queue
                self.at(self.now_us + self.job_us, partial(self._finish, worker))

    def _finish(self, worker: VirtualWorker) -> None:
        assert worker.busy_queue is not None
        self.finished[worker.busy_queue] += 1
        worker.busy_queue = None
        if worker.is_draining:
            self.workers.remove(worker)
        self._dispatch()

    def _check(self) -> None:
        everyone = len(self.workers) + self.starting.total()
        assert everyone <= self.policy.most, f"{everyone} workers at {self.now_us}"
