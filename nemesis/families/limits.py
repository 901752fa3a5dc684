"""Faults on what a node's process may use."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..disk_acts import DISK_FAILED
from ..limit_acts import (
    OUT_OF_MEMORY,
    LimitFiles,
    LimitMemory,
    MemoryLimit,
    StarveCpu,
    Starving,
    draw_memory,
    draw_starving,
)
from ..selectors import LEADER, ONE, SOME_NODES
from ..spec import NemesisSpec

_LIMITS: Final = frozenset({"limits"})
_LASTS_S: Final = (1.0, 4.0)

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="limit-memory",
        sentence="gives a node hardly any more memory, while it needs some, and gives it back",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="process",
        needs=_LIMITS,
        takes=frozenset({"node", "lost"}),
        options=MemoryLimit,
        draw=draw_memory,
        nodes_min=3,
        duration_s=_LASTS_S,
        healing_s=3.0,
        exits=frozenset({OUT_OF_MEMORY, DISK_FAILED}),
    ),
    NemesisSpec(
        name="limit-files",
        sentence="gives a node no more descriptors, so that it accepts nobody, and gives them back",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="process",
        needs=_LIMITS,
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
        duration_s=_LASTS_S,
        healing_s=3.0,
        exits=frozenset({DISK_FAILED}),
    ),
    NemesisSpec(
        name="starve-cpu",
        sentence="lets a node run a few milliseconds at a time, and stops it in between",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="process",
        needs=frozenset({"signals"}),
        takes=frozenset({"node", "pause"}),
        options=Starving,
        draw=draw_starving,
        nodes_min=3,
        duration_s=_LASTS_S,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "limit-memory": LimitMemory,
    "limit-files": LimitFiles,
    "starve-cpu": StarveCpu,
}
