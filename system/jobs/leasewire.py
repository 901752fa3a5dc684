"""The lease channel: JSON lines from a worker to the master that renews its leases.

A worker says which leases it holds; the master knows the worker's pid from the kernel. A lease is
forgotten before the ack that releases it is sent, so that a renewal never meets a released lease.
Where jobs would still be owed if that request got lost, it is paused instead, and forgotten after.
It also says when its pops begin to fail: a worker that lives and gets nothing is no capacity.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Final

import msgspec


class Hold(msgspec.Struct, frozen=True, tag_field="op", tag="hold"):
    """The worker holds a lease: renew it.

    Attributes:
        lease: Lease id.
        lease_s: How long the broker granted it, seconds.
        requested_ns: CLOCK_MONOTONIC when the pop was requested: it expires no earlier than
            `requested_ns` + `lease_s`.
    """

    lease: str
    lease_s: float
    requested_ns: int


class Forget(msgspec.Struct, frozen=True, tag_field="op", tag="forget"):
    """The worker is about to release a lease, or gave it up: stop renewing it."""

    lease: str


class Pause(msgspec.Struct, frozen=True, tag_field="op", tag="pause"):
    """The next request may release a lease: do not renew it, but hand it back if need be."""

    lease: str


class Shutdown(msgspec.Struct, frozen=True, tag_field="op", tag="shutdown"):
    """The worker settles everything itself: at its death send nothing."""


class Pops(msgspec.Struct, frozen=True, tag_field="op", tag="pops"):
    """Whether the worker's pops are answered; said when that changes.

    Attributes:
        failing_since_ns: CLOCK_MONOTONIC of the first pop since which none was answered, or None.
    """

    failing_since_ns: int | None


LeaseMessage = Hold | Forget | Pause | Shutdown | Pops

_PEEK: Final = int(socket.MSG_PEEK | socket.MSG_DONTWAIT)
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(LeaseMessage)


class LeaseChannelBrokenError(Exception):
    """The master's end of the lease channel is gone."""


def encode_lease_message(message: LeaseMessage) -> bytes:
    """One line, newline included."""
    return _ENCODER.encode(message) + b"\n"


def decode_lease_message(line: bytes) -> LeaseMessage:
    """Read one line.

    Raises:
        msgspec.DecodeError: It is not JSON, or (ValidationError) not a lease message.
    """
    return _DECODER.decode(line)


class LeaseChannel:
    """The worker's end. Without a path nobody renews and every call does nothing."""

    def __init__(self, path: str | Path | None) -> None:
        """Name the master's socket; `connect` opens it."""
        self._path = None if path is None else os.fspath(path)
        self._socket: socket.socket | None = None

    def connect(self) -> None:
        """Open the channel.

        Raises:
            LeaseChannelBrokenError: Nobody listens there.
        """
        if self._path is None or self._socket is not None:
            return
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            stream.connect(self._path)
        except OSError as error:
            stream.close()
            raise LeaseChannelBrokenError(f"lease channel {self._path}: {error}") from error
        self._socket = stream

    def fileno(self) -> int | None:
        """The socket's descriptor, None when there is none."""
        return None if self._socket is None else self._socket.fileno()

    def hold(self, lease: str, lease_s: float, requested_ns: int) -> None:
        """Ask for renewal of a lease.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        self._send(Hold(lease, lease_s, requested_ns))

    def forget(self, lease: str) -> None:
        """End renewal of a lease.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        self._send(Forget(lease))

    def pause(self, lease: str) -> None:
        """Suspend renewal of a lease until it is forgotten.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        self._send(Pause(lease))

    def shutdown(self) -> None:
        """Say that this worker settles what it holds itself.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        self._send(Shutdown())

    def pops(self, failing_since_ns: int | None) -> None:
        """Say since when no pop has been answered, or that one has.

        Raises:
            LeaseChannelBrokenError: The master is gone.
        """
        self._send(Pops(failing_since_ns))

    def is_broken(self) -> bool:
        """Whether the master has closed its end; asks the kernel, waits for nothing."""
        if self._socket is None:
            return False
        try:
            return self._socket.recv(1, _PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def hang_up(self) -> None:
        """End the conversation for every process that has this socket."""
        if self._socket is not None:
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close this end."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, message: LeaseMessage) -> None:
        if self._socket is None:
            return
        try:
            self._socket.sendall(encode_lease_message(message))
        except OSError as error:
            raise LeaseChannelBrokenError(f"lease channel {self._path}: {error}") from error
