"""Faults on the set of nodes: removed, wiped, replaced, joined again."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..member_acts import RejoinMembers, WipeMembers
from ..selectors import FOLLOWER, LEADER, MINORITY, ONE
from ..spec import NemesisSpec, Takes

_AWAY_S: Final = (0.5, 3.0)
_HEALING_S: Final = 8.0
_TAKES: Final[frozenset[Takes]] = frozenset({"node", "lost"})

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="rejoin-member",
        sentence="removes a follower from the cluster, kills and wipes it, and takes it in again",
        target="follower",
        targets=(FOLLOWER, ONE),
        named=True,
        family="membership",
        takes=_TAKES,
        nodes_min=3,
        duration_s=_AWAY_S,
        healing_s=_HEALING_S,
    ),
    NemesisSpec(
        name="replace-leader",
        sentence="removes the leading node from the cluster, kills and wipes it, and takes it in "
        "again",
        target="leader",
        family="membership",
        takes=_TAKES,
        nodes_min=3,
        duration_s=_AWAY_S,
        healing_s=_HEALING_S,
    ),
    NemesisSpec(
        name="wipe-rejoin",
        sentence="kills a node whose disk is then lost, and replaces it by the empty one",
        target="one",
        targets=(ONE, LEADER, FOLLOWER),
        named=True,
        family="membership",
        takes=_TAKES,
        nodes_min=3,
        duration_s=_AWAY_S,
        healing_s=_HEALING_S,
    ),
    NemesisSpec(
        name="rejoin-two",
        sentence="removes two of five nodes from the cluster, wipes them, and takes them in again",
        target="minority",
        targets=(MINORITY,),
        named=True,
        family="membership",
        takes=_TAKES,
        nodes_min=5,
        duration_s=_AWAY_S,
        healing_s=2 * _HEALING_S,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "rejoin-member": RejoinMembers,
    "replace-leader": RejoinMembers,
    "wipe-rejoin": WipeMembers,
    "rejoin-two": RejoinMembers,
}
