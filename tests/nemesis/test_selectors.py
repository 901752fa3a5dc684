"""A selector means certain nodes, whatever the number of nodes, the leader and the choice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atleastonce.nemesis.selectors import NODE_SELECTORS, is_of_many, is_of_nodes, names_in, pick

NODES = st.integers(1, 4).map(lambda half: tuple(f"n{k}" for k in range(1, 2 * half)))
CLUSTERS = NODES.flatmap(lambda nodes: st.tuples(st.just(nodes), st.sampled_from(nodes)))
CHOICES = st.integers(0, 1 << 16)


@given(CLUSTERS, CHOICES, st.sampled_from(NODE_SELECTORS))
def test_picked_nodes_are_nodes_in_their_order(
    cluster: tuple[tuple[str, ...], str], choice: int, selector: str
) -> None:
    nodes, leader = cluster
    picked = pick(selector, nodes, leader, (), choice)
    assert list(picked) == [node for node in nodes if node in picked]
    assert picked == pick(selector, nodes, leader, (), choice)


@given(CLUSTERS, CHOICES)
def test_a_minority_leaves_a_quorum_and_a_majority_does_not(
    cluster: tuple[tuple[str, ...], str], choice: int
) -> None:
    nodes, leader = cluster
    quorum = len(nodes) // 2 + 1
    assert len(nodes) - len(pick("minority", nodes, leader, (), choice)) >= quorum
    assert len(nodes) - len(pick("majority", nodes, leader, (), choice)) < quorum
    assert is_of_many("majority")
    assert not is_of_many("minority")


@given(CLUSTERS, CHOICES)
def test_followers_are_all_nodes_but_the_leader(
    cluster: tuple[tuple[str, ...], str], choice: int
) -> None:
    nodes, leader = cluster
    assert set(pick("followers", nodes, leader, (), choice)) == set(nodes) - {leader}
    assert pick("follower", nodes, leader, (), choice) in [
        (node,) for node in nodes if node != leader
    ] + [()]


def test_a_single_node_is_chosen_among_those_that_no_fault_holds() -> None:
    nodes = ("n1", "n2", "n3")
    assert {pick("one", nodes, "n1", ["n2"], choice) for choice in range(9)} == {("n1",), ("n3",)}
    assert pick("one", nodes, "n1", nodes, 0) == ()
    assert pick("follower", nodes, "n1", ["n2", "n3"], 0) == ()


def test_nodes_by_name_are_those_nodes_or_none() -> None:
    nodes = ("n1", "n2", "n3")
    assert pick("n3+n1", nodes, "n1", (), 5) == ("n3", "n1")
    assert pick("n1+n9", nodes, "n1", (), 5) == ()
    assert names_in("n1+n3") == ("n1", "n3")
    assert names_in("worker") == ()
    assert is_of_many("n1+n3")
    assert not is_of_many("n1")


@pytest.mark.parametrize("selector", ["worker", "supervisor"])
def test_workers_and_supervisors_are_no_nodes(selector: str) -> None:
    assert not is_of_nodes(selector)
