"""Selectors: which nodes a fault's target means, in the cluster as it is when the fault begins."""

from __future__ import annotations

import random
from collections.abc import Collection, Sequence
from typing import Final

LEADER: Final = "leader"
FOLLOWER: Final = "follower"
FOLLOWERS: Final = "followers"
ONE: Final = "one"
MINORITY: Final = "minority"
MAJORITY: Final = "majority"
RING: Final = "ring"
ALL: Final = "all"
NODES: Final = "nodes"
"""Another word for `all`, the one of faults that know no other target."""

NODE_SELECTORS: Final = (
    LEADER, FOLLOWER, FOLLOWERS, ONE, MINORITY, MAJORITY, RING, ALL, NODES,
)  # fmt: skip
SOME_NODES: Final = (ONE, LEADER, FOLLOWER, FOLLOWERS, MINORITY, MAJORITY, ALL)
"""What a fault on any number of nodes takes."""

WORKER: Final = "worker"
SUPERVISOR: Final = "supervisor"
BACKEND: Final = "backend"
OTHERS: Final = (WORKER, SUPERVISOR, BACKEND)

_JOIN: Final = "+"


def names_in(selector: str) -> tuple[str, ...]:
    """The nodes that a selector names, such as `n1+n3`; none if it is a role."""
    if selector in NODE_SELECTORS or selector in OTHERS or not selector:
        return ()
    return tuple(selector.split(_JOIN))


def is_of_nodes(selector: str) -> bool:
    """Whether it selects nodes, by role or by name."""
    return selector in NODE_SELECTORS or bool(names_in(selector))


def is_of_many(selector: str) -> bool:
    """Whether it may select so many nodes that no quorum is left to other faults."""
    return selector in (FOLLOWERS, MAJORITY, RING, ALL, NODES) or len(names_in(selector)) > 1


def takes_many(selector: str) -> bool:
    """Whether it may select more than one node."""
    return selector == MINORITY or is_of_many(selector)


def pick(
    selector: str,
    nodes: Sequence[str],
    leader: str,
    busy: Collection[str],
    choice: int,
) -> tuple[str, ...]:
    """Pick the nodes that a selector means now.

    Args:
        selector: A role of `NODE_SELECTORS`, or names.
        nodes: All nodes.
        leader: The one that leads.
        busy: Nodes that other faults hold; a single follower or node is chosen among the others.
        choice: Decides where a role leaves a choice.

    Returns:
        The nodes in order of `nodes`; none if all candidates are busy, or a name is unknown.
    """
    if selector == LEADER:
        return (leader,)
    if selector in (ALL, NODES, RING):
        return tuple(nodes)
    if selector == FOLLOWERS:
        return tuple(node for node in nodes if node != leader)
    if selector in (FOLLOWER, ONE):
        free = [node for node in nodes if node not in busy and (node != leader or selector == ONE)]
        return (free[choice % len(free)],) if free else ()
    if selector in (MINORITY, MAJORITY):
        size = (len(nodes) - 1) // 2 if selector == MINORITY else len(nodes) // 2 + 1
        chosen = random.Random(choice).sample(list(nodes), size)
        return tuple(node for node in nodes if node in chosen)
    named = names_in(selector)
    return named if set(named) <= set(nodes) else ()
