"""Where the processes of a run live, and how they reach each other.

On loopback everybody shares one network. In a private network each node has a namespace of its
own, and so have clients and workers; the verifier itself lives with the clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Final, Protocol

import msgspec
import trio

from ..histories.pcapng import segments_of
from ..nemesis.levels import NETWORK_POWERS
from ..nemesis.links import Links
from ..nemesis.namespaces import enter_network, inside_network
from ..nemesis.private_links import PrivateLinks
from ..nemesis.private_network import CLIENTS, DATA_NETWORK, WORKERS, PrivateNetwork
from ..nemesis.switch.process import SwitchProcess
from ..nemesis.wire.marks import MarkWriter
from ..nemesis.wire.recording import WirePlan
from ..system.client import Endpoint
from .children import LOOPBACK, NodePorts, PortHold, log_tail
from .errors import HarnessError
from .levels import ChosenLevel, needs_of
from .proxied_network import ProxiedNetwork, Spawn
from .scenario import Scenario
from .store import RunPaths

__all__ = ["CLIENTS", "WORKERS", "LoopbackNetwork", "NamespaceNetwork", "Network", "lay_network"]

_EVERYWHERE: Final = "0.0.0.0"
_CLIENT_PORT: Final = 6632
_PEER_PORT: Final = 6633
_SEGMENTS: Final = 8
_WIRE_MODULE: Final = "atleastonce.nemesis.wire"
_CAPTURE_START_S: Final = 20.0
_POLL_S: Final = 0.01

Address = tuple[str, int]


class Network(Protocol):
    """What a run's processes are told of each other."""

    @property
    def allow_remote(self) -> bool:
        """Whether nodes serve more than loopback."""

    @property
    def links(self) -> Links | None:
        """The links between the ends; None if faults cannot act on them."""

    def client_address(self, node: str) -> Address:
        """Where a node serves HTTP, as it binds it."""

    def peers_of(self, node: str) -> Mapping[str, Address]:
        """Where a node binds for its peers, under its own name, and where it dials each of them."""

    def endpoints(self, end: str) -> Mapping[str, Endpoint]:
        """Where `clients` or `workers` dial each node; faults act on the way."""

    def control_endpoints(self) -> Mapping[str, Endpoint]:
        """Where the verifier asks each node for its health; no fault acts on the way."""

    def inside(self, end: str) -> AbstractContextManager[None]:
        """Be where an end is, for the length of a block without checkpoints.

        Children that are started meanwhile are born there.
        """

    async def start(self, run: RunPaths, spawn: Spawn) -> None:
        """Start what the network itself needs, before anything lives in it.

        Raises:
            HarnessError: It does not come up.
        """


class LoopbackNetwork:
    """Everybody on 127.0.0.1, each node with two ports of its own."""

    allow_remote = False
    links: Links | None = None

    def __init__(self, ports: Mapping[str, NodePorts]) -> None:
        self._ports = ports

    def client_address(self, node: str) -> Address:
        """Where a node serves HTTP."""
        return LOOPBACK, self._ports[node].client

    def peers_of(self, node: str) -> Mapping[str, Address]:
        """Where every node hears its peers; the same for all."""
        assert node in self._ports, node
        return {name: (LOOPBACK, ports.peer) for name, ports in self._ports.items()}

    def endpoints(self, end: str) -> Mapping[str, Endpoint]:
        """Where each node serves HTTP; the same for all."""
        assert end in (CLIENTS, WORKERS), end
        return self.control_endpoints()

    def control_endpoints(self) -> Mapping[str, Endpoint]:
        """Where each node serves HTTP."""
        return {name: Endpoint(LOOPBACK, ports.client) for name, ports in self._ports.items()}

    def inside(self, end: str) -> AbstractContextManager[None]:
        """Stay here."""
        del end
        return nullcontext()

    async def start(self, run: RunPaths, spawn: Spawn) -> None:
        """Nothing: the kernel has loopback."""


