"""A network of our own on this machine: a namespace for each end, and what joins them.

Ends are the nodes by name, `clients` and `workers`. Each has the interface `eth0` with an address
that faults act on, and a second one, the control address, that no fault touches: the verifier asks
nodes for their health there, cut off or not.

The ends' cables lead into the namespace of whoever builds the network. There either a bridge of
the kernel joins them, or a switch that reads and writes each frame. Everything vanishes with the
last process and descriptor that is in it.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .namespaces import inside_network, new_network
from .netlink.interfaces import Interfaces, keep_ipv6_silent, turn_offloads_off

CLIENTS: Final = "clients"
WORKERS: Final = "workers"
BRIDGE: Final = "br0"
INTERFACE: Final = "eth0"
MTU: Final = 9000
DATA_NETWORK: Final = bytes((10, 77, 0))
"""The first three bytes of the addresses that faults act on."""
_DATA: Final = "10.77.0"
_CONTROL: Final = "10.78.0"
_PREFIX: Final = 24
_PROOF_S: Final = 5.0
_PROOF_BYTES: Final = 200_000
_FIRST_OTHER: Final = 201
_FIRST_INDEX: Final = 1000
_SLOWEST_RETRANSMISSION: Final = Path("/proc/sys/net/ipv4/tcp_rto_max_ms")
_SLOWEST_RETRANSMISSION_MS: Final = 1000


@dataclass(frozen=True, slots=True)
class End:
    """One end of the network.

    Attributes:
        name: A node's name, `clients` or `workers`.
        number: The last byte of its addresses.
        namespace: A descriptor of its network namespace.
        port: Its cable's other end, in the builder's namespace.
    """

    name: str
    number: int
    namespace: int
    port: str

    @property
    def address(self) -> str:
        """Where faults act on what comes and goes."""
        return f"{_DATA}.{self.number}"

    @property
    def control_address(self) -> str:
        """Where they do not."""
        return f"{_CONTROL}.{self.number}"

    @property
    def hardware_address(self) -> bytes:
        """Its six bytes of Ethernet address."""
        return bytes((2, 0, 0, 0, 0, self.number))


class PrivateNetwork:
    """The ends and their cables, in the network namespace of the calling thread.

    Build it in a namespace of your own (`namespaces.leave`). Takes about 3 ms an end.

    Args:
        nodes: Names of the nodes; at most 200.
        switched: No bridge joins the ports; a switch will, frame by frame.

    Attributes:
        switched: As given.
        home: A descriptor of the namespace that the cables lead into.
        ends: By name.

    Raises:
        OSError: The kernel refuses.
    """

    def __init__(self, nodes: Sequence[str], *, switched: bool = False) -> None:
        self.switched = switched
        self.home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        self.ends: dict[str, End] = {}
        interfaces = Interfaces()
        try:
            keep_ipv6_silent()
            interfaces.bring_up("lo")
            if not switched:
                interfaces.add_bridge(BRIDGE)
                interfaces.bring_up(BRIDGE)
            for place, name in enumerate(nodes, start=1):
                self._add(interfaces, name, place)
            for place, name in enumerate((CLIENTS, WORKERS)):
                self._add(interfaces, name, _FIRST_OTHER + place)
        except BaseException:
            self.close()
            raise
        finally:
            interfaces.close()

    def _add(self, interfaces: Interfaces, name: str, number: int) -> None:
        end = End(name, number, new_network(), f"p{number}")
        self.ends[name] = end
        interfaces.add_cable(
            end.port, INTERFACE, end.hardware_address, end.namespace, MTU, _FIRST_INDEX + number
        )
        if self.switched:
            turn_offloads_off(end.port)
            interfaces.bring_up(end.port)
        else:
            interfaces.plug_in(end.port, BRIDGE)
        with inside_network(end.namespace):
            _set_up(end, offloads=not self.switched)

    def inside(self, end: str) -> AbstractContextManager[None]:
        """Be in an end's namespace for the length of a block: sockets and children stay there."""
        return inside_network(self.ends[end].namespace)

    def prove(self, first: str, second: str) -> None:
        """Exchange some bytes over TCP between two ends; blocks for a few milliseconds.

        An interface that leaves checksums to hardware which is not there lets a ping through and
        no TCP.

        Raises:
            OSError: They did not arrive.
        """
        there = self.ends[second]
        with self.inside(second):
            listener = socket.create_server((there.address, 0))
        with self.inside(first):
            caller = socket.socket()
        with listener, caller:
            caller.settimeout(_PROOF_S)
            listener.settimeout(_PROOF_S)
            caller.connect(listener.getsockname())
            callee, _ = listener.accept()
            with callee:
                callee.settimeout(_PROOF_S)
                caller.sendall(bytes(_PROOF_BYTES))
                left = _PROOF_BYTES
                while left and (got := callee.recv(left)):
                    left -= len(got)
        if left:
            raise ConnectionError(f"{left} of {_PROOF_BYTES} bytes did not arrive at {second}")

    def close(self) -> None:
        """Let go of the namespaces; each vanishes when its last process has ended."""
        for end in self.ends.values():
            os.close(end.namespace)
        self.ends.clear()
        if self.home >= 0:
            os.close(self.home)
            self.home = -1


def _set_up(end: End, *, offloads: bool) -> None:
    """Set an end's interfaces up, from inside its namespace."""
    interfaces = Interfaces()
    try:
        keep_ipv6_silent()
        interfaces.bring_up("lo")
        interfaces.add_address(INTERFACE, end.address, _PREFIX)
        interfaces.add_address(INTERFACE, end.control_address, _PREFIX)
        if not offloads:
            turn_offloads_off(INTERFACE)
        interfaces.bring_up(INTERFACE)
    finally:
        interfaces.close()
    if _SLOWEST_RETRANSMISSION.exists():
        # A cut must not be followed by seconds of silence that only back-off explains.
        _SLOWEST_RETRANSMISSION.write_text(str(_SLOWEST_RETRANSMISSION_MS), encoding="ascii")
