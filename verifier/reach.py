"""Whether bytes get through from one end to another, tried with connections of our own."""

from __future__ import annotations

import socket
from typing import Final

import trio

from ..nemesis.private_network import CLIENTS, WORKERS
from .network import Network

_TRY_S: Final = 0.5
_PAUSE_S: Final = 0.01
_REQUEST: Final = b"GET /health HTTP/1.1\r\nhost: probe\r\nconnection: close\r\n\r\n"


async def reach_s(network: Network, source: str, target: str, timeout_s: float) -> float | None:
    """Dial a node until it answers: a peer with its challenge, a client with its health.

    Args:
        network: Where they live.
        source: A node, `clients` or `workers`.
        target: A node.
        timeout_s: How long to try.

    Returns:
        After how many seconds a connection had carried bytes both ways; None if none did in time.
    """
    begun = trio.current_time()
    with trio.move_on_after(timeout_s):
        while True:
            with trio.move_on_after(_TRY_S):
                if await _answers(network, source, target):
                    return trio.current_time() - begun
            await trio.sleep(_PAUSE_S)
    return None


async def _answers(network: Network, source: str, target: str) -> bool:
    is_client = source in (CLIENTS, WORKERS)
    if is_client:
        at = network.endpoints(source)[target]
        address = at.host, at.port
    else:
        address = network.peers_of(source)[target]
    with network.inside(source):
        sock = trio.socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    with sock:
        try:
            await sock.connect(address)
            if is_client:
                await sock.send(_REQUEST)
            return bool(await sock.recv(1))
        except OSError:
            return False
