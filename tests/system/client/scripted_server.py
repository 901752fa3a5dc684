"""A server that answers as a test scripts it, on threads, over real sockets."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from atleastonce.system.client import Endpoint

DEADLINE_S = 60.0
"""For what has to happen at all, however slow the machine: only a test that fails waits it out."""


@dataclass(frozen=True)
class Asked:
    """One request as it arrived; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes
    connection: int

    @property
    def request_id(self) -> str:
        return self.headers["x-request-id"]


@dataclass(frozen=True)
class Reply:
    """What to answer; `pieces` splits the bytes, `close` ends the connection after it."""

    status: int = 200
    body: bytes = b"{}"
    headers: dict[str, str] = field(default_factory=dict)
    pieces: int = 1
    close: bool = False

    def data(self) -> bytes:
        lines = [f"HTTP/1.1 {self.status} X"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        if self.status != 204:
            lines += ["Content-Type: application/json", f"Content-Length: {len(self.body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + self.body


@dataclass(frozen=True)
class Drop:
    """Close the connection without an answer, after `partial` bytes."""

    partial: bytes = b""


@dataclass(frozen=True)
class Hang:
    """Answer nothing until the client goes; then answer `last` if there is one."""

    last: Reply | None = None


Script = Callable[[Asked], Reply | Drop | Hang]


class ScriptedServer:
    """Listens at once; `close` ends it and every connection."""

    def __init__(self, script: Script, tls: ssl.SSLContext | None = None) -> None:
        self.script = script
        self._tls = tls
        self.asked: list[Asked] = []
        self._changed = threading.Condition()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.endpoint = Endpoint("127.0.0.1", self._listener.getsockname()[1])
        self.connections = 0
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def wait_for(self, condition: Callable[[], bool]) -> None:
        """Wait until a condition about `asked` holds."""
        until_s = time.monotonic() + DEADLINE_S
        with self._changed:
            while not condition():
                remaining_s = until_s - time.monotonic()
                assert remaining_s > 0, f"never happened; asked: {self.asked}"
                self._changed.wait(remaining_s)

    def drop_connections(self) -> None:
        """Close every connection, as a restarted node does."""
        with self._changed:
            opened, self._open = self._open, []
        for connection in opened:
            with suppress(OSError):  # The client may have gone first.
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop_connections()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._changed:
                self.connections += 1
                number = self.connections
                self._open.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, number), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        if self._tls is None:
            self._converse(connection, connection, number)
            return
        try:
            secured = self._tls.wrap_socket(connection, server_side=True)
        except OSError:
            connection.close()
            return
        self._converse(connection, secured, number)

    def _converse(self, raw: socket.socket, connection: socket.socket, number: int) -> None:
        stream = connection.makefile("rb")
        try:
            while self._serve_one(connection, stream.readline, stream.read, number):
                pass
        except OSError:
            pass
        finally:
            with self._changed:
                if raw in self._open:
                    self._open.remove(raw)
            stream.close()
            connection.close()

    def _serve_one(
        self,
        connection: socket.socket,
        readline: Callable[[], bytes],
        read: Callable[[int], bytes],
        number: int,
    ) -> bool:
        line = readline()
        if not line.startswith((b"GET ", b"POST ", b"PUT ", b"DELETE ")):
            return False
        method, target, _ = line.decode().split(" ")
        headers: dict[str, str] = {}
        while (line := readline()) not in (b"\r\n", b""):
            name, value = line.decode().split(":", 1)
            headers[name.lower()] = value.strip()
        body = read(int(headers.get("content-length", "0")))
        asked = Asked(method, target, headers, body, number)
        with self._changed:
            self.asked.append(asked)
            self._changed.notify_all()
        action = self.script(asked)
        if isinstance(action, Drop):
            connection.sendall(action.partial)
            return False
        if isinstance(action, Hang):
            readline()
            if action.last is not None:
                connection.sendall(action.last.data())
            return False
        data = action.data()
        size = max(1, -(-len(data) // action.pieces))
        for start in range(0, len(data), size):
            connection.sendall(data[start : start + size])
        return not action.close
