"""Faults on clocks."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..clock_act import BumpClock, DriftClock, StrobeClock
from ..clock_shapes import BumpOptions, DriftOptions, StrobeOptions, draw_drift, draw_strobe
from ..selectors import ALL, LEADER, ONE, SOME_NODES, SUPERVISOR
from ..spec import NemesisSpec
from ..supervisor_clock_act import (
    BumpSupervisorClock,
    DriftSupervisorClock,
    StrobeSupervisorClock,
)
from ..time_act import ShiftMonotonic, ShiftOptions
from ..time_act import draw as draw_shift

_HOOKS: Final = frozenset({"clock-hooks"})
_SHIM: Final = frozenset({"clock-shim"})
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
    NemesisSpec(
        name="bump-supervisor-clock",
        sentence="moves the time of day of the supervisor, its workers and all that they start by "
        "up to five minutes, either way, and back",
        target=SUPERVISOR,
        family="clock",
        needs=_SHIM,
        options=BumpOptions,
    ),
    NemesisSpec(
        name="drift-supervisor-clock",
        sentence="lets the supervisor's and its workers' time of day run ahead, fall behind or run "
        "backwards, and puts it right",
        target=SUPERVISOR,
        family="clock",
        needs=_SHIM,
        options=DriftOptions,
        draw=draw_drift,
        duration_s=_MOVING_S,
    ),
    NemesisSpec(
        name="strobe-supervisor-clock",
        sentence="lets the supervisor's and its workers' time of day jump to and fro, by up to "
        "five minutes either way",
        target=SUPERVISOR,
        family="clock",
        needs=_SHIM,
        options=StrobeOptions,
        draw=draw_strobe,
        duration_s=_MOVING_S,
    ),
)

ACTS: Final[dict[str, MakeAct]] = {
    "bump-clock": BumpClock,
    "drift-clock": DriftClock,
    "strobe-clock": StrobeClock,
    "shift-monotonic": ShiftMonotonic,
    "bump-supervisor-clock": BumpSupervisorClock,
    "drift-supervisor-clock": DriftSupervisorClock,
    "strobe-supervisor-clock": StrobeSupervisorClock,
}