class NamespaceNetwork:
    """Each node, the clients and the workers in a namespace of their own.

    Every node has the same two ports, on an address that only it has.

    Args:
        private: The ends.
        nodes: The nodes among them.
        links: What is between the ends.
        capture: How much is captured, in bytes of a segment and segments; None for nothing.
    """

    allow_remote = True

    def __init__(
        self,
        private: PrivateNetwork,
        nodes: Iterable[str],
        links: PrivateLinks,
        capture: tuple[int, int] | None = None,
    ) -> None:
        self._private = private
        self._capture = capture
        self._links = links
        self.links: Links | None = links
        self._nodes = tuple(nodes)

    def client_address(self, node: str) -> Address:
        """Every address of the node's namespace."""
        assert node in self._nodes, node
        return _EVERYWHERE, _CLIENT_PORT

    def peers_of(self, node: str) -> Mapping[str, Address]:
        """The address that each node has; the same for all."""
        assert node in self._nodes, node
        return {name: (self._private.ends[name].address, _PEER_PORT) for name in self._nodes}

    def endpoints(self, end: str) -> Mapping[str, Endpoint]:
        """The address that each node has; from there the way is the end's own."""
        assert end in (CLIENTS, WORKERS), end
        ends = self._private.ends
        return {name: Endpoint(ends[name].address, _CLIENT_PORT) for name in self._nodes}

    def control_endpoints(self) -> Mapping[str, Endpoint]:
        """The address of each node that no fault acts on."""
        ends = self._private.ends
        return {name: Endpoint(ends[name].control_address, _CLIENT_PORT) for name in self._nodes}

    def inside(self, end: str) -> AbstractContextManager[None]:
        """Be in the end's namespace."""
        return self._private.inside(end)

    async def start(self, run: RunPaths, spawn: Spawn) -> None:
        """Start the recording, if there is one; the network was laid before.

        Raises:
            HarnessError: It does not record in time.
        """
        if self._capture is None:
            return
        ends = [(end.name, end.port, end.number) for end in self._private.ends.values()]
        marks = run.capture_marks
        self._links.tell(MarkWriter(marks))
        plan = WirePlan(ends, list(DATA_NETWORK), str(run.capture), *self._capture, str(marks))
        run.capture_config.write_bytes(msgspec.json.encode(plan) + b"\n")
        with inside_network(self._private.home):
            spawn(_WIRE_MODULE, "capture", run.capture_config, run.capture_log)
        with trio.move_on_after(_CAPTURE_START_S):
            while not any(path.stat().st_size for path in segments_of(run.capture)):
                await trio.sleep(_POLL_S)
            return
        raise HarnessError(
            f"the capture did not begin; {run.capture_log} ends with\n{log_tail(run.capture_log)}"
        )


@contextmanager
def lay_network(scenario: Scenario, chosen: ChosenLevel) -> Iterator[Network]:
    """Have the run's network for the length of a block: loopback ports, or namespaces.

    In a private network the calling thread moves to the clients for good.

    Raises:
        UsageError: A port that was asked for is in use.
        OSError: The kernel refuses a namespace or an interface.
    """
    if not chosen.has_network:
        hold = PortHold()
        try:
            ports = hold.take(scenario.node_names, scenario.settings.base_port)
            if scenario.capture or _has_links(scenario):
                yield ProxiedNetwork(ports, scenario.seed, _capture(scenario))
            else:
                yield LoopbackNetwork(ports)
        finally:
            hold.close()
        return
    with ExitStack() as stack:
        private = PrivateNetwork(scenario.node_names, switched=chosen.is_switched)
        stack.callback(private.close)
        switch = _start_switch(private, scenario.seed, stack) if chosen.is_switched else None
        links = PrivateLinks(private, switch)
        stack.callback(links.close)
        private.prove(CLIENTS, scenario.node_names[0])
        enter_network(private.ends[CLIENTS].namespace)
        yield NamespaceNetwork(private, scenario.node_names, links, _capture(scenario))


def _has_links(scenario: Scenario) -> bool:
    """Whether a fault of the run acts on links."""
    needs = needs_of(fault.kind for fault in scenario.plan)
    return any(powers & NETWORK_POWERS for powers in needs.values())


def _capture(scenario: Scenario) -> tuple[int, int] | None:
    """Bytes of a segment of the capture, and how many are kept."""
    if not scenario.capture:
        return None
    return (scenario.settings.capture_mib << 20) // _SEGMENTS, _SEGMENTS


def _start_switch(private: PrivateNetwork, seed: int, stack: ExitStack) -> SwitchProcess:
    ports = [(end.port, end.number) for end in private.ends.values()]
    with inside_network(private.home):
        switch = SwitchProcess(ports, DATA_NETWORK, seed)
    stack.callback(switch.close)
    return switch
