"""Our own broker and supervisor, started for a measurement and stopped after it."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from atleastonce.system.client import ClientOptions, Endpoint, SyncClient

from .peer_runs import free_port

ROOT = Path(__file__).resolve().parent.parent
QUEUE = "bench"
PARTITIONS = 256
"""At 200 jobs/s of 10 ms, one in 27 finds its partition at work if there are 64."""


@dataclass
class OwnSystem:
    """Running nodes, by name, and where they answer."""

    scratch: Path
    nodes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    endpoints: dict[str, Endpoint] = field(default_factory=dict)
    configs: dict[str, Path] = field(default_factory=dict)

    def client(self, try_timeout_s: float = 5.0) -> SyncClient:
        """Return a client that knows every node."""
        options = ClientOptions(try_timeout_s=try_timeout_s, deadline_s=30.0)
        return SyncClient(tuple(self.endpoints.values()), options)

    def start_node(self, name: str) -> None:
        """Start one node on its own ports and data."""
        log = (self.scratch / f"{name}.log").open("ab")
        self.nodes[name] = subprocess.Popen(
            [sys.executable, "-m", "atleastonce.system.node", str(self.configs[name])],
            stderr=log, start_new_session=True, cwd=ROOT,
        )  # fmt: skip

    def health(self, name: str) -> dict[str, object] | None:
        """Read a node's health; None when it does not answer."""
        address = self.endpoints[name]
        try:
            url = f"http://{address.host}:{address.port}/health"
            with urllib.request.urlopen(url, timeout=1) as answer:
                body = answer.read()
        except urllib.error.HTTPError as error:
            body = error.read()
        except OSError:
            return None
        health: dict[str, object] = json.loads(body)
        return health

    def leader(self, deadline_s: float = 20.0) -> str:
        """Wait until one node says that it leads, and name it."""
        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            for name in self.nodes:
                health = self.health(name)
                raft = health.get("raft") if health else None
                if isinstance(raft, dict) and raft.get("role") == "leader":
                    return name
            time.sleep(0.02)
        raise TimeoutError(f"no leader within {deadline_s:g} s; logs are in {self.scratch}")


@contextmanager
def own_nodes(scratch: Path, count: int) -> Iterator[OwnSystem]:
    """Start a cluster with default timeouts on loopback; stopped at the end."""
    system = OwnSystem(scratch)
    token = scratch / "token"
    token.write_text(secrets.token_hex(16))
    token.chmod(0o600)
    names = [f"n{number + 1}" for number in range(count)]
    peers = {name: ("127.0.0.1", free_port()) for name in names}
    for name in names:
        system.endpoints[name] = Endpoint("127.0.0.1", free_port())
        config = {
            "node": name,
            "data_dir": str(scratch / name),
            "client": [system.endpoints[name].host, system.endpoints[name].port],
            "peers": peers,
            "token_file": str(token),
            "die_with_parent": True,
        }
        system.configs[name] = scratch / f"{name}.json"
        system.configs[name].write_text(json.dumps(config))
    try:
        for name in names:
            system.start_node(name)
        system.leader()
        yield system
    finally:
        for process in system.nodes.values():
            process.send_signal(signal.SIGTERM)
        for process in system.nodes.values():
            try:
                process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def own_workers(
    system: OwnSystem, app: str, workers: int, *, renewal: bool = True, **settings: object
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a supervisor with workers of `app`; stopped gracefully at the end.

    Args:
        system: The nodes they pop from.
        app: `module:attribute`.
        workers: How many.
        renewal: Whether the master renews their leases.
        settings: More of each worker's settings.
    """
    state = system.scratch / "supervisor"
    worker: Mapping[str, object] = {
        "queue": QUEUE,
        "endpoints": [[at.host, at.port] for at in system.endpoints.values()],
        "partitions": PARTITIONS,
        "prefetch": 4,
        "ack_async": True,
        "pop_ahead": True,
        "retry_after_s": 30.0,
        "timeout_s": 20.0,
        "block_for_s": 5.0,
        "failed_store": str(system.scratch / "failed.db"),
        **settings,
    }
    config = {
        "app": app,
        "workers": workers,
        "prefork": True,
        "worker": worker,
        "state_dir": str(state),
        "shutdown_grace_s": 25.0,
        # A benchmark that kills workers on purpose is no crash loop.
        "restart_backoff_s": 0.2,
        "stable_after_s": 1.0,
        **({} if renewal else {"control": {"lease_renewal": False}}),
    }
    path = system.scratch / "supervisor.json"
    path.write_text(json.dumps(config))
    with (system.scratch / "supervisor.log").open("ab") as log:
        master = subprocess.Popen(
            [sys.executable, "-m", "atleastonce.system.supervisor", str(path)],
            stderr=log, start_new_session=True, cwd=ROOT,
            env={**os.environ, "BENCH_ENDS": str(system.scratch / "ends")},
        )  # fmt: skip
    try:
        yield master
    finally:
        master.send_signal(signal.SIGTERM)
        try:
            master.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(master.pid, signal.SIGKILL)
            master.wait()


def wait_for_workers(system: OwnSystem, workers: int, deadline_s: float = 60.0) -> list[int]:
    """Wait until the supervisor's status names `workers` of them; return their pids."""
    path = system.scratch / "supervisor" / "status.json"
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if path.exists():
            found = json.loads(path.read_bytes())["workers"]
            if len(found) >= workers:
                return [int(worker["pid"]) for worker in found]
        time.sleep(0.05)
    raise TimeoutError(f"{workers} workers were not ready within {deadline_s:g} s")
