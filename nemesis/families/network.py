"""Faults on the links between nodes, clients and workers."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..levels import LINKS, MESSAGES, SHAPES
from ..link_acts import (
    BetweenOptions,
    CutUsers,
    HalfOpen,
    NarrowLinks,
    NarrowOptions,
    RefuseConnections,
    ResetConnections,
    ResetOptions,
    SlowLinks,
    SlowOptions,
    draw_between,
    draw_narrow,
    draw_reset,
    draw_slow,
)
from ..part_kill import PartKill
from ..partition_acts import (
    CutOptions,
    FlapOptions,
    Flapping,
    LeaderDeaf,
    LeaderDeafToAnswers,
    OneWayOptions,
    Partition,
    PartitionOneWay,
    draw_cut,
    draw_flap,
    draw_one_way,
)
from ..selectors import ALL, FOLLOWER, LEADER, MAJORITY, ONE, RING, SOME_NODES
from ..spec import AT_ONCE, NemesisSpec, Takes

_LINKS: Final = frozenset({LINKS})
_SHAPES: Final = frozenset({SHAPES})
_MESSAGES: Final = frozenset({MESSAGES})
_LOST: Final[frozenset[Takes]] = frozenset({"node", "lost"})
_PATH: Final[frozenset[Takes]] = frozenset({"node"})


def _partition(name: str, sentence: str, target: str, targets: tuple[str, ...] = ()) -> NemesisSpec:
    return NemesisSpec(
        name=name,
        sentence=sentence,
        target=target,
        targets=targets,
        named=bool(targets),
        family="network",
        needs=_LINKS,
        takes=_LOST,
        options=CutOptions,
        draw=draw_cut,
        nodes_min=3,
        healing_s=2.0,
        duration_s=(2.0, 4.0),
    )


_PARTITIONS: Final = (
    _partition("partition-one", "cuts one node off from all others", ONE, (ONE, LEADER, FOLLOWER)),
    _partition("partition-leader", "cuts the leading node off from all others", LEADER),
    _partition(
        "partition-majority",
        "cuts each node of a majority off, so that no quorum is left",
        MAJORITY,
    ),
    _partition("partition-halves", "cuts the nodes into two halves", ALL),
    _partition("partition-third", "cuts a third of the nodes off as a group", ALL),
    _partition("partition-ring", "lets each node hear a majority, and no two the same one", RING),
    _partition(
        "partition-bridge",
        "cuts the nodes into halves that cannot talk, and one that both hear",
        ALL,
    ),
    NemesisSpec(
        name="partition-one-way",
        sentence="lets one node, or the leader, hear nobody, or be heard by nobody",
        target=ONE,
        drawn=(ONE, LEADER),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_LINKS,
        takes=_LOST,
        options=OneWayOptions,
        draw=draw_one_way,
        nodes_min=3,
        healing_s=2.0,
        duration_s=(2.0, 4.0),
    ),
    NemesisSpec(
        name="partition-flapping",
        sentence="cuts one node, or the leader, off and joins it again, over and over",
        target=ONE,
        drawn=(ONE, LEADER),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_LINKS,
        takes=_LOST,
        options=FlapOptions,
        draw=draw_flap,
        nodes_min=3,
        healing_s=2.0,
        duration_s=(3.0, 5.0),
    ),
    NemesisSpec(
        name="leader-deaf",
        sentence="lets the leading node be heard and hear nobody",
        target=LEADER,
        family="network",
        needs=_LINKS | {MESSAGES},
        takes=_LOST,
        options=CutOptions,
        draw=draw_cut,
        nodes_min=3,
        healing_s=2.0,
        duration_s=(2.0, 4.0),
    ),
    NemesisSpec(
        name="leader-deaf-answers",
        sentence="loses the answers to the leading node's appends and nothing else",
        target=LEADER,
        family="network",
        needs=_MESSAGES,
        takes=_LOST,
        nodes_min=3,
        healing_s=2.0,
        duration_s=(2.0, 4.0),
    ),
    NemesisSpec(
        name="part-kill",
        sentence="cuts some nodes off, cuts the power of one of the others, cuts the rest off and "
        "joins the first: those that are behind and one that lost power are the majority",
        target=ALL,
        family="network",
        needs=_LINKS,
        takes=frozenset({"stepwise", "node", "lost"}),
        nodes_min=3,
        healing_s=5.0,
        duration_s=(4.0, 7.0),
    ),
)

_USERS: Final = tuple(
    NemesisSpec(
        name=f"cut-{users}",
        sentence=f"cuts the {users} off from one node, the leader or all",
        target=ALL,
        drawn=(ONE, LEADER, ALL),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_LINKS,
        takes=_LOST,
        users=users,
        options=CutOptions,
        draw=draw_cut,
        overlaps=True,
        healing_s=2.0,
        duration_s=(1.5, 3.0),
    )
    for users in ("clients", "workers")
)

_CONNECTIONS: Final = (
    NemesisSpec(
        name="slow-links",
        sentence="makes all late that one node, the leader or all nodes say and hear",
        target=ONE,
        drawn=(ONE, LEADER, ALL),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_SHAPES,
        takes=_PATH,
        options=SlowOptions,
        draw=draw_slow,
        overlaps=True,
        duration_s=(2.0, 5.0),
    ),
    NemesisSpec(
        name="narrow-links",
        sentence="leaves one node, the leader or all nodes little bandwidth",
        target=ONE,
        drawn=(ONE, LEADER, ALL),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_SHAPES,
        takes=_PATH,
        options=NarrowOptions,
        draw=draw_narrow,
        overlaps=True,
        duration_s=(2.0, 5.0),
    ),
    NemesisSpec(
        name="reset-connections",
        sentence="resets the connections to one node, the leader or all, at both ends or at theirs",
        target=ONE,
        drawn=(ONE, LEADER, ALL),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_LINKS,
        takes=_PATH,
        options=ResetOptions,
        draw=draw_reset,
        overlaps=True,
        duration_s=AT_ONCE,
    ),
    NemesisSpec(
        name="refuse-connections",
        sentence="resets the connections to one node, the leader or all, and refuses new ones",
        target=ONE,
        drawn=(ONE, LEADER, ALL),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_LINKS,
        takes=_LOST,
        options=BetweenOptions,
        draw=draw_between,
        overlaps=True,
        healing_s=2.0,
        duration_s=(1.5, 3.0),
    ),
    NemesisSpec(
        name="half-open",
        sentence="has one node, the leader or all close their connections, "
        "and does not tell the other ends",
        target=ONE,
        drawn=(ONE, LEADER, ALL),
        targets=SOME_NODES,
        named=True,
        family="network",
        needs=_LINKS,
        takes=_LOST,
        options=BetweenOptions,
        draw=draw_between,
        overlaps=True,
        healing_s=2.0,
        duration_s=(1.5, 3.0),
    ),
)

SPECS: Final[tuple[NemesisSpec, ...]] = (*_PARTITIONS, *_USERS, *_CONNECTIONS)

ACTS: Final[dict[str, MakeAct]] = {
    **{spec.name: Partition for spec in _PARTITIONS},
    "partition-one-way": PartitionOneWay,
    "partition-flapping": Flapping,
    "leader-deaf": LeaderDeaf,
    "leader-deaf-answers": LeaderDeafToAnswers,
    "part-kill": PartKill,
    "cut-clients": CutUsers,
    "cut-workers": CutUsers,
    "slow-links": SlowLinks,
    "narrow-links": NarrowLinks,
    "reset-connections": ResetConnections,
    "refuse-connections": RefuseConnections,
    "half-open": HalfOpen,
}
