"""Making bridges and pairs of virtual cables, and giving interfaces addresses (`rtnetlink(7)`)."""

from __future__ import annotations

import ctypes
import fcntl
import ipaddress
import os
import socket
import struct
from pathlib import Path
from typing import Final

from .messages import (
    ACK,
    CREATE,
    EXCL,
    NETLINK_ROUTE,
    REQUEST,
    Message,
    Netlink,
    attribute,
    nested,
    number,
    text,
)

_NEW_LINK: Final = 16
_DELETE_LINK: Final = 17
_NEW_ADDRESS: Final = 20
_MAKE: Final = REQUEST | ACK | CREATE | EXCL
_CHANGE: Final = REQUEST | ACK
_IFLA_ADDRESS: Final = 1
_IFLA_IFNAME: Final = 3
_IFLA_MTU: Final = 4
_IFLA_MASTER: Final = 10
_IFLA_LINKINFO: Final = 18
_IFLA_NET_NS_FD: Final = 28
_INFO_KIND: Final = 1
_INFO_DATA: Final = 2
_VETH_PEER: Final = 1
_BRIDGE_FORWARD_DELAY: Final = 1
_BRIDGE_MULTICAST_SNOOPING: Final = 23
_IFA_ADDRESS: Final = 1
_IFA_LOCAL: Final = 2
_IFF_UP: Final = 1
_SIOCETHTOOL: Final = 0x8946
# ETHTOOL_STXCSUM, _SSG, _STSO, _SGSO, _SGRO: with one of them on, a frame may have no checksum yet.
_OFFLOADS: Final = (0x17, 0x19, 0x1F, 0x24, 0x2C)


def _header(index: int = 0, flags: int = 0, change: int = 0) -> bytes:
    return struct.pack("=BxHiII", socket.AF_UNSPEC, 0, index, flags, change)


class Interfaces:
    """The interfaces of the network namespace of the calling thread.

    Raises:
        OSError: From each method: the kernel refuses.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETLINK_ROUTE)

    def close(self) -> None:
        """Close the socket; what was made stays."""
        self._netlink.close()

    def _change(self, kind: int, flags: int, body: bytes) -> None:
        self._netlink.ask([Message(kind, flags, body)])

    def add_bridge(self, name: str) -> None:
        """Make a bridge that forwards at once and learns nothing about multicast."""
        data = nested(
            _INFO_DATA,
            number(_BRIDGE_FORWARD_DELAY, 0),
            attribute(_BRIDGE_MULTICAST_SNOOPING, b"\0"),
        )
        info = nested(_IFLA_LINKINFO, text(_INFO_KIND, "bridge"), data)
        self._change(_NEW_LINK, _MAKE, _header() + text(_IFLA_IFNAME, name) + info)

    def add_cable(
        self, here: str, there: str, hardware_address: bytes, namespace: int, mtu: int, index: int
    ) -> None:
        """Make a pair of interfaces: `here` in this namespace, `there` in another one.

        Args:
            here: Name of this end.
            there: Name of the other end.
            hardware_address: Six bytes, of the other end.
            namespace: A descriptor of the other end's network namespace.
            mtu: Of both ends, bytes.
            index: Of this end. It must not be the index of the other end there, or the kernel
                takes them for one interface and sees the cable come up a second late.
        """
        peer = attribute(
            _VETH_PEER,
            _header()
            + text(_IFLA_IFNAME, there)
            + number(_IFLA_MTU, mtu)
            + attribute(_IFLA_ADDRESS, hardware_address)
            + number(_IFLA_NET_NS_FD, namespace),
        )
        info = nested(_IFLA_LINKINFO, text(_INFO_KIND, "veth"), nested(_INFO_DATA, peer))
        body = _header(index) + text(_IFLA_IFNAME, here) + number(_IFLA_MTU, mtu) + info
        self._change(_NEW_LINK, _MAKE, body)

    def plug_in(self, port: str, bridge: str) -> None:
        """Make an interface a port of a bridge, and bring it up."""
        master = number(_IFLA_MASTER, socket.if_nametoindex(bridge))
        header = _header(socket.if_nametoindex(port), _IFF_UP, _IFF_UP)
        self._change(_NEW_LINK, _CHANGE, header + master)

    def bring_up(self, name: str) -> None:
        """Bring an interface up."""
        self._change(_NEW_LINK, _CHANGE, _header(socket.if_nametoindex(name), _IFF_UP, _IFF_UP))

    def remove(self, name: str) -> None:
        """Remove an interface, and with it the other end of its cable."""
        self._change(_DELETE_LINK, _CHANGE, _header(socket.if_nametoindex(name)))

    def add_address(self, name: str, address: str, prefix: int) -> None:
        """Give an interface an IPv4 address."""
        packed = ipaddress.IPv4Address(address).packed
        header = struct.pack("=BBBBI", socket.AF_INET, prefix, 0, 0, socket.if_nametoindex(name))
        body = header + attribute(_IFA_LOCAL, packed) + attribute(_IFA_ADDRESS, packed)
        self._change(_NEW_ADDRESS, _MAKE, body)


def keep_ipv6_silent() -> None:
    """Keep IPv6's own chatter off every interface that this namespace gets from now on."""
    for scope in ("all", "default"):
        folder = Path("/proc/sys/net/ipv6/conf", scope)
        if folder.is_dir():
            (folder / "disable_ipv6").write_text("1", encoding="ascii")


def turn_offloads_off(name: str) -> None:
    """Have an interface finish its frames: whole checksums, nothing joined and nothing to be cut.

    Raises:
        OSError: The kernel refuses one of the settings.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        for command in _OFFLOADS:
            value = ctypes.create_string_buffer(struct.pack("=II", command, 0), 8)
            request = struct.pack("=16sQ16x", os.fsencode(name), ctypes.addressof(value))
            fcntl.ioctl(sock.fileno(), _SIOCETHTOOL, request)
