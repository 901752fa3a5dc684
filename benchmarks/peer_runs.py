"""Run RQ and Celery on a private Redis (append-only file, fsync always) and drain a backlog."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .ends import Drain, read_drain, wait_for_ends

HERE = Path(__file__).resolve().parent
PEERS = HERE / "peers"
VENV = HERE.parent / ".venv-peers"


class PeersMissingError(Exception):
    """Redis or the peers' packages are not here; the message says how to get them."""


def prepare() -> None:
    """Make `.venv-peers` from the peers' lock file, anew when that has changed.

    Raises:
        PeersMissingError: There is no redis-server on this machine.
    """
    if shutil.which("redis-server") is None:
        raise PeersMissingError("redis-server is missing; on Debian: apt-get install redis-server")
    lock, stamp = (HERE / "peers.lock").read_text(), VENV / "installed.lock"
    if not stamp.exists() or stamp.read_text() != lock:
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
        subprocess.run(
            [VENV / "bin" / "pip", "install", "-q", "--require-hashes", "-r", HERE / "peers.lock"],
            check=True,
        )
        stamp.write_text(lock)


def free_port() -> int:
    """Find a loopback port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_process(directory: Path) -> Iterator[tuple[int, int]]:
    """Start Redis on loopback and yield its pid and port; stopped at the end.

    Raises:
        PeersMissingError: There is no redis-server on this machine.
    """
    if shutil.which("redis-server") is None:
        raise PeersMissingError("redis-server is missing; on Debian: apt-get install redis-server")
    port = free_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "",
         "--appendonly", "yes", "--appendfsync", "always", "--dir", str(directory)],
        stdout=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield server.pid, port
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait(timeout=30)


@contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """Start Redis on loopback and yield its URL; stopped at the end."""
    with redis_process(directory) as (_, port):
        yield f"redis://127.0.0.1:{port}/0"


def pool_command(peer: str, workers: int, url: str) -> list[str]:
    """Give the command line of a peer's own pool."""
    command = str(VENV / "bin" / peer)
    if peer == "rq":
        options = f"worker-pool bench -n {workers} -w rq.worker.SimpleWorker --logging-level ERROR"
        return [command, *options.split(), "--url", url]
    options = "-P prefork -O fair --without-gossip --without-mingle --loglevel ERROR"
    return [command, "-A", "celery_app", "worker", "-c", str(workers), *options.split()]


def drain(peer: str, jobs: int, workers: int, sleep_ms: float, scratch: Path) -> Drain:
    """Load a backlog into one peer, then start its pool and measure the drain."""
    ends = scratch / f"{peer}-ends"
    data = scratch / f"{peer}-redis"
    ends.mkdir()
    data.mkdir()
    with redis_server(data) as url:
        environment = {**os.environ, "PEER_REDIS_URL": url, "PYTHONPATH": str(PEERS)}
        subprocess.run(
            [VENV / "bin" / "python", "load.py", peer, str(jobs), str(ends), str(sleep_ms)],
            cwd=PEERS, env=environment, check=True,
        )  # fmt: skip
        pool = subprocess.Popen(
            pool_command(peer, workers, url), cwd=PEERS, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            whole = wait_for_ends(ends, jobs, deadline_s=300)
        finally:
            os.killpg(pool.pid, signal.SIGKILL)
            pool.wait()
    if not whole:
        raise TimeoutError(f"{peer} did not finish {jobs} jobs within 300 s")
    return read_drain(ends)
