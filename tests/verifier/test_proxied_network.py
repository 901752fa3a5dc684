"""Addresses of a network with a link proxy."""

from __future__ import annotations

from itertools import chain

from atleastonce.verifier.children import NodePorts
from atleastonce.verifier.proxied_network import ProxiedNetwork

PORTS = {
    "n1": NodePorts(client=7001, peer=7002),
    "n2": NodePorts(client=7003, peer=7004),
    "n3": NodePorts(client=7005, peer=7006),
}


def test_everybody_dials_each_node_at_an_address_of_their_own() -> None:
    network = ProxiedNetwork(PORTS, seed=1)
    ways = network.ways()
    assert len({way.listen for way in ways}) == len(ways) == 3 * (2 + 2)
    dialled = set(
        chain(
            *(
                {(node, name, at) for name, at in network.peers_of(node).items() if name != node}
                for node in PORTS
            ),
            *(
                {(end, name, (at.host, at.port)) for name, at in network.endpoints(end).items()}
                for end in ("clients", "workers")
            ),
        )
    )
    assert dialled == {(way.source, way.target, way.listen) for way in ways}


def test_nodes_listen_and_the_verifier_watches_where_no_fault_acts() -> None:
    network = ProxiedNetwork(PORTS, seed=1)
    for node, ports in PORTS.items():
        assert network.client_address(node) == ("127.0.0.1", ports.client)
        assert network.peers_of(node)[node] == ("127.0.0.1", ports.peer)
        at = network.control_endpoints()[node]
        assert (at.host, at.port) == network.client_address(node)
    assert {way.dial[0] for way in network.ways()} == {"127.0.0.1"}
    assert network.links is None
