"""Faults that only root can have: on real file systems and control groups."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..group_acts import CpuQuota, NarrowCpu, draw_quota
from ..levels import CGROUPS, REAL_EXT4
from ..oom_act import KillByMemory, OomKill, draw_oom
from ..power_cut_act import CutPower
from ..selectors import LEADER, ONE, SOME_NODES
from ..spec import NemesisSpec

SPECS: Final = (
    NemesisSpec(
        name="power-cut",
        sentence="cuts the power of the file system under a node, which loses whatever it has not "
        "synced, files and names, kills the node and starts it again",
        target=ONE,
        targets=SOME_NODES,
        named=True,
        family="disk",
        needs=frozenset({REAL_EXT4}),
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
        healing_s=2.0,
    ),
    NemesisSpec(
        name="cpu-quota",
        sentence="gives a node a small share of one CPU, by a control group",
        target=ONE,
        targets=SOME_NODES,
        named=True,
        family="process",
        needs=frozenset({CGROUPS}),
        takes=frozenset({"node", "pause"}),
        options=CpuQuota,
        draw=draw_quota,
        nodes_min=3,
        healing_s=2.0,
        duration_s=(2.0, 5.0),
    ),
    NemesisSpec(
        name="oom-kill",
        sentence="bounds the memory of a node by a control group, until the kernel kills it, and "
        "starts it again",
        target=ONE,
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="process",
        needs=frozenset({CGROUPS}),
        takes=frozenset({"node", "lost"}),
        options=OomKill,
        draw=draw_oom,
        nodes_min=3,
        healing_s=2.0,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "power-cut": CutPower,
    "cpu-quota": NarrowCpu,
    "oom-kill": KillByMemory,
}
