"""A leader's time of day, wrong for a while."""

from __future__ import annotations

import math
import random
import time
from typing import Final

import trio

from .acts import POLL_S, Evidence, NoBiteError
from .fault import Fault
from .node_acts import NodeAct

STEP_S_MIN: Final = 0.5
STEP_S_MAX: Final = 300.0
_SEEN_WITHIN_US: Final = 200_000
"""The node's own word for the step may be off by what asking it takes."""


def step_us(fault: Fault) -> int:
    """How far a fault moves the clock: either way, as often by a second as by minutes."""
    stream = random.Random(fault.choice)
    exponent = stream.uniform(math.log(STEP_S_MIN), math.log(STEP_S_MAX))
    return round(math.exp(exponent) * 1_000_000) * stream.choice((-1, 1))


class BumpClock(NodeAct):
    """bump-clock: step the leader's time of day, see that it took, and step it back."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        step = step_us(self.fault)
        seen_us = await self._step_to(step)
        if seen_us is None:
            raise NoBiteError(f"{self.hit} was not seen with its clock moved by {step / 1e6:g} s")
        self.bitten_s = time.monotonic()
        return {"step_s": step / 1e6, "seen_s": seen_us / 1e6}

    async def heal(self) -> Evidence:
        """See `Act`."""
        seen_us = await self._step_to(0)
        return self.seen_meanwhile() | {"seen_s": None if seen_us is None else seen_us / 1e6}

    async def _step_to(self, offset_us: int) -> int | None:
        """Make the clock wrong by so much; returns what the node then says, None for no answer."""
        node, world = self.targets[0].name, self.stage.world
        world.set_time_of_day_error(node, offset_us)
        with trio.move_on_after(self.stage.settings.exit_wait_s):
            while True:
                seen_us = await world.time_of_day_error_us(node)
                if seen_us is not None and abs(seen_us - offset_us) < _SEEN_WITHIN_US:
                    return seen_us
                await trio.sleep(POLL_S)
        return None
