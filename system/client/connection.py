"""One blocking connection to one node."""

from __future__ import annotations

import select
import socket
import ssl
import time
from typing import Final

from .records import Endpoint
from .wire import ResponseParser

_PEEK: Final = int(socket.MSG_PEEK)


class Connection:
    """A socket that never blocks by itself, and the parser of what comes out of it.

    TLS, where it is spoken, stays inside: it blocks only while it is agreed on.
    """

    __slots__ = ("parser", "poll", "socket")

    def __init__(self, sock: socket.socket) -> None:
        """Take over a connected socket."""
        self.socket = sock
        self.parser = ResponseParser()
        self.poll = select.poll()
        self.poll.register(sock, select.POLLIN)

    @classmethod
    def open(
        cls, endpoint: Endpoint, timeout_s: float, tls: ssl.SSLContext | None = None
    ) -> Connection:
        """Connect, and agree on keys if TLS is spoken.

        Raises:
            OSError: Nobody listens there, or nobody answered in time, or with a certificate that
                is not trusted.
        """
        until_s = time.monotonic() + timeout_s
        sock = socket.create_connection((endpoint.host, endpoint.port), max(0.001, timeout_s))
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls is not None:
                sock.settimeout(max(0.001, until_s - time.monotonic()))
                sock = tls.wrap_socket(sock, server_hostname=endpoint.host)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    def receive(self, size: int) -> bytes:
        """What has arrived; nothing at the end.

        Raises:
            BlockingIOError: Nothing yet.
            OSError: The connection is broken.
        """
        try:
            return self.socket.recv(size)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLEOFError:
            return b""

    def end_sending(self) -> None:
        """Let the node see the end of what is sent, and go on receiving.

        Raises:
            OSError: The connection is broken.
        """
        # A socket with TLS would drop its keys here, and with them the answer.
        socket.socket.shutdown(self.socket, socket.SHUT_WR)

    def is_closed(self) -> bool:
        """Whether the node has closed it, or sent what nobody asked for."""
        try:
            if isinstance(self.socket, ssl.SSLSocket):
                self.receive(1)  # It cannot peek; a byte that nobody asked for ends it anyway.
            else:
                self.socket.recv(1, _PEEK)
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
        view: memoryview | bytes = data
        while view:
            try:
                sent = self.socket.send(view)
                if sent == len(view):
                    return
                view = memoryview(view)[sent:]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._wait_until(until_s, select.POLLOUT)
            except ssl.SSLWantReadError:
                self._wait_until(until_s, select.POLLIN)

    def _wait_until(self, until_s: float, event: int) -> None:
        timeout_s = until_s - time.monotonic()
        poll = select.poll()
        poll.register(self.socket, event)
        if timeout_s <= 0 or not poll.poll(timeout_s * 1000):
            raise TimeoutError("request not taken in time")

    def close(self) -> None:
        """Close it."""
        self.socket.close()
