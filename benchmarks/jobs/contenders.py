"""The systems under comparison behind one face: a backend, a pool of workers, a producer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..own_system import ROOT, OwnSystem, own_nodes, own_workers
from ..peer_runs import PEERS, VENV, redis_process
from ..processes import end_tree
from .plan import OwnSettings

PEER_NAMES = ("rq", "celery", "dramatiq", "huey")
OURS = "atleastonce"
PRODUCE_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Load:
    """Jobs to produce.

    Attributes:
        directory: Where the body logs.
        count: How many.
        sleep_ms: How long each takes.
        rate: Jobs a second; 0 is as fast as the producer can.
        bulk: Use the system's bulk call where it has one.
        first: Number of the first.
    """

    directory: Path
    count: int
    sleep_ms: float
    rate: float = 0.0
    bulk: bool = False
    first: int = 0

    def plan(self, **more: object) -> str:
        """Return it as the producers read it."""
        return json.dumps(
            {
                "directory": str(self.directory),
                "first": self.first,
                "count": self.count,
                "sleep_ms": self.sleep_ms,
                "rate": self.rate,
                "bulk": self.bulk,
                **more,
            }
        )


@dataclass(frozen=True, slots=True)
class Produced:
    """What a producer said: when it began and ended, its CPU, how late it ever was."""

    began_ns: int
    ended_ns: int
    cpu_s: float
    late_ms_max: float


class Backend(Protocol):
    """What keeps the jobs, running."""

    @property
    def pids(self) -> list[int]:
        """Its processes."""

    def pool(self, workers: int) -> AbstractContextManager[int]:
        """Start so many workers; the pid of their top process. All are ended at the end."""

    def producer(self, load: Load) -> list[str | Path]:
        """The command line of a producer."""

    @property
    def environment(self) -> dict[str, str]:
        """The producer's environment."""


def run_producer(backend: Backend, load: Load) -> Produced:
    """Run a producer to its end.

    Raises:
        RuntimeError: It failed; the message holds the end of what it printed.
    """
    done = subprocess.run(
        backend.producer(load), cwd=ROOT, env=backend.environment,
        capture_output=True, text=True, timeout=PRODUCE_TIMEOUT_S, check=False,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"the producer failed: {done.stderr.strip()[-500:]}")
    return Produced(**json.loads(done.stdout.splitlines()[-1]))


@dataclass(frozen=True, slots=True)
class PeerBackend:
    """A private Redis: append-only file, fsync always."""

    peer: str
    redis_pid: int
    url: str
    scratch: Path

    @property
    def pids(self) -> list[int]:
        """Redis alone."""
        return [self.redis_pid]

    @property
    def environment(self) -> dict[str, str]:
        """Where its Redis is."""
        return {**os.environ, "PEER_REDIS_URL": self.url, "PYTHONPATH": str(PEERS)}

    def producer(self, load: Load) -> list[str | Path]:
        """The peer's own calls, in the peers' interpreter."""
        return [VENV / "bin" / "python", PEERS / "produce.py", self.peer, load.plan()]

    @contextmanager
    def pool(self, workers: int) -> Iterator[int]:
        """Start the peer's own pool of processes, one job at a time each."""
        with (self.scratch / f"{self.peer}.log").open("ab") as log:
            process = subprocess.Popen(
                pool_command(self.peer, workers, self.url), cwd=PEERS, env=self.environment,
                stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        try:
            yield process.pid
        finally:
            end_tree(process, signal.SIGINT if self.peer == "huey" else signal.SIGTERM)


def pool_command(peer: str, workers: int, url: str) -> list[str]:
    """Give the command line of a peer's own pool, as its documentation has it."""
    options = {
        "rq": f"rq worker-pool bench -n {workers} -w rq.worker.SimpleWorker "
        f"--logging-level ERROR --url {url}",
        "celery": f"celery -A celery_app worker -c {workers} -P prefork -O fair "
        "--without-gossip --without-mingle --loglevel ERROR",
        "dramatiq": f"dramatiq dramatiq_app -p {workers} -t 1 --skip-logging",
        "huey": f"huey_consumer huey_app.huey -w {workers} -k process -d 0.05 -m 1 -q",
    }[peer].split()
    return [str(VENV / "bin" / options[0]), *options[1:]]


@dataclass(frozen=True, slots=True)
class OwnBackend:
    """One node that syncs every acknowledged write, and what its workers are set to."""

    system: OwnSystem
    settings: OwnSettings

    @property
    def pids(self) -> list[int]:
        """The node."""
        return [process.pid for process in self.system.nodes.values()]

    @property
    def environment(self) -> dict[str, str]:
        """This process's own."""
        return dict(os.environ)

    def producer(self, load: Load) -> list[str | Path]:
        """One call a job, or a hundred in one push."""
        at = self.system.endpoints["n1"]
        plan = load.plan(endpoint=[at.host, at.port])
        return [sys.executable, "-m", "benchmarks.jobs.own_producer", plan]

    @contextmanager
    def pool(self, workers: int) -> Iterator[int]:
        """Start a supervisor."""
        with own_workers(
            self.system,
            "benchmarks.jobs_app:application",
            workers,
            renewal=self.settings.renewal,
            ack_async=self.settings.ack_async,
            pop_ahead=self.settings.pop_ahead,
            ack_batch=self.settings.ack_batch,
            prefetch=self.settings.prefetch,
        ) as master:
            yield master.pid


@contextmanager
def own_backend(scratch: Path, settings: OwnSettings) -> Iterator[Backend]:
    """Start our node."""
    with own_nodes(scratch, 1) as system:
        yield OwnBackend(system, settings)


@contextmanager
def backend_of(name: str, scratch: Path) -> Iterator[Backend]:
    """Start a contender's backend on a fresh folder; stopped at the end."""
    if name == OURS:
        with own_backend(scratch, OwnSettings()) as backend:
            yield backend
        return
    data = scratch / "redis"
    data.mkdir()
    with redis_process(data) as (pid, port):
        yield PeerBackend(name, pid, f"redis://127.0.0.1:{port}/0", scratch)
