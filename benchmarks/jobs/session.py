"""All phases of one contender, one after the other, and our own ablation."""

from __future__ import annotations

import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from .contenders import Backend, backend_of, own_backend
from .disk import Disk, measure_disk
from .phases import (
    Latency,
    Memory,
    MemoryWatch,
    Rate,
    drain,
    pace,
    produce_and_run,
    warm_up,
)
from .plan import ABLATIONS, EMPTY_MS, JOB_MS, PACES, Plan

FAILURES = (TimeoutError, RuntimeError, subprocess.TimeoutExpired)


@dataclass(slots=True)
class Session:
    """What was measured of one contender, or with one setting of ours.

    Attributes:
        name: Whose.
        disks: The disk before each of its pools and after the last.
        drains: Rates of backlogs.
        included: Rates with the producer.
        latencies: Of paced loads.
        memories: Of the pools.
        failure: What ended it early; empty when nothing did.
    """

    name: str
    disks: list[Disk] = field(default_factory=list)
    drains: list[Rate] = field(default_factory=list)
    included: list[Rate] = field(default_factory=list)
    latencies: list[Latency] = field(default_factory=list)
    memories: list[Memory] = field(default_factory=list)
    failure: str = ""

    def fail(self, error: Exception) -> None:
        """Note what ended it, and say it at once."""
        self.failure = f"{type(error).__name__}: {error}"
        print(f"FAILED {self.name}: {self.failure}", flush=True)

    @property
    def is_exact(self) -> bool:
        """Whether nothing failed and each job of each phase ran once."""
        rates = all(found.is_exact for found in (*self.drains, *self.included))
        return not self.failure and rates and all(found.is_exact for found in self.latencies)


def measure(name: str, plan: Plan) -> Session:
    """Measure a contender, each pool on a fresh backend; a failure ends it and is noted."""
    session = Session(name)
    with tempfile.TemporaryDirectory(prefix="bench-jobs-") as folder:
        try:
            for index, workers in enumerate(plan.pools):
                scratch = Path(folder) / str(workers)
                scratch.mkdir()
                print(f"measuring {name}, {workers} workers …", flush=True)
                session.disks.append(measure_disk(scratch))
                with backend_of(name, scratch) as backend:
                    _measure_pool(session, backend, plan, index, scratch)
            session.disks.append(measure_disk(Path(folder)))
        except FAILURES as error:
            session.fail(error)
    return session


def _measure_pool(
    session: Session, backend: Backend, plan: Plan, index: int, scratch: Path
) -> None:
    workers = plan.pools[index]
    with backend.pool(workers) as pool:
        memory = MemoryWatch(backend, pool, workers)
        ran = warm_up(backend, workers, scratch).pids
        if index == 0:
            for rate in PACES:
                session.latencies.append(
                    pace(backend, workers, rate, plan.paced_s, JOB_MS, scratch)
                )
        for sleep_ms in (JOB_MS, EMPTY_MS):
            session.included.append(
                produce_and_run(backend, pool, workers, plan.included[index], sleep_ms, scratch)
            )
        session.memories.append(memory.finish(ran))
    for sleep_ms in (JOB_MS, EMPTY_MS):
        session.drains.append(drain(backend, workers, plan.drained[index], sleep_ms, scratch))


def ablate(plan: Plan) -> list[Session]:
    """Measure ours with one feature off at a time: the largest pool's drains, the fastest pace."""
    sessions = []
    for name, settings in ABLATIONS.items():
        session = Session(name)
        sessions.append(session)
        print(f"measuring ours, {name} …", flush=True)
        with tempfile.TemporaryDirectory(prefix="bench-jobs-") as folder:
            scratch = Path(folder)
            session.disks.append(measure_disk(scratch))
            try:
                with own_backend(scratch, settings) as backend:
                    _ablate_one(session, backend, plan, scratch)
            except FAILURES as error:
                session.fail(error)
            session.disks.append(measure_disk(scratch))
    return sessions


def _ablate_one(session: Session, backend: Backend, plan: Plan, scratch: Path) -> None:
    with backend.pool(plan.pools[0]):
        warm_up(backend, plan.pools[0], scratch)
        session.latencies.append(
            pace(backend, plan.pools[0], PACES[-1], plan.paced_s / 2, JOB_MS, scratch)
        )
    for sleep_ms in (JOB_MS, EMPTY_MS):
        session.drains.append(drain(backend, plan.pools[-1], plan.drained[-1], sleep_ms, scratch))
