"""A reset that only one end of a connection gets: a segment made up in the other end's name.

The victim believes it only if its sequence number is the very next one that it awaits, which its
own segments tell: they are read at the victim's port, and the answer goes in there.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

import trio

from .namespaces import inside_network
from .private_network import End

_SOL_PACKET: Final = 263
_EVERY_PROTOCOL: Final = 3
_FRAME_BYTES: Final = 65_536
_ETHERNET: Final = 14
_IPV4: Final = b"\x08\x00"
_TCP: Final = 6
_ACK: Final = 0x10
_RST: Final = 0x04
_SYN: Final = 0x02
_FIN: Final = 0x01
_OUTGOING: Final = 4
_LISTENS_S: Final = 1.1
"""Nodes say something once a second on every connection of theirs."""
LAST_WORDS_S: Final = 0.06
"""An end acknowledges late, by up to 40 ms, what it got; a closed one would answer by a reset."""


@dataclass(frozen=True, slots=True)
class Flow:
    """What a victim's segment says about its connection.

    Attributes:
        port: Of the victim.
        peer_port: Of the other end.
        awaited: The sequence number that the victim awaits.
        begun: The victim's own, after this segment.
    """

    port: int
    peer_port: int
    awaited: int
    begun: int


def read_flow(frame: bytes, victim: str, peer: str) -> Flow | None:
    """Read a segment from victim to peer; None if the frame is none, or opens or closes one."""
    if len(frame) < _ETHERNET + 40 or frame[12:_ETHERNET] != _IPV4:
        return None
    head = (frame[_ETHERNET] & 0x0F) * 4
    _, size, _, _, _, protocol, _, source, target = struct.unpack_from(
        ">HHHHBBH4s4s", frame, _ETHERNET
    )
    if protocol != _TCP or source != socket.inet_aton(victim) or target != socket.inet_aton(peer):
        return None
    at = _ETHERNET + head
    port, peer_port, sequence, awaited, offset, flags = struct.unpack_from(">HHIIBB", frame, at)
    if not flags & _ACK or flags & (_SYN | _FIN | _RST):
        return None
    payload = size - head - (offset >> 4) * 4
    return Flow(port, peer_port, awaited, (sequence + payload) & 0xFFFFFFFF)


def craft(flow: Flow, victim: End, peer: End) -> bytes:
    """Make the frame that resets the victim's end of a connection, in the peer's name."""
    # Takes half a second the first time.
    from scapy.layers.inet import IP, TCP
    from scapy.layers.l2 import Ether

    segment = TCP(
        sport=flow.peer_port, dport=flow.port, seq=flow.awaited, ack=flow.begun, flags="RA"
    )
    ethernet = Ether(dst=_written(victim.hardware_address), src=_written(peer.hardware_address))
    return bytes(ethernet / IP(src=peer.address, dst=victim.address) / segment)


def _written(address: bytes) -> str:
    return ":".join(f"{byte:02x}" for byte in address)


def warm_up() -> None:
    """Load what crafting takes, before time matters; about half a second the first time."""
    nowhere = End("", 1, -1, "")
    craft(Flow(1, 1, 1, 1), nowhere, nowhere)


async def reset_one_end(
    home: int,
    victim: End,
    peer: End,
    living: Callable[[End, End], set[tuple[int, int]]],
    quiet: Callable[[], AbstractAsyncContextManager[None]],
) -> int:
    """Reset every connection between two ends at one of them, as far as it speaks meanwhile.

    Args:
        home: The namespace that the cables lead into.
        victim: The end that is to believe in a reset; it is listened to for about a second.
        peer: The end in whose name it comes, and which is not told.
        living: Names the connections that one end has with another, by their two ports.
        quiet: Lets nothing pass from the victim to the peer as long as it is entered.

    Returns:
        How many connections the victim lost.

    Raises:
        OSError: The port cannot be opened.
    """
    await trio.to_thread.run_sync(warm_up)
    with inside_network(home):
        port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0)
    with port:
        port.setblocking(False)
        port.bind((victim.port, _EVERY_PROTOCOL))
        wanted = living(victim, peer)
        sent: set[tuple[int, int]] = set()
        with trio.move_on_after(_LISTENS_S):
            while wanted & living(victim, peer):
                await trio.lowlevel.wait_readable(port)
                flows = _waiting(port, victim, peer)
                if not flows:
                    continue
                sent |= flows.keys()
                with trio.CancelScope(shield=True):
                    async with quiet():
                        for flow in flows.values():
                            port.send(craft(flow, victim, peer))
                        await trio.sleep(LAST_WORDS_S)
                # What came meanwhile is older than what the victim now awaits.
                _waiting(port, victim, peer)
        return len((wanted & sent) - living(victim, peer))


def _waiting(port: socket.socket, victim: End, peer: End) -> dict[tuple[int, int], Flow]:
    """Read all that waits; the last word of each connection, by its two ports."""
    flows: dict[tuple[int, int], Flow] = {}
    while True:
        try:
            frame, (_, _, kind, _, _) = port.recvfrom(_FRAME_BYTES)
        except BlockingIOError:
            return flows
        flow = None if kind == _OUTGOING else read_flow(frame, victim.address, peer.address)
        if flow is not None:
            flows[flow.port, flow.peer_port] = flow
