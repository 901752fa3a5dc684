"""What partitions cut, for any number of nodes and any choice."""

from __future__ import annotations

import networkx
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.grudges import (
    bridge,
    halves,
    hearing,
    isolate,
    one_way,
    ring,
    split,
    third,
    towards,
)

NODES = st.integers(3, 9).map(lambda count: [f"n{number}" for number in range(1, count + 1)])
CHOICES = st.integers(0, 1 << 16)


def heard_by(nodes: list[str], cut: frozenset[tuple[str, str]], node: str) -> frozenset[str]:
    return frozenset({node, *hearing(nodes, cut).predecessors(node)})


@given(NODES, CHOICES)
def test_every_node_of_a_majorities_ring_hears_a_majority_and_no_two_the_same(
    nodes: list[str], choice: int
) -> None:
    cut = ring(nodes, choice)
    majorities = {heard_by(nodes, cut, node) for node in nodes}
    assert all(len(heard) == len(nodes) // 2 + 1 for heard in majorities)
    assert len(majorities) == len(nodes)


@given(NODES, CHOICES)
def test_a_ring_stays_connected_and_with_an_odd_majority_hearing_is_mutual(
    nodes: list[str], choice: int
) -> None:
    graph = hearing(nodes, ring(nodes, choice))
    assert networkx.is_strongly_connected(graph)
    if (len(nodes) // 2 + 1) % 2:
        assert all(graph.has_edge(other, one) for one, other in graph.edges)


@given(NODES, CHOICES)
def test_halves_leave_two_groups_of_which_at_most_one_is_a_majority(
    nodes: list[str], choice: int
) -> None:
    groups = list(networkx.strongly_connected_components(hearing(nodes, halves(nodes, choice))))
    assert sorted(len(group) for group in groups) == sorted(
        (len(nodes) // 2, len(nodes) - len(nodes) // 2)
    )


@given(NODES, CHOICES)
def test_a_bridge_leaves_one_node_that_hears_all_and_two_halves_that_hear_only_it(
    nodes: list[str], choice: int
) -> None:
    graph = hearing(nodes, bridge(nodes, choice))
    everywhere = [node for node in nodes if graph.in_degree(node) == len(nodes) - 1]
    assert everywhere
    undirected = graph.to_undirected()
    assert networkx.is_connected(undirected)
    if len(nodes) > 3:
        assert len(everywhere) == 1
    undirected.remove_node(everywhere[0] if len(nodes) > 3 else _middle(graph))
    assert networkx.number_connected_components(undirected) == 2


def _middle(graph: networkx.DiGraph[str]) -> str:
    return max(graph.nodes, key=lambda node: int(graph.in_degree(node)))


@given(NODES, CHOICES)
def test_a_third_is_at_least_one_node_and_leaves_a_majority(nodes: list[str], choice: int) -> None:
    sizes = sorted(
        len(group)
        for group in networkx.strongly_connected_components(hearing(nodes, third(nodes, choice)))
    )
    assert sizes[0] >= 1
    assert 3 * sizes[0] <= len(nodes)
    assert 2 * sizes[1] > len(nodes)


@given(NODES, st.data())
def test_isolated_nodes_hear_nobody_and_the_rest_hear_each_other(
    nodes: list[str], data: st.DataObject
) -> None:
    chosen = data.draw(st.sets(st.sampled_from(nodes), min_size=1))
    cut = isolate(nodes, chosen)
    rest = frozenset(nodes) - chosen
    for node in nodes:
        assert heard_by(nodes, cut, node) == (frozenset({node}) if node in chosen else rest)


@given(NODES, st.data(), st.booleans())
def test_one_way_cuts_one_direction_and_both_of_them_are_the_whole_cut(
    nodes: list[str], data: st.DataObject, hears: bool
) -> None:
    chosen = data.draw(st.sets(st.sampled_from(nodes), min_size=1, max_size=len(nodes) - 1))
    cut = one_way(nodes, chosen, hears=hears)
    rest = [node for node in nodes if node not in chosen]
    assert cut | {(there, here) for here, there in cut} == split(nodes, (chosen, rest))
    assert not any((there, here) in cut for here, there in cut)
    for node in rest:
        assert (heard_by(nodes, cut, node) >= chosen) is not hears


@given(NODES, st.data())
def test_a_deaf_node_hears_nobody_and_all_hear_it(nodes: list[str], data: st.DataObject) -> None:
    target = data.draw(st.sampled_from(nodes))
    cut = towards(nodes, target)
    assert heard_by(nodes, cut, target) == {target}
    assert all(heard_by(nodes, cut, node) == set(nodes) for node in nodes if node != target)
