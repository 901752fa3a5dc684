"""One blocking connection to one node."""

from __future__ import annotations

import select
import socket
import time

from .records import Endpoint
from .wire import ResponseParser


class Connection:
    """A socket that never blocks by itself, and the parser of what comes out of it."""

    __slots__ = ("parser", "poll", "socket")

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connected socket."""
        self.socket = sock
        self.parser = ResponseParser()
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)

    @classmethod
    def open(cls, endpoint: Endpoint, timeout_s: float) -> Connection:
        """Connect.

        Raises:
            OSError: Nobody listens there, or nobody answered in time.
        """
        sock = socket.create_connection((endpoint.host, endpoint.port), max(0.001, timeout_s))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        return cls(sock)

    def is_closed(self) -> bool:
        """Whether the node has closed it, or sent what nobody asked for."""
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def send_all(self, data: bytes, until_s: float) -> None:
        """Give all bytes to the kernel.

        Args:
            data: What to send.
            until_s: Time of CLOCK_MONOTONIC to give up at.

        Raises:
            TimeoutError: The node does not take them.
            OSError: The connection is broken.
        """
        view = memoryview(data)
        while view:
            try:
                view = view[self.socket.send(view) :]
            except BlockingIOError:
                timeout_s = until_s - time.monotonic()
                if timeout_s <= 0 or not select.select([], [self.socket], [], timeout_s)[1]:
                    raise TimeoutError("request not taken in time") from None

    def close(self) -> None:
        """Close it."""
        self.socket.close()
