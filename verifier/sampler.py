"""Samples, while a run goes on, how long its processes have to wait for a core.

A bound of time says something about the system only as long as the system gets to run. The samples
tell the checkers when it did not (`histories/scheduling.py`).
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from ..histories.scheduling import VERIFIER, SchedulingSample, Wait
from .cpu_times import MachineTimes, ThreadTimes
from .watch import SupervisorWatch

TICK_NS: Final = 50_000_000
WINDOW_NS: Final = 500_000_000
_WORTH_NOTING: Final = 0.05
_DIGITS: Final = 3

Processes = Callable[[], Mapping[int, str]]


class Counters(Protocol):
    """Where the figures come from."""

    cores: int

    def threads(self, pid: int) -> Mapping[int, ThreadTimes]:
        """Return the times of a process's threads by their ids; empty if it is gone."""

    def machine(self) -> MachineTimes:
        """Return the times of all cores together."""


class Sampler:
    """Turns counters that only grow into one sample for each half second.

    Args:
        clock_ns: CLOCK_MONOTONIC.
        counters: Times of threads and of the machine.
        processes: The run's processes by pid, with their names.
        write: Takes each sample.
    """

    def __init__(
        self,
        clock_ns: Callable[[], int],
        counters: Counters,
        processes: Processes,
        write: Callable[[SchedulingSample], None],
    ) -> None:
        self._clock_ns = clock_ns
        self._counters = counters
        self._processes = processes
        self._write = write
        self._woke_ns = self._from_ns = clock_ns()
        self._late_ns = 0
        self._threads: dict[int, Mapping[int, ThreadTimes]] = {}
        self._machine = counters.machine()
        self._look()

    def wake(self) -> None:
        """Note how late this wake-up is, and sample once a window has passed."""
        now_ns = self._clock_ns()
        self._late_ns = max(self._late_ns, now_ns - self._woke_ns - TICK_NS)
        self._woke_ns = now_ns
        if now_ns - self._from_ns >= WINDOW_NS:
            self._sample(now_ns)

    def _sample(self, now_ns: int) -> None:
        length_ns = now_ns - self._from_ns
        machine, before = self._counters.machine(), self._machine
        ran_ns, waits = self._look(length_ns)
        whole_ns = length_ns * self._counters.cores
        busy_ns = machine.busy_ns - before.busy_ns
        self._write(
            SchedulingSample(
                from_ns=self._from_ns,
                t_ns=now_ns,
                late_ns=self._late_ns,
                own=_share(ran_ns, whole_ns),
                others=_share(busy_ns - ran_ns, whole_ns),
                stolen=_share(machine.stolen_ns - before.stolen_ns, whole_ns),
                waits=waits,
            )
        )
        self._machine, self._from_ns, self._late_ns = machine, now_ns, 0

    def _look(self, length_ns: int = WINDOW_NS) -> tuple[int, dict[str, Wait]]:
        """Read all threads; return what ran since the last look, and who waited.

        A process that was not there at the last look counts from this one on.
        """
        ran_ns, waits = 0, dict[str, Wait]()
        seen: dict[int, Mapping[int, ThreadTimes]] = {}
        for pid, name in self._processes().items():
            threads = seen[pid] = self._counters.threads(pid)
            before = self._threads.get(pid)
            if before is None:
                continue
            steps = [_step(now, before.get(id_)) for id_, now in threads.items()]
            ran_ns += sum(step.ran_ns for step in steps)
            worst = max(steps, key=lambda step: step.waited_ns, default=ThreadTimes(0, 0))
            waited = _share(worst.waited_ns, length_ns)
            if waited >= _WORTH_NOTING:
                waits[name] = Wait(waited=waited, ran=_share(worst.ran_ns, length_ns))
        self._threads = seen
        return ran_ns, waits


def _step(now: ThreadTimes, before: ThreadTimes | None) -> ThreadTimes:
    if before is None:
        return now
    return ThreadTimes(now.ran_ns - before.ran_ns, now.waited_ns - before.waited_ns)


def _share(part_ns: int, whole_ns: int) -> float:
    return round(min(1.0, max(0.0, part_ns / whole_ns)), _DIGITS)


def name_processes(
    running: Callable[[], Mapping[int, str]], supervisors: Sequence[SupervisorWatch]
) -> Mapping[int, str]:
    """Name this process, the nodes, the masters, the fork servers and the workers by pid."""
    names = {os.getpid(): VERIFIER, **running()}
    for supervisor in supervisors:
        status = supervisor.read()
        if status is None or status.master not in names:
            continue
        if status.fork_server is not None:
            names[status.fork_server] = "fork-server"
        names |= {worker.pid: f"worker {worker.pid}" for worker in status.workers}
    return names


@dataclass(slots=True)
class Sampling:
    """A sampler at work.

    Attributes:
        error: Why it ended before it was told to; empty if it did not.
    """

    error: str = ""


@contextmanager
def sampling(
    counters: Counters, processes: Processes, write: Callable[[SchedulingSample], None]
) -> Iterator[Sampling]:
    """Sample in a thread of its own, so that a busy verifier is not taken for a busy machine.

    It never stands in the run's way: an error ends the sampling and is told at the end.
    """
    told, done = Sampling(), threading.Event()

    def run() -> None:
        try:
            sampler = Sampler(time.monotonic_ns, counters, processes, write)
            while not done.wait(TICK_NS / 1e9):
                sampler.wake()
        except OSError as error:
            told.error = f"how long processes waited for a core was not sampled to the end: {error}"

    thread = threading.Thread(target=run, name="sampler", daemon=True)
    thread.start()
    try:
        yield told
    finally:
        done.set()
        thread.join()
