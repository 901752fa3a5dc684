"""Faults on clocks."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..clock_act import (
    BumpClock,
    BumpOptions,
    DriftClock,
    DriftOptions,
    StrobeClock,
    StrobeOptions,
    draw_drift,
    draw_strobe,
)
from ..selectors import ALL, LEADER, ONE, SOME_NODES
from ..spec import NemesisSpec
from ..time_act import ShiftMonotonic, ShiftOptions
from ..time_act import draw as draw_shift

_HOOKS: Final = frozenset({"clock-hooks"})
_MOVING_S: Final = (1.0, 5.0)

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="bump-clock",
        sentence="moves the leading node's time of day by up to five minutes, either way, and back",
        target="leader",
        targets=SOME_NODES,
        named=True,
        family="clock",
        needs=_HOOKS,
        options=BumpOptions,
    ),
    NemesisSpec(
        name="drift-clock",
        sentence="lets a node's time of day run ahead, fall behind or run backwards, and puts it "
        "right",
        target="leader",
        targets=SOME_NODES,
        drawn=(LEADER, ONE, ALL),
        named=True,
        family="clock",
        needs=_HOOKS,
        options=DriftOptions,
        draw=draw_drift,
        duration_s=_MOVING_S,
    ),
    NemesisSpec(
        name="strobe-clock",
        sentence="lets a node's time of day jump to and fro, by up to five minutes either way",
        target="one",
        targets=SOME_NODES,
        drawn=(LEADER, ONE, ALL),
        named=True,
        family="clock",
        needs=_HOOKS,
        options=StrobeOptions,
        draw=draw_strobe,
        duration_s=_MOVING_S,
    ),
    NemesisSpec(
        name="shift-monotonic",
        sentence="kills a node and starts it with a monotonic clock of its own, far ahead, and "
        "then again with everybody's",
        target="one",
        targets=SOME_NODES,
        drawn=(ONE, LEADER),
        named=True,
        family="clock",
        needs=frozenset({"time-namespace"}),
        takes=frozenset({"node", "lost"}),
        options=ShiftOptions,
        draw=draw_shift,
        nodes_min=3,
        duration_s=_MOVING_S,
        healing_s=2.0,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "bump-clock": BumpClock,
    "drift-clock": DriftClock,
    "strobe-clock": StrobeClock,
    "shift-monotonic": ShiftMonotonic,
}
