"""The phases of one contender: start and rest, produce and run, pace, drain a backlog."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from ..processes import cpu_s, private_mib, pss_mib, tree, wait_until_idle
from .contenders import Backend, Load, run_producer
from .joblog import JobLog, read_log, wait_for_jobs

WARM_UP_MS = 20.0
SLOWEST_JOBS_PER_S = 15.0
PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate and what it cost.

    Attributes:
        workers: Of the pool.
        sleep_ms: Of each job.
        jobs: How many.
        rate: Jobs a second; of a drain the slope from 10 % to 90 %, with the producer from the
            first dispatch to the last end.
        produce_rate: Jobs a second, of the producer alone.
        pool_cpu_ms: CPU of all processes of the pool, for each job.
        backend_cpu_ms: CPU of Redis or the node, for each job; of a drain with the enqueueing.
        producer_cpu_ms: CPU of the producer, for each job.
        is_exact: Whether each job ran once, as the body's log tells.
    """

    workers: int
    sleep_ms: float
    jobs: int
    rate: float
    produce_rate: float
    pool_cpu_ms: float
    backend_cpu_ms: float
    producer_cpu_ms: float
    is_exact: bool

    @property
    def cpu_ms(self) -> float:
        """CPU of all processes, for each job, its dispatch included."""
        return self.pool_cpu_ms + self.backend_cpu_ms + self.producer_cpu_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """From just before the dispatch to the job's end, of a paced load; `late_ms` the producer's."""

    workers: int
    rate: float
    sleep_ms: float
    jobs: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    late_ms_max: float
    is_exact: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Of a pool, MiB.

    Attributes:
        workers: Of the pool.
        processes: Of the whole application, backend included.
        pool_pss: Of all processes of the pool after its jobs.
        backend_pss: Of Redis or the node then.
        idle_pool_pss: Of all processes of the pool before its first job.
        idle_private: Private pages of a worker before its first job, median.
        worked_private: Likewise after all jobs.
    """

    workers: int
    processes: int
    pool_pss: float
    backend_pss: float
    idle_pool_pss: float
    idle_private: float
    worked_private: float

    @property
    def pss(self) -> float:
        """Of the whole application, after its jobs."""
        return self.pool_pss + self.backend_pss


def patience_s(jobs: int) -> float:
    """How long a phase may take."""
    return PATIENCE_S + jobs / SLOWEST_JOBS_PER_S


def fresh(scratch: Path, name: str) -> Path:
    """Make a folder for the logs of one phase."""
    folder = scratch / f"log-{name}-{time.monotonic_ns()}"
    folder.mkdir()
    return folder


def warm_up(backend: Backend, workers: int, scratch: Path) -> JobLog:
    """Let every worker import and connect: four short jobs each; unmeasured."""
    logs, jobs = fresh(scratch, "warm"), 4 * workers
    run_producer(backend, Load(logs, jobs, WARM_UP_MS))
    wait_for_jobs(logs, jobs, patience_s(jobs))
    return read_log(logs, jobs)


def produce_and_run(
    backend: Backend, pool: int, workers: int, jobs: int, sleep_ms: float, scratch: Path
) -> Rate:
    """One producer sends one job a call to a running pool, as fast as both can."""
    logs = fresh(scratch, "included")
    before, of_pool = cpu_s(backend.pids), cpu_s(tree(pool))
    produced = run_producer(backend, Load(logs, jobs, sleep_ms))
    wait_for_jobs(logs, jobs, patience_s(jobs))
    of_pool, of_backend = cpu_s(tree(pool)) - of_pool, cpu_s(backend.pids) - before
    log = read_log(logs, jobs)
    return Rate(
        workers=workers,
        sleep_ms=sleep_ms,
        jobs=jobs,
        rate=jobs / ((int(log.ends_ns[-1]) - produced.began_ns) / 1e9),
        produce_rate=jobs / ((produced.ended_ns - produced.began_ns) / 1e9),
        pool_cpu_ms=1000 * of_pool / jobs,
        backend_cpu_ms=1000 * of_backend / jobs,
        producer_cpu_ms=1000 * produced.cpu_s / jobs,
        is_exact=log.is_exact,
    )


def pace(
    backend: Backend, workers: int, rate: float, seconds: float, sleep_ms: float, scratch: Path
) -> Latency:
    """One producer sends jobs at fixed times to a running pool."""
    logs, jobs = fresh(scratch, "paced"), int(rate * seconds)
    produced = run_producer(backend, Load(logs, jobs, sleep_ms, rate))
    wait_for_jobs(logs, jobs, patience_s(jobs))
    log = read_log(logs, jobs)
    return Latency(
        workers=workers,
        rate=rate,
        sleep_ms=sleep_ms,
        jobs=jobs,
        p50_ms=log.latency_ms(50),
        p95_ms=log.latency_ms(95),
        p99_ms=log.latency_ms(99),
        late_ms_max=produced.late_ms_max,
        is_exact=log.is_exact,
    )


def drain(backend: Backend, workers: int, jobs: int, sleep_ms: float, scratch: Path) -> Rate:
    """Fill the queue, then start a pool; its CPU is that of the middle 80 % of the jobs."""
    logs = fresh(scratch, "drain")
    before = cpu_s(backend.pids)
    produced = run_producer(backend, Load(logs, jobs, sleep_ms, bulk=True))
    enqueued_s = cpu_s(backend.pids) - before
    marks: list[tuple[int, float, float]] = []

    with backend.pool(workers) as pool:

        def watch(seen: int) -> None:
            share = seen / jobs
            if (not marks and share >= 0.1) or (len(marks) == 1 and share >= 0.9):
                marks.append((seen, cpu_s(tree(pool)), cpu_s(backend.pids)))

        wait_for_jobs(logs, jobs, patience_s(jobs), watch)
        marks.append((jobs, cpu_s(tree(pool)), cpu_s(backend.pids)))
    low, high = marks[0], marks[min(1, len(marks) - 1)]
    # Drained between two looks: then nobody knows.
    share = high[0] - low[0] or float("nan")
    log = read_log(logs, jobs)
    return Rate(
        workers=workers,
        sleep_ms=sleep_ms,
        jobs=jobs,
        rate=log.slope(),
        produce_rate=jobs / ((produced.ended_ns - produced.began_ns) / 1e9),
        pool_cpu_ms=1000 * (high[1] - low[1]) / share,
        backend_cpu_ms=1000 * ((high[2] - low[2]) / share + enqueued_s / jobs),
        producer_cpu_ms=1000 * produced.cpu_s / jobs,
        is_exact=log.is_exact,
    )


class MemoryWatch:
    """Looks at a pool before its first job and after its last one."""

    def __init__(self, backend: Backend, pool: int, workers: int) -> None:
        """Wait until the pool rests, then look.

        Raises:
            TimeoutError: It does not come up.
        """
        self._backend, self._pool, self._workers = backend, pool, workers
        wait_until_idle(pool, workers + 1)
        members = tree(pool)
        self._idle = {pid: private_mib(pid) for pid in members}
        self._idle_pss = pss_mib(members)

    def finish(self, ran: frozenset[int]) -> Memory:
        """Wait until the pool rests again, and look at the processes that ran jobs."""
        wait_until_idle(self._pool, self._workers + 1)
        members = tree(self._pool)
        workers = [pid for pid in members if pid in ran]
        idle = [self._idle[pid] for pid in workers if pid in self._idle]
        worked = [private_mib(pid) for pid in workers]
        return Memory(
            workers=self._workers,
            processes=len(members) + len(self._backend.pids),
            pool_pss=pss_mib(members),
            backend_pss=pss_mib(self._backend.pids),
            idle_pool_pss=self._idle_pss,
            idle_private=statistics.median(idle) if idle else float("nan"),
            worked_private=statistics.median(worked) if worked else float("nan"),
        )
