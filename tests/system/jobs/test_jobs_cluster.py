"""Workers on real nodes, of which one is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from atleastonce.system.client import BrokerError, ClientOptions, Endpoint, Health, SyncClient
from atleastonce.system.jobs import (
    Application,
    AttemptAcked,
    AttemptStarting,
    ConnectionSettings,
    JobContext,
    SyncDispatcher,
    WorkerSettings,
    run_worker,
)
from atleastonce.verifier.children import PortHold

pytestmark = pytest.mark.cluster

DEADLINE_S = 60.0
"""For what has to happen at all, on a machine of any speed."""
NODES = ("n1", "n2", "n3")


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until_s, "never happened"
        signal.sigtimedwait([], 0.02)


class Cluster:
    """Three nodes on free ports."""

    def __init__(self, folder: Path) -> None:
        self._hold = PortHold()
        ports = self._hold.take(NODES, 0)
        (folder / "token").write_text("t" * 32)
        (folder / "token").chmod(0o600)
        self.endpoints = {name: ("127.0.0.1", ports[name].client) for name in NODES}
        peers = {name: ("127.0.0.1", ports[name].peer) for name in NODES}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for name in NODES:
            config = {
                "node": name,
                "data_dir": str(folder / name),
                "client": self.endpoints[name],
                "peers": peers,
                "token_file": str(folder / "token"),
                "log_file": str(folder / f"{name}.log"),
                "die_with_parent": True,
            }
            path = folder / f"{name}.json"
            path.write_text(json.dumps(config))
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-m", "atleastonce.system.node", str(path)],
                start_new_session=True,
            )
        endpoints = [Endpoint(*address) for address in self.endpoints.values()]
        self.client = SyncClient(endpoints, ClientOptions(2.0, DEADLINE_S))

    def health(self, name: str) -> Health | None:
        try:
            return self.client.health(Endpoint(*self.endpoints[name])).value
        except BrokerError:
            return None

    def leader(self) -> str | None:
        found = [self.health(name) for name in NODES if self.processes[name].poll() is None]
        leaders = [h.node for h in found if h is not None and h.raft.role == "leader"]
        return leaders[0] if len(leaders) == 1 else None

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def close(self) -> None:
        self.client.close()
        for process in self.processes.values():
            process.kill()
            process.wait()
        self._hold.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path)
    try:
        wait_for(lambda: made.leader() is not None)
        yield made
    finally:
        made.close()


class Workers:
    """Forked workers that write down what starts and what is acked."""

    def __init__(self, folder: Path, cluster: Cluster) -> None:
        self.log = folder / "log"
        self.log.touch()
        self.states = folder / "states"
        self.states.mkdir()
        self.connection = ConnectionSettings(
            endpoints=tuple(cluster.endpoints.values()), queue="q", partitions=16
        )
        self.app = Application(self.connection)
        self.app.listen(
            AttemptStarting, lambda event: self.note("start", event.job_id, event.attempt)
        )
        self.app.listen(AttemptAcked, lambda event: self.note("acked", event.job_id))
        self.pids: list[int] = []

        @self.app.job("work")
        def work(context: JobContext, payload: dict[str, Any]) -> None:
            if payload["ms"]:
                signal.sigtimedwait([], payload["ms"] / 1000)

    def note(self, *values: object) -> None:
        fd = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        os.write(fd, msgspec.json.encode(values) + b"\n")
        os.close(fd)

    def notes(self, kind: str) -> list[tuple[Any, ...]]:
        lines = [json.loads(line) for line in self.log.read_bytes().split(b"\n")[:-1]]
        return [tuple(line[1:]) for line in lines if line[0] == kind]

    def start(self, **changes: object) -> int:
        base: dict[str, object] = {
            "queue": "q",
            "endpoints": self.connection.endpoints,
            "partitions": 16,
            "state_dir": str(self.states),
            "prefetch": 4,
            "ack_async": True,
            "pop_ahead": True,
            "retry_after_s": 30.0,
            "timeout_s": 5.0,
            "block_for_s": 1.0,
            "try_timeout_s": 2.0,
            **changes,
        }
        settings = msgspec.convert(base, WorkerSettings)
        # A stop that comes before the worker is ready waits until it is, as under a supervisor.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        pid = os.fork()
        if pid > 0:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if pid == 0:
            status = 70
            try:
                status = run_worker(self.app, settings)
            finally:
                os._exit(status)
        self.pids.append(pid)
        return pid

    def stop(self) -> list[int]:
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        statuses = [os.waitpid(pid, 0)[1] for pid in self.pids]
        self.pids.clear()
        return statuses

    def close(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def workers(tmp_path: Path, cluster: Cluster) -> Iterator[Workers]:
    made = Workers(tmp_path, cluster)
    yield made
    made.close()


def test_every_job_runs_once_although_the_leader_is_killed(
    cluster: Cluster, workers: Workers
) -> None:
    dispatcher = SyncDispatcher(cluster.client)
    ids = [dispatcher.dispatch(workers.app, "work", {"ms": 5}).job_id for _ in range(120)]
    for _ in range(3):
        workers.start()
    wait_for(lambda: len(workers.notes("acked")) >= 30)
    leader = cluster.leader()
    assert leader is not None
    cluster.kill(leader)
    ids += [dispatcher.dispatch(workers.app, "work", {"ms": 5}).job_id for _ in range(30)]
    wait_for(lambda: len(workers.notes("acked")) >= 150)
    assert workers.stop() == [0, 0, 0]
    assert Counter(workers.notes("start")) == Counter({(job_id, 1): 1 for job_id in ids})
    assert cluster.client.depth("q", "jobs").value.pending == 0


def test_stopped_workers_take_nothing_with_them(cluster: Cluster, workers: Workers) -> None:
    dispatcher = SyncDispatcher(cluster.client)
    ids = [dispatcher.dispatch(workers.app, "work", {"ms": 50}).job_id for _ in range(40)]
    for _ in range(3):
        workers.start()
    wait_for(lambda: len(workers.notes("start")) >= 4)
    assert workers.stop() == [0, 0, 0]
    for _ in range(3):
        workers.start()
    wait_for(lambda: len(workers.notes("acked")) >= 40)
    # Idle now, in waiting pops.
    assert workers.stop() == [0, 0, 0]
    ids.append(dispatcher.dispatch(workers.app, "work", {"ms": 0}).job_id)
    workers.start()
    wait_for(lambda: len(workers.notes("acked")) >= 41)
    assert Counter(workers.notes("start")) == Counter({(job_id, 1): 1 for job_id in ids})
    assert list(workers.states.glob("*.plan")) == list(
        workers.states.glob(f"{workers.pids[0]}.plan")
    )
