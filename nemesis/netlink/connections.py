"""Destroying TCP connections from outside, as `ss -K` does (`sock_diag(7)`, SOCK_DESTROY)."""

from __future__ import annotations

import ipaddress
import socket
import struct
from dataclasses import dataclass
from typing import Final

from .messages import ACK, DUMP, NETLINK_SOCK_DIAG, REQUEST, Message, Netlink

_BY_FAMILY: Final = 20
_DESTROY: Final = 21
_ESTABLISHED: Final = 1
# family, protocol, extensions, states
_REQUEST: Final = struct.Struct("=BBBxI")
# source port, destination port, source, destination, interface, two halves of the cookie
_SOCKET: Final = struct.Struct(">HH16s16s4sII")
_SOCKET_AT: Final = 4


@dataclass(frozen=True, slots=True)
class Connection:
    """One end of an established TCP connection.

    Attributes:
        local: Address and port here.
        remote: Address and port there.
        identity: What the kernel calls it.
    """

    local: tuple[str, int]
    remote: tuple[str, int]
    identity: bytes


class Connections:
    """The IPv4 connections of the network namespace of the calling thread.

    Raises:
        OSError: From each method: the kernel refuses.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_SOCK_DIAG)

    def close(self) -> None:
        """Close the socket."""
        self._netlink.close()

    def established(self) -> list[Connection]:
        """List the established connections."""
        body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED)
        body += bytes(_SOCKET.size)
        answers = self._netlink.ask([Message(_BY_FAMILY, REQUEST | DUMP, body)])
        return [_read(answer.body) for answer in answers]

    def destroy(self, connection: Connection) -> bool:
        """Reset a connection: its owner gets ECONNABORTED and the other end a reset.

        Returns:
            Whether it was still there.
        """
        body = _REQUEST.pack(socket.AF_INET, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED)
        try:
            self._netlink.ask([Message(_DESTROY, REQUEST | ACK, body + connection.identity)])
        except FileNotFoundError:
            return False
        return True


def _read(body: bytes) -> Connection:
    identity = body[_SOCKET_AT : _SOCKET_AT + _SOCKET.size]
    here, there, source, target, _, _, _ = _SOCKET.unpack(identity)
    return Connection(
        (str(ipaddress.IPv4Address(source[:4])), here),
        (str(ipaddress.IPv4Address(target[:4])), there),
        identity,
    )
