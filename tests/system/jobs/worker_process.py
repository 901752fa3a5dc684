"""A worker in a process of its own, and what it told its application."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from atleastonce.system.jobs import (
    Application,
    AttemptAcked,
    AttemptEnded,
    AttemptStarting,
    BatchReceived,
    JobContext,
    JobGaveUp,
    WorkerSettings,
    run_worker,
)
from atleastonce.system.jobs.leasewire import LeaseMessage, decode_lease_message

from .machine_broker import GROUP, QUEUE, MachineBroker

LEASE_S = 40.0
"""No test may lose a lease, or send again, because its machine stood still for seconds."""


class Gate:
    """Lets handlers of another process wait for the test."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    def wait(self) -> None:
        """In a handler: wait for one `open`."""
        os.read(self._reader, 1)

    def open(self, times: int = 1) -> None:
        os.write(self._writer, b"x" * times)

    def close(self) -> None:
        os.close(self._reader)
        os.close(self._writer)


class Bench:
    """An application, settings and at most a few workers on one broker."""

    def __init__(self, folder: Path, broker: MachineBroker) -> None:
        self.folder = folder
        self.broker = broker
        self.gate = Gate()
        self.app = Application(failed_store=folder / "failed.db")
        self.states = folder / "states"
        self.states.mkdir()
        self._log = folder / "log"
        self._log.touch()
        self.pids: list[int] = []
        self.changes: dict[str, object] = {}
        self.channel: socket.socket | None = None
        self._listener: socket.socket | None = None
        self._lines = b""
        for event in (BatchReceived, AttemptStarting, AttemptEnded, AttemptAcked, JobGaveUp):
            self.app.listen(event, self._note)
        self._add_jobs()

    def _add_jobs(self) -> None:
        @self.app.job("work")
        def work(context: JobContext, payload: object) -> None:
            self.log("worked", context.job_id)

        @self.app.job("gated")
        def gated(context: JobContext, payload: object) -> None:
            self.gate.wait()

        @self.app.job("throws", failed=lambda payload, error: self.log("hook", error))
        def throws(context: JobContext, payload: object) -> None:
            raise ValueError(payload)

    def _note(self, event: Any) -> None:
        name = type(event).__name__
        fields = {field: getattr(event, field) for field in event.__slots__}
        self.log(name, fields)

    def log(self, name: str, value: object) -> None:
        """Called in a worker: append one line."""
        line = msgspec.json.encode([name, time.monotonic_ns(), value]) + b"\n"
        fd = os.open(self._log, os.O_WRONLY | os.O_APPEND)
        os.write(fd, line)
        os.close(fd)

    def settings(self) -> WorkerSettings:
        endpoint = self.broker.endpoint
        base: dict[str, object] = {
            "queue": QUEUE,
            "consumer_group": GROUP,
            "endpoints": ((endpoint.host, endpoint.port),),
            "state_dir": str(self.states),
            "partitions": 16,
            "block_for_s": 1.0,
            "retry_after_s": LEASE_S,
            "timeout_s": 5.0,
            "deadline_s": LEASE_S,
            **self.changes,
        }
        return msgspec.convert(base, WorkerSettings)

    def start(self, **changes: object) -> int:
        """Start a worker; returns its pid."""
        self.changes.update(changes)
        settings = self.settings()
        pid = os.fork()
        if pid == 0:
            status = 70
            try:
                status = run_worker(self.app, settings)
            finally:
                os._exit(status)
        self.pids.append(pid)
        return pid

    def wait_exit(self, pid: int) -> int:
        """Wait for a worker to end; returns its raw wait status."""
        statuses: list[int] = []

        def ended() -> bool:
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                statuses.append(status)
            return bool(found)

        self.broker.wait_for(ended)
        self.pids.remove(pid)
        return statuses[0]

    def stop(self, pid: int) -> int:
        """Ask a worker to stop and wait; returns its raw wait status."""
        os.kill(pid, signal.SIGTERM)
        return self.wait_exit(pid)

    def records(self, name: str | None = None) -> list[Any]:
        """Values that workers logged under a name; all names and values without one."""
        lines = [json.loads(line) for line in self._log.read_bytes().split(b"\n")[:-1]]
        if name is None:
            return [line[0] for line in lines]
        return [line[2] for line in lines if line[0] == name]

    def times_ns(self, name: str) -> list[int]:
        """CLOCK_MONOTONIC of every record of a name."""
        lines = [json.loads(line) for line in self._log.read_bytes().split(b"\n")[:-1]]
        return [line[1] for line in lines if line[0] == name]

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds."""
        self.broker.wait_for(condition)

    def wait_for_records(self, name: str, count: int) -> list[Any]:
        """Wait until so many records of a name are there; returns them."""
        self.wait_for(lambda: len(self.records(name)) >= count)
        return self.records(name)

    def listen(self) -> None:
        """Be the master that renews leases."""
        path = self.folder / "lease"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self.changes["lease_socket"] = str(path)

    def accept(self) -> None:
        """Take the worker's lease channel."""
        assert self._listener is not None, "listen first"
        self.channel, _ = self._listener.accept()
        self.channel.setblocking(False)

    def lease_messages(self) -> list[LeaseMessage]:
        """All that came over the lease channel."""
        assert self.channel is not None, "accept first"
        try:
            while data := self.channel.recv(1 << 16):
                self._lines += data
        except BlockingIOError:
            pass
        return [decode_lease_message(line) for line in self._lines.splitlines()]

    def close(self) -> None:
        for pid in self.pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        self.gate.close()
        for opened in (self.channel, self._listener):
            if opened is not None:
                opened.close()
