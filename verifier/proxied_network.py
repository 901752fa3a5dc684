"""Loopback with a proxy between all ends, so that faults can act on each directed link.

All of 127.0.0.0/8 is local without any set-up. Whoever dials n2 from n1 dials an address that only
n1 knows, and the proxy there takes it to n2.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Final

import msgspec

from ..nemesis.links import LinkError, Links
from ..nemesis.private_network import CLIENTS, WORKERS
from ..nemesis.proxy.control import CapturePlan, Plan, Service, Way
from ..nemesis.proxy_links import ProxyLinks
from ..system.client import Endpoint
from .children import LOOPBACK, NodePorts, log_tail
from .errors import HarnessError
from .store import RunPaths

PROXY_MODULE: Final = "atleastonce.nemesis.proxy"
NAME: Final = "links"
_START_S: Final = 20.0
_CLIENTS_NUMBER: Final = 101
_WORKERS_NUMBER: Final = 102

Address = tuple[str, int]
Spawn = Callable[[str, str, Path, Path], None]
"""Starts a module under a name, with a configuration and a log; the caller ends it."""


class ProxiedNetwork:
    """Nodes on 127.0.0.1; whoever dials one comes through the proxy.

    Args:
        ports: Where each node listens.
        seed: Of the proxy's jitter.
        capture: How much is captured, in bytes of a segment and segments; None for nothing.
    """

    allow_remote = False

    def __init__(
        self, ports: Mapping[str, NodePorts], seed: int, capture: tuple[int, int] | None = None
    ) -> None:
        self._ports = ports
        self._seed = seed
        self._capture = capture
        self._numbers = {name: number for number, name in enumerate(ports, 1)}
        self._numbers |= {CLIENTS: _CLIENTS_NUMBER, WORKERS: _WORKERS_NUMBER}
        self._links: ProxyLinks | None = None

    @property
    def links(self) -> Links | None:
        """The links, once the proxy runs."""
        return self._links

    def _alias(self, source: str, target: str) -> str:
        return f"127.77.{self._numbers[source]}.{self._numbers[target]}"

    def ways(self) -> list[Way]:
        """List how everybody reaches each node."""
        ways = []
        for target, ports in self._ports.items():
            services: list[tuple[str, Service, int]] = [
                (source, "peer", ports.peer) for source in self._ports if source != target
            ]
            services += [(end, "client", ports.client) for end in (CLIENTS, WORKERS)]
            ways += [
                Way(source, target, service, (self._alias(source, target), port), (LOOPBACK, port))
                for source, service, port in services
            ]
        return ways

    def client_address(self, node: str) -> Address:
        """Where a node serves HTTP."""
        return LOOPBACK, self._ports[node].client

    def peers_of(self, node: str) -> Mapping[str, Address]:
        """Where a node hears its peers, and where it dials each of them."""
        return {
            name: (LOOPBACK if name == node else self._alias(node, name), ports.peer)
            for name, ports in self._ports.items()
        }

    def endpoints(self, end: str) -> Mapping[str, Endpoint]:
        """Where the proxy takes an end to each node."""
        return {
            name: Endpoint(self._alias(end, name), ports.client)
            for name, ports in self._ports.items()
        }

    def control_endpoints(self) -> Mapping[str, Endpoint]:
        """Where each node serves HTTP."""
        return {name: Endpoint(LOOPBACK, ports.client) for name, ports in self._ports.items()}

    def inside(self, end: str) -> AbstractContextManager[None]:
        """Stay here: an end is told from others by the address that it dials."""
        del end
        return nullcontext()

    async def start(self, run: RunPaths, spawn: Spawn) -> None:
        """Start the proxy; returns when it listens on every way.

        Raises:
            HarnessError: It does not come up.
        """
        config, log, control = run.links_config, run.links_log, run.links_control
        capture = None
        if self._capture is not None:
            capture = CapturePlan(str(run.capture), *self._capture)
        plan = Plan(self.ways(), str(control), self._seed, os.getpid(), True, capture)
        config.write_bytes(msgspec.json.format(msgspec.json.encode(plan), indent=2) + b"\n")
        spawn(PROXY_MODULE, NAME, config, log)
        links = ProxyLinks(control)
        try:
            await links.connect(_START_S)
        except LinkError as error:
            raise HarnessError(f"{error}; {log} ends with\n{log_tail(log)}") from None
        self._links = links
