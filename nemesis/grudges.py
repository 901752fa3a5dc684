"""Which directed links a partition cuts: graphs of who hears whom, and what is missing in them.

A cut is the set of pairs (from, to) that a full mesh has and the partition has not. Everything is
decided by the nodes and a number, `choice`.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from .links import Pair

if TYPE_CHECKING:
    from networkx import DiGraph

Cut = frozenset[Pair]


def mesh(nodes: Iterable[str]) -> DiGraph[str]:
    """Everybody hears everybody else."""
    # Late: it costs a tenth of a second, and most commands need no graph.
    import networkx

    graph: DiGraph[str] = networkx.complete_graph(list(nodes), create_using=networkx.DiGraph)
    return graph


def hearing(nodes: Sequence[str], cut: Collection[Pair]) -> DiGraph[str]:
    """Who hears whom under a cut: an edge leads to the one that hears."""
    graph = mesh(nodes)
    graph.remove_edges_from(cut)
    return graph


def _missing(nodes: Sequence[str], graph: DiGraph[str]) -> Cut:
    return frozenset(set(mesh(nodes).edges) - set(graph.edges))


def _order(nodes: Sequence[str], choice: int) -> list[str]:
    return random.Random(choice).sample(list(nodes), len(nodes))


def split(nodes: Sequence[str], groups: Iterable[Collection[str]]) -> Cut:
    """Cut all links between groups; within one everybody hears everybody."""
    graph = mesh(())
    graph.add_nodes_from(nodes)
    for group in groups:
        graph.add_edges_from(mesh(group).edges)
    return _missing(nodes, graph)


def isolate(nodes: Sequence[str], chosen: Collection[str]) -> Cut:
    """Cut each of the chosen nodes off from all others; the rest stay together."""
    rest = [node for node in nodes if node not in chosen]
    return split(nodes, [*([node] for node in nodes if node in chosen), rest])


def halves(nodes: Sequence[str], choice: int) -> Cut:
    """Cut the nodes into two halves; of an odd number one is a majority."""
    order = _order(nodes, choice)
    middle = len(order) // 2
    return split(nodes, (order[:middle], order[middle:]))


def third(nodes: Sequence[str], choice: int) -> Cut:
    """Cut at most a third of the nodes, and at least one, off as a group."""
    order = _order(nodes, choice)
    few = max(1, len(order) // 3)
    return split(nodes, (order[:few], order[few:]))


def bridge(nodes: Sequence[str], choice: int) -> Cut:
    """Cut the nodes into two halves that cannot talk, and one node that both hear."""
    order = _order(nodes, choice)
    middle = len(order) // 2
    between = order[middle]
    left, right = order[:middle], order[middle + 1 :]
    return split(nodes, ()) - split_edges(([*left, between], [*right, between]))


def split_edges(groups: Iterable[Collection[str]]) -> Cut:
    """All links within groups, which may overlap."""
    return frozenset(edge for group in groups for edge in mesh(group).edges)


def ring(nodes: Sequence[str], choice: int) -> Cut:
    """Let each node hear a majority, itself included, and no two the same one.

    The nodes stand in a ring, and each hears its neighbours. With an odd majority hearing is
    mutual; with an even one, as of three nodes, a node hears one neighbour more on one side.
    """
    order = _order(nodes, choice)
    majority = len(order) // 2 + 1
    before = (majority - 1) // 2
    heard = frozenset(
        (order[(place + step) % len(order)], node)
        for place, node in enumerate(order)
        for step in range(-before, majority - before)
        if step
    )
    return split(nodes, ()) - heard


def one_way(nodes: Sequence[str], chosen: Collection[str], *, hears: bool) -> Cut:
    """Cut one direction between the chosen nodes and the rest.

    Args:
        nodes: All nodes.
        chosen: Some of them.
        hears: Whether the chosen ones still hear the rest, and are not heard, or the reverse.
    """
    both = split(nodes, (chosen, [node for node in nodes if node not in chosen]))
    return frozenset(pair for pair in both if (pair[0] in chosen) is hears)


def towards(nodes: Sequence[str], target: str) -> Cut:
    """Cut all links that lead to a node."""
    return one_way(nodes, (target,), hears=False)
