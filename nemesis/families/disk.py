"""Faults on what nodes have written, and on how their disks behave."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..damage_acts import (
    CONFIG,
    DamageFile,
    DamageOptions,
    DeleteSegment,
    OldCopyOptions,
    RestoreOld,
    draw_damage,
)
from ..disk_acts import (
    DISK_FAILED,
    FailingSyncs,
    FailingWrite,
    FailingWrites,
    FullDisk,
    FullDisks,
    SlowSync,
    SlowSyncs,
    StalledSyncs,
    draw_full,
    draw_slow,
)
from ..log_act import REFUSED, FlipLog
from ..power_act import LosePower, PowerLoss
from ..power_act import draw as draw_power
from ..selectors import ALL, FOLLOWER, LEADER, MAJORITY, MINORITY, ONE, SOME_NODES
from ..spec import NemesisSpec

_GATE: Final = frozenset({"sync-gate"})
_STALL_S: Final = (1.0, 4.0)
_WATCH_S: Final = (2.0, 6.0)

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="flip-log",
        sentence="kills all nodes, flips bits in the logs of most or all, starts them, and gives "
        "the bytes back to those that refuse",
        target="nodes",
        family="disk",
        takes=frozenset({"node", "lost"}),
        healing_s=5.0,
        exits=frozenset({REFUSED}),
    ),
    NemesisSpec(
        name="slow-sync",
        sentence="makes every sync of a node's disk wait first",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER, MINORITY, ALL),
        named=True,
        family="disk",
        needs=_GATE,
        takes=frozenset({"node"}),
        options=SlowSync,
        draw=draw_slow,
        duration_s=_STALL_S,
    ),
    NemesisSpec(
        name="stalled-sync",
        sentence="holds every sync of a node's disk for some seconds",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER, MINORITY),
        named=True,
        family="disk",
        needs=_GATE,
        takes=frozenset({"node", "pause"}),
        nodes_min=3,
        duration_s=_STALL_S,
    ),
    NemesisSpec(
        name="failing-sync",
        sentence="makes a node's syncs fail with EIO, at which it must stop, and starts it again",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="disk",
        needs=_GATE,
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
        exits=frozenset({DISK_FAILED}),
    ),
    NemesisSpec(
        name="failing-write",
        sentence="makes a node's writes fail with EIO, at which it must stop, and starts it again",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="disk",
        needs=_GATE,
        takes=frozenset({"node", "lost"}),
        options=FailingWrite,
        nodes_min=3,
        exits=frozenset({DISK_FAILED}),
    ),
    NemesisSpec(
        name="full-disk",
        sentence="lets a node's disk be full (ENOSPC) in the middle of a write, and starts the "
        "node again",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="disk",
        needs=_GATE,
        takes=frozenset({"node", "lost"}),
        options=FullDisk,
        draw=draw_full,
        nodes_min=3,
        exits=frozenset({DISK_FAILED}),
    ),
    NemesisSpec(
        name="power-loss",
        sentence="kills all nodes and takes what no sync had made durable from their logs",
        target="all",
        targets=SOME_NODES,
        drawn=(ALL, MAJORITY, LEADER, ONE),
        named=True,
        family="disk",
        needs=_GATE,
        takes=frozenset({"node", "lost"}),
        options=PowerLoss,
        draw=draw_power,
        healing_s=3.0,
    ),
    NemesisSpec(
        name="damage-file",
        sentence="damages one file of a node while it is down, and takes it in again "
        "as a new one if it runs on that",
        target="one",
        targets=(ONE, LEADER, FOLLOWER),
        named=True,
        family="disk",
        takes=frozenset({"node", "lost"}),
        options=DamageOptions,
        draw=draw_damage,
        nodes_min=3,
        duration_s=_WATCH_S,
        healing_s=8.0,
        exits=frozenset({CONFIG, REFUSED, DISK_FAILED}),
    ),
    NemesisSpec(
        name="delete-segment",
        sentence="deletes a sealed segment of a node's log while it is down",
        target="one",
        targets=(ONE, LEADER, FOLLOWER),
        named=True,
        family="disk",
        takes=frozenset({"node", "lost"}),
        nodes_min=3,
        duration_s=_WATCH_S,
        healing_s=8.0,
        exits=frozenset({CONFIG, REFUSED, DISK_FAILED}),
    ),
    NemesisSpec(
        name="restore-old",
        sentence="puts an old copy in the place of a node's data, and takes the node in "
        "again as a new one",
        target="one",
        targets=(ONE, LEADER, FOLLOWER),
        named=True,
        family="disk",
        takes=frozenset({"node", "lost"}),
        options=OldCopyOptions,
        nodes_min=3,
        duration_s=_WATCH_S,
        healing_s=8.0,
        exits=frozenset({CONFIG, REFUSED, DISK_FAILED}),
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "flip-log": FlipLog,
    "slow-sync": SlowSyncs,
    "stalled-sync": StalledSyncs,
    "failing-sync": FailingSyncs,
    "failing-write": FailingWrites,
    "full-disk": FullDisks,
    "power-loss": LosePower,
    "damage-file": DamageFile,
    "delete-segment": DeleteSegment,
    "restore-old": RestoreOld,
}
