"""A dry run of the worker's loop, for the process that workers are forked from.

What the loop makes once (caches, tables of types, the interpreter's specialised bytecode) it makes
here, so that all workers share it: a page that nobody writes to stays one page for all of them. The
broker is a socket on the loopback interface, answered by this very process whenever the loop waits.
"""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from ..client import BrokerError, ClientOptions, Endpoint, SyncClient
from ..client.connection import Connection
from .application import Application
from .context import JobContext
from .leasewire import LeaseChannelBrokenError
from .payload import Envelope, JobBody, encode_data
from .session import WorkerSession
from .settings import WorkerSettings
from .signals import WorkerSignals
from .worker import consume

JOBS: Final = 64
"""Enough for the interpreter to have specialised what each job runs."""
_BATCH: Final = 4
_TRY_S: Final = 1.0
_NAME: Final = "rehearsal"
_REQUEST_BYTES: Final = 1 << 16


def rehearse(folder: Path) -> bool:
    """Run a few jobs that do nothing against a broker that only pretends; leave nothing open.

    Args:
        folder: Made for this and removed; what an earlier attempt left in it is lost.

    Returns:
        Whether that went to its end. If not (no loopback interface, no space), workers lack nothing
        but shared pages.
    """
    with suppress(OSError, BrokerError, LeaseChannelBrokenError):
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            with _Broker() as broker:
                return _run(folder, broker)
        finally:
            for path in folder.iterdir():
                path.unlink()
            folder.rmdir()
    return False


def _run(folder: Path, broker: _Broker) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as master:
        # The kernel chooses a name; a path might be too long for a socket.
        master.bind("")
        master.listen()
        signals = WorkerSignals()
        settings = _settings(folder, broker.endpoint, master.getsockname().decode())
        session = WorkerSession(_application(), settings, signals)
        try:
            options = ClientOptions(_TRY_S, _TRY_S)
            session.acks = _Client(broker, options, signals.wake_fd)
            session.pops = _Client(broker, options, signals.wake_fd)
            session.channel.connect()
            consume(session)
        finally:
            session.close()
            signals.restore()
    return session.handled == JOBS


def _settings(folder: Path, endpoint: Endpoint, lease_socket: str) -> WorkerSettings:
    return WorkerSettings(
        queue=_NAME,
        endpoints=((endpoint.host, endpoint.port),),
        state_dir=str(folder),
        lease_socket=lease_socket,
        prefetch=_BATCH,
        ack_async=True,
        pop_ahead=True,
        block_for_s=_TRY_S,
        timeout_s=0.0,
        max_jobs=JOBS,
        try_timeout_s=_TRY_S,
        deadline_s=_TRY_S,
        settle_timeout_s=_TRY_S,
    )


def _application() -> Application:
    app = Application()
    app.job(name=_NAME)(_do_nothing)
    return app


def _do_nothing(_context: JobContext, _payload: Any) -> None:
    """The job."""


class _Client(SyncClient):
    """A client whose broker does its work while the client waits for it."""

    def __init__(self, broker: _Broker, options: ClientOptions, interrupt_fd: int) -> None:
        super().__init__((broker.endpoint,), options, interrupt_fd=interrupt_fd)
        self._broker = broker

    def _wait(self, connection: Connection, until_s: float, interruptible: bool) -> bool:
        self._broker.answer()
        return super()._wait(connection, until_s, interruptible)


class _Broker:
    """Hands out `JOBS` jobs in batches, then nothing; takes every ack."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setblocking(False)
        self.endpoint = Endpoint(*self._listener.getsockname())
        self._connections: list[socket.socket] = []
        self._given = 0

    def __enter__(self) -> _Broker:
        return self

    def __exit__(self, *_error: object) -> None:
        for each in (self._listener, *self._connections):
            each.close()

    def answer(self) -> None:
        """Answer every request that has arrived."""
        while select.select([self._listener], [], [], 0)[0]:
            self._connections.append(self._listener.accept()[0])
        for connection in select.select(self._connections, [], [], 0)[0]:
            request = connection.recv(_REQUEST_BYTES)
            if request:
                connection.sendall(self._answer_to(request))

    def _answer_to(self, request: bytes) -> bytes:
        if request.startswith(b"GET "):
            body = self._pop()
        elif b"/transaction" in request:
            body = b'{"success":true}'
        else:
            body = b'[{"index":0,"success":true}]'
        status = "200 OK" if body else "204 No Content"
        head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\n"
        return f"{head}content-length: {len(body)}\r\n\r\n".encode() + body

    def _pop(self) -> bytes:
        if self._given >= JOBS:
            return b""
        lease = os.urandom(16).hex()
        messages = []
        for number in range(self._given, self._given + _BATCH):
            body = JobBody(
                job=_NAME, id=f"{number:036d}", data=encode_data([number]), partition="p-0000"
            )
            messages.append(
                {
                    "id": body.id,
                    "transactionId": body.id,
                    "data": Envelope(body),
                    "partitionId": f"{number % 2:036d}",
                    "partition": "p-0000",
                    "leaseId": lease,
                    "deliveryAttempt": 1,
                    "offset": number,
                    "createdAt": "2020-01-01T00:00:00.000000Z",
                }
            )
        self._given += _BATCH
        return msgspec.json.encode({"success": True, "leaseId": lease, "messages": messages})
