"""A broker for tests: the real machine and routes behind a plain threaded server, one node.

A test may script faults request by request: see `Fault`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from atleastonce.system.broker.commands import TakeBack
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.broker.replies import PopReply
from atleastonce.system.client import Endpoint
from atleastonce.system.http.routes import (
    Answer,
    PopRequest,
    ReadRequest,
    Write,
    empty_pop_answer,
    error_answer,
    render,
    route,
)

DEADLINE_S = 60.0
"""For what has to happen at all, however slow the machine: only a test that fails waits it out."""
GROUP = "jobs"
QUEUE = "q"


class Fault(Enum):
    """What happens to a request."""

    LOSE_REQUEST = auto()
    """The connection breaks before anything is applied."""
    LOSE_ANSWER = auto()
    """It is applied, then the connection breaks."""
    HOLD = auto()
    """It is held until the test releases it, then served."""
    HOLD_ANSWER = auto()
    """It is applied; its answer is held until the test releases it."""
    REFUSE = auto()
    """503, nothing applied."""
    REJECT = auto()
    """An ack is answered as under a lost lease; nothing is applied."""


@dataclass(frozen=True)
class Asked:
    """One request, in order of arrival."""

    method: str
    target: str
    request_id: str
    body: Any
    t_ns: int

    @property
    def kind(self) -> str:
        """`push`, `pop`, `ack`, `transaction`, …"""
        return self.target.split("?")[0].removeprefix("/api/v1/").split("/")[0]


class MachineNode:
    """The machine behind its routes, without a server."""

    def __init__(self) -> None:
        self.ahead_us = 0
        self.machine = Machine()
        self._planner = Planner(os.urandom)
        self._index = 0

    def now_us(self) -> int:
        return time.time_ns() // 1000 + self.ahead_us

    def expire_leases(self, seconds: float = 100.0) -> None:
        """Move the clock past every lease; timers fire on the way."""
        self.advance(round(seconds * 1e6))

    def advance(self, duration_us: int) -> None:
        """Move the clock; timers that are due then fire."""
        self.ahead_us += duration_us
        while (fire := self.machine.due_timers(self.now_us())) is not None:
            self.apply(fire)

    def apply(self, command: Any) -> Any:
        self._index += 1
        data = self._planner.plan(self.now_us(), [command])
        return self.machine.apply(self._index, data)[0]

    def serve(self, method: str, target: str, body: bytes, request_id: str) -> Answer:
        """Answer a request; a pop does not wait."""
        request = route(method, target, {}, body, request_id)
        if isinstance(request, Answer):
            return request
        if isinstance(request, PopRequest):
            if not self.machine.can_pop(request.command, self.now_us()):
                return empty_pop_answer()
            reply = self.apply(request.command)
            return render(request, reply) if reply.runs else empty_pop_answer()
        if isinstance(request, Write):
            return render(request, self.apply(request.command))
        assert isinstance(request, ReadRequest), f"{request} is not served here"
        return render(request, self.machine.read(request.query, self.now_us()))


class MachineBroker:
    """One node's worth of broker; `close` ends it."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.fault: Callable[[Asked], Fault | None] = lambda _: None
        self._node = MachineNode()
        self._changed = threading.Condition()
        self._released = False
        self._closing = False
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.broker = self
        self.endpoint = Endpoint("127.0.0.1", int(self._server.server_address[1]))
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True),
            threading.Thread(target=self._tick, daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition holds; it is asked whenever something happens here."""
        until_s = time.monotonic() + DEADLINE_S
        with self._changed:
            while not condition():
                remaining_s = until_s - time.monotonic()
                assert remaining_s > 0, f"never happened; asked: {self.asked[-20:]}"
                self._changed.wait(min(remaining_s, 0.02))

    def release(self) -> None:
        """Serve what is held."""
        with self._changed:
            self._released = True
            self._changed.notify_all()

    def kinds(self) -> list[str]:
        """Kinds of all requests but pops."""
        return [asked.kind for asked in self.asked if asked.kind != "pop"]

    def ask(self, method: str, target: str, body: object = None) -> Any:
        """Ask the machine directly; returns the decoded answer."""
        data = b"" if body is None else json.dumps(body).encode()
        with self._changed:
            answer = self._node.serve(method, target, data, os.urandom(8).hex())
        return json.loads(answer.body) if answer.body else None

    def push_job(
        self,
        job_id: str,
        job: str = "work",
        *,
        partition: str = "p-0000",
        data: object = None,
        **own: Any,
    ) -> None:
        """Queue a job."""
        body = {"job": job, "id": job_id, "partition": partition, "data": data, **own}
        self.push_raw(job_id, {"_job": body}, partition)

    def push_raw(self, txn: str, payload: object, partition: str = "p-0000") -> None:
        """Queue any message."""
        item = {"queue": QUEUE, "partition": partition, "transactionId": txn, "payload": payload}
        (result,) = self.ask("POST", "/api/v1/push", {"items": [item]})
        assert result["status"] == "queued", result

    def pop_all(self) -> list[tuple[str, int]]:
        """Claim what is ready: (job id, attempt number) of each."""
        target = f"/api/v1/pop/queue/{QUEUE}?consumerGroup={GROUP}&subscriptionMode=all"
        found = self.ask("GET", f"{target}&batch=100&partitions=64&leaseSeconds=60")
        rows = found["messages"] if found else []
        bodies = [(row["data"]["_job"], row["deliveryAttempt"]) for row in rows]
        return [(body["id"], body.get("attempts", 0) + count) for body, count in bodies]

    def pending(self) -> int:
        """Messages that are not settled."""
        found = self.ask("GET", f"/api/v1/resources/queues/{QUEUE}/depth?group={GROUP}")
        return int(found.get("pending", 0))

    def dead_letters(self) -> list[tuple[str, str]]:
        """(transaction id, error) of each."""
        found = self.ask("GET", f"/api/v1/dlq?queue={QUEUE}&consumerGroup={GROUP}")
        return [(row["transactionId"], row["errorMessage"]) for row in found["messages"]]

    def timers(self) -> int:
        """Timers that have not fired."""
        found = self.ask("GET", f"/api/v1/timers/{QUEUE}?mode=count&prefix=")
        return int(found["count"])

    def expire_leases(self, seconds: float = 100.0) -> None:
        """Move the broker's clock past every lease."""
        with self._changed:
            self._node.expire_leases(seconds)

    def serve(self, handler: _Handler, body: bytes) -> Answer | None:
        """Serve one request; None breaks the connection."""
        asked = Asked(
            handler.command,
            handler.path,
            handler.headers["x-request-id"],
            json.loads(body) if body else None,
            time.monotonic_ns(),
        )
        with self._changed:
            self.asked.append(asked)
            self._changed.notify_all()
            fault = self.fault(asked)
            if fault is Fault.LOSE_REQUEST:
                return None
            if fault is Fault.REFUSE:
                return error_answer(503, "no_leader", "no leader, connection kept")
            if fault is Fault.REJECT:
                row = {"transactionId": "", "success": False, "error": "invalid or expired lease"}
                return Answer(200, json.dumps([row]).encode())
            if fault is Fault.HOLD:
                self._changed.wait_for(lambda: self._released or self._closing, DEADLINE_S)
            answer = self._serve(asked, body, handler.connection)
            self._changed.notify_all()
            if fault is Fault.HOLD_ANSWER:
                self._changed.wait_for(lambda: self._released or self._closing, DEADLINE_S)
        return None if fault is Fault.LOSE_ANSWER else answer

    def _serve(self, asked: Asked, body: bytes, peer: socket.socket) -> Answer | None:
        request = route(asked.method, asked.target, {}, body, asked.request_id)
        if not isinstance(request, PopRequest):
            return self._node.serve(asked.method, asked.target, body, asked.request_id)
        until_s = time.monotonic() + request.wait_ms / 1000
        while not _is_gone(peer):
            if self._node.machine.can_pop(request.command, self._node.now_us()):
                reply = self._node.apply(request.command)
                assert isinstance(reply, PopReply)
                if reply.runs and _is_gone(peer):
                    self._node.apply(TakeBack(reply.lease_id))
                    return None
                if reply.runs:
                    return render(request, reply)
            remaining_s = until_s - time.monotonic()
            if remaining_s <= 0 or self._closing:
                return empty_pop_answer()
            self._changed.wait(min(remaining_s, 0.005))
        return None

    def _tick(self) -> None:
        with self._changed:
            while not self._closing:
                due = self._node.machine.due_timers(self._node.now_us())
                if due is not None:
                    self._node.apply(due)
                    self._changed.notify_all()
                self._changed.wait(0.01)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    broker: MachineBroker

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that died is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Tests are quiet."""

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        answer = self.server.broker.serve(self, body)
        if answer is None:
            self.close_connection = True
            return
        self.send_response(answer.status)
        if answer.status != 204:
            self.send_header("Content-Type", answer.content_type)
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)

    do_POST = do_GET  # noqa: N815
    do_DELETE = do_GET  # noqa: N815


def _is_gone(peer: socket.socket) -> bool:
    if not select.select([peer], [], [], 0)[0]:
        return False
    try:
        return peer.recv(1, socket.MSG_PEEK) == b""
    except OSError:
        return True
