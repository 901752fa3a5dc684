"""Faults on clocks."""

from __future__ import annotations

from typing import Final

from ..acts import MakeAct
from ..clock_act import BumpClock
from ..spec import NemesisSpec

SPECS: Final[tuple[NemesisSpec, ...]] = (
    NemesisSpec(
        name="bump-clock",
        sentence="moves the leading node's time of day by up to five minutes, either way, and back",
        target="leader",
        family="clock",
    ),
)

ACTS: Final[dict[str, MakeAct]] = {"bump-clock": BumpClock}
