"""A node's time of day, wrong for a while."""

from __future__ import annotations

import time

import trio

from .acts import POLL_S, Evidence, NoBiteError
from .clock_shapes import Bump, Clocks, Drift, Strobe, within_us
from .node_acts import NodeAct


class NodeClocks(NodeAct, Clocks):
    """The time of day of nodes, which each of them reads through a file."""

    def set_all(self, error_us: int) -> None:
        """Make the clocks wrong by so much."""
        for target in self.targets:
            self.stage.world.set_time_of_day_error(target.name, error_us)

    async def step_all(self, step: int) -> dict[str, float | None]:
        """Make the clocks wrong by so much; returns by what each node's was seen to be, in s."""
        self.set_all(step)
        return {target.name: await self._see(target.name, step) for target in self.targets}

    async def _see(self, node: str, step: int) -> float | None:
        with trio.move_on_after(self.stage.settings.exit_wait_s):
            while True:
                seen_us = await self.stage.world.time_of_day_error_us(node)
                if seen_us is not None and abs(seen_us - step) < within_us(step):
                    return seen_us / 1e6
                await trio.sleep(POLL_S)
        return None

    async def demand(self, step: int) -> Evidence:
        """Step the clocks; `NoBiteError` if one does not show it."""
        seen = await self.step_all(step)
        missed = [node for node, seen_s in seen.items() if seen_s is None]
        if missed:
            names = ", ".join(missed)
            raise NoBiteError(f"{names} was not seen with its clock moved by {step / 1e6:g} s")
        self.bitten_s = time.monotonic()
        return {"step_s": step / 1e6} | _told(seen)

    async def heal(self) -> Evidence:
        """See `Act`."""
        return self.seen_meanwhile() | _told(await self.step_all(0))


class BumpClock(Bump, NodeClocks):
    """bump-clock: see `Bump`."""


class DriftClock(Drift, NodeClocks):
    """drift-clock: see `Drift`."""


class StrobeClock(Strobe, NodeClocks):
    """strobe-clock: see `Strobe`."""


def _told(seen: dict[str, float | None]) -> Evidence:
    """What was seen: one number if one node was hit, else one a node."""
    by_node: Evidence = dict(seen)
    return {"seen_s": next(iter(by_node.values())) if len(by_node) == 1 else by_node}
