"""Faults on what nodes have written, and on how their disks behave."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..log_act import FlipLog
from ..spec import NemesisSpec

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="flip-log",
        sentence="kills all nodes, flips bits in the logs of most or all, starts them, and gives "
        "the bytes back to those that refuse",
        target="nodes",
        family="disk",
        takes=frozenset({"node", "lost"}),
        healing_s=5.0,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {"flip-log": FlipLog}
