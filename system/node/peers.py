"""The connections to the other nodes, which come and go with the membership."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

import trio

from ..raft.messages import Message
from .address import Address
from .counters import Counters
from .links import Dial, ForwardLink, Link, Met, RaftFramer, RaftLink
from .logbook import Logbook
from .node_settings import NodeSettings


def address_text(address: Address) -> str:
    """Return an address as the membership records it."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_address(text: str) -> Address | None:
    """Return the address that a text tells; None when it tells none."""
    host, _, port = text.rpartition(":")
    try:
        address = str(ipaddress.ip_address(host.strip("[]"))), int(port)
    except ValueError:
        return None
    return address if 1 <= address[1] <= 65535 else None


class Peers:
    """Two links to each node whose address is known.

    Attributes:
        addresses: Where each is reached; changes with the membership.
        raft_links: By name; the same.
        forward_links: By name; the same.
        met: Hears of each node that was reached.
    """

    def __init__(
        self,
        settings: NodeSettings,
        logbook: Logbook,
        counters: Counters,
        dial: Dial,
    ) -> None:
        self.addresses: dict[str, Address] = {}
        self.raft_links: dict[str, RaftLink] = {}
        self.forward_links: dict[str, ForwardLink] = {}
        self.met: Met | None = None
        self._node = settings.node
        self._framer = RaftFramer()
        own = "" if settings.address is None else address_text(settings.address)
        self._parts = (settings.token, logbook, counters, dial, settings.incarnation, own)
        self._nursery: trio.Nursery | None = None
        self._running: dict[str, trio.CancelScope] = {}
        for name, address in settings.peers.items():
            self.add(name, address)

    def add(self, name: str, address: Address) -> None:
        """Open links to a node, in place of those to another address."""
        if name == self._node or self.addresses.get(name) == address:
            return
        self.drop(name)
        self.addresses[name] = address
        met = self._heard
        self.raft_links[name] = RaftLink(self._node, name, address, *self._parts, met, self._framer)
        self.forward_links[name] = ForwardLink(self._node, name, address, *self._parts, met)
        self._start(name)

    def drop(self, name: str) -> None:
        """Close the links to a node."""
        if name in self.addresses:
            del self.addresses[name], self.raft_links[name]
            self.forward_links.pop(name).abandon()
            if name in self._running:
                self._running.pop(name).cancel()

    def send(self, to: str, message: Message) -> None:
        """Queue a raft message, or drop it when the node is not reached."""
        link = self.raft_links.get(to)
        if link is not None:
            link.send(message)

    def connected(self, names: Iterable[str]) -> int:
        """How many of these nodes have a connection from here."""
        links = self.raft_links
        return sum(links[name].connected for name in names if name in links)

    async def run(self) -> None:
        """Keep the links, until cancelled."""
        async with trio.open_nursery() as self._nursery:
            for name in list(self.addresses):
                self._start(name)
            await trio.sleep_forever()

    def _start(self, name: str) -> None:
        if self._nursery is not None:
            scope = self._running[name] = trio.CancelScope()
            self._nursery.start_soon(_run, scope, self.raft_links[name], self.forward_links[name])

    def _heard(self, peer: str, incarnation: str, known: str) -> None:
        if self.met is not None:
            self.met(peer, incarnation, known)


async def _run(scope: trio.CancelScope, *links: Link) -> None:
    with scope:
        async with trio.open_nursery() as nursery:
            for link in links:
                nursery.start_soon(link.run)
