"""One real broker node in a process of its own, and applications whose workers run on it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from atleastonce.system.client import BrokerError, ClientOptions, Endpoint, SyncClient
from atleastonce.system.jobs import (
    Application,
    AttemptAcked,
    AttemptEnded,
    AttemptStarting,
    ConnectionSettings,
    EncryptionKeys,
    FailedStore,
    JobGaveUp,
    SyncDispatcher,
    WorkerSettings,
    queue_size,
    run_worker,
)
from atleastonce.verifier.children import PortHold

DEADLINE_S = 30.0


def wait_for(condition: Callable[[], bool]) -> None:
    until_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < until_s, "never happened"
        signal.sigtimedwait([], 0.02)


class OneNode:
    """A node that is healthy once this is made."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._hold = PortHold()
        ports = self._hold.take(["n1"], 0)["n1"]
        client, peer = ("127.0.0.1", ports.client), ("127.0.0.1", ports.peer)
        token = folder / "token"
        token.write_text("t" * 32)
        token.chmod(0o600)
        config = {
            "node": "n1",
            "data_dir": str(folder / "n1"),
            "client": client,
            "peers": {"n1": peer},
            "token_file": str(token),
            "log_file": str(folder / "n1.log"),
            "die_with_parent": True,
        }
        path = folder / "n1.json"
        path.write_text(json.dumps(config))
        self.endpoint = Endpoint(*client)
        self.client = SyncClient([self.endpoint], ClientOptions(5.0, 30.0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "atleastonce.system.node", str(path)], start_new_session=True
        )
        wait_for(self._leads)

    def _leads(self) -> bool:
        assert self._process.poll() is None, "the node has ended"
        try:
            return self.client.health(self.endpoint).value.raft.role == "leader"
        except BrokerError:
            return False

    def close(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()
        self._hold.close()


class Site:
    """An application with two connections, queues of its own, and its workers."""

    def __init__(
        self, node: OneNode, folder: Path, encryption: EncryptionKeys | None = None
    ) -> None:
        self.node = node
        self.folder = folder
        name = uuid.uuid4().hex[:8]
        self.connection = self._settings(f"{name}-jobs")
        self.other = self._settings(f"{name}-other")
        self.store = FailedStore(folder / "failed.db")
        self.app = Application(
            self.connection,
            folder / "failed.db",
            connections={"other": self.other},
            encryption=encryption,
        )
        self.dispatcher = SyncDispatcher(node.client, {"other": node.client})
        self._log = folder / "log"
        self._log.touch()
        self.states = folder / "states"
        self.states.mkdir()
        self.pids: list[int] = []
        for event in (AttemptStarting, AttemptEnded, AttemptAcked, JobGaveUp):
            self.app.listen(event, self._note)

    def _settings(self, queue: str) -> ConnectionSettings:
        endpoint = self.node.endpoint
        return ConnectionSettings(
            endpoints=((endpoint.host, endpoint.port),), queue=queue, partitions=8
        )

    def _note(self, event: Any) -> None:
        self.log(type(event).__name__, {each: getattr(event, each) for each in event.__slots__})

    def log(self, name: str, value: object = None) -> None:
        """Called in a worker: append one line."""
        fd = os.open(self._log, os.O_WRONLY | os.O_APPEND)
        os.write(fd, msgspec.json.encode([name, value, time.monotonic()]) + b"\n")
        os.close(fd)

    def records(self, name: str) -> list[Any]:
        """Values logged under a name, in order."""
        lines = [json.loads(line) for line in self._log.read_bytes().splitlines()]
        return [line[1] for line in lines if line[0] == name]

    def names(self, *wanted: str) -> list[str]:
        """Which of these names were logged, in order."""
        lines = [json.loads(line) for line in self._log.read_bytes().splitlines()]
        return [line[0] for line in lines if line[0] in wanted]

    def start(self, connection: ConnectionSettings | None = None, **changes: object) -> int:
        """Start a worker on a connection, the application's own if none is given."""
        chosen = connection or self.connection
        base: dict[str, object] = {
            "queue": chosen.queue,
            "endpoints": chosen.endpoints,
            "partitions": chosen.partitions,
            "state_dir": str(self.states),
            "retry_after_s": 30.0,
            "timeout_s": 20.0,
            "block_for_s": 0.5,
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

    def stop(self) -> None:
        """Have every worker end by itself."""
        for pid in self.pids:
            os.kill(pid, signal.SIGTERM)
        statuses = [os.waitpid(pid, 0)[1] for pid in self.pids]
        self.pids.clear()
        assert set(statuses) <= {0}, statuses

    def left(self, connection: ConnectionSettings | None = None) -> int:
        """Messages and timers that are not settled."""
        queue = (connection or self.connection).queue
        return queue_size(self.node.client, queue, "jobs").total

    def run_until_drained(self, workers: int = 1, **changes: Any) -> None:
        """Start workers, wait until nothing is left, stop them."""
        for _ in range(workers):
            self.start(**changes)
        wait_for(lambda: self.left() == 0)
        self.stop()

    def close(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.store.close()
