"""A partition, then a power loss: those who were behind decide with one who lost power."""

from __future__ import annotations

import random
import signal
import time
from typing import Final

import trio

from ..histories.ops import Json
from .acts import Evidence, NoBiteError, Stage, check_killed, exit_of, see_gone, send_or_no_bite
from .fault import Fault
from .grudges import split
from .link_counts import shown
from .links import LinkRule
from .net_acts import LinkAct, Rules, both_ways
from .node_acts import describe
from .private_network import CLIENTS, WORKERS
from .world import Target

_STALE_S: Final = 0.001


class PartKill(LinkAct):
    """part-kill: some are cut off; another loses power; the rest is cut off, the first joined.

    A node loses power when it is cut off from everybody, so that nobody sees its sockets close,
    and then killed. With `disk=lossy` it also loses what it has not synced.
    """

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self._seen: dict[str, Json] = {}
        self._killed: Target | None = None

    def context(self) -> Evidence:
        """See `Act`: which of the nodes are hit is told by the effect."""
        self._seen = describe(self.stage.world, self.claimed)
        return {"leader": self.leader}

    def names(self) -> tuple[str, ...]:
        """See `LinkAct`."""
        return tuple(f"{self.fault.id}.{step}" for step in ("behind", "power", "rest"))

    def _apart(self, group: list[str]) -> Rules:
        others = [node for node in self.nodes if node not in group]
        return dict.fromkeys(split(self.nodes, (group, others)), LinkRule(drop=True))

    async def bite(self) -> Evidence:
        """See `Act`."""
        nodes = sorted(self.claimed)
        random.Random(self.fault.choice).shuffle(nodes)
        few = (len(nodes) - 1) // 2
        behind, crasher, rest = nodes[:few], nodes[few], nodes[few + 1 :]
        ends = (*self.nodes, CLIENTS, WORKERS)
        off = LinkRule(drop=True, reset_after_s=_STALE_S)
        power = dict.fromkeys(both_ways((crasher,), ends), off)
        self.rules = {**self._apart(behind), **power, **self._apart(rest)}
        cut_behind, cut_power, cut_rest = self.names()
        self.bitten_s = time.monotonic()
        await self.begin(cut_behind, self._apart(behind))
        await trio.sleep(self.fault.duration_s / 2)
        held = await self.total()
        if not held.dropped:
            raise NoBiteError(f"nothing was dropped between {', '.join(behind)} and the others")
        await self.begin(cut_power, power)
        target = self.stage.world.node_process(crasher)
        self._killed = target
        send_or_no_bite(target, signal.SIGKILL)
        status = await exit_of(self.stage, target)
        check_killed(target, status)
        await self.begin(cut_rest, self._apart(rest))
        await self.links.end(cut_behind)
        await self.links.end(cut_power)
        await self.stage.world.start_node(crasher)
        return {
            "signal": "SIGKILL",
            "status": status,
            "behind": list(behind),
            "killed": crasher,
            "cut": list(rest),
            "counts": dict(shown(held)),
            "behind_s": round(time.monotonic() - self.bitten_s, 3),
            "nodes": self._seen,
        }

    async def hold(self) -> None:
        """See `Act`: the second half, in which the new majority serves."""
        with trio.move_on_after(self.fault.duration_s / 2):
            await trio.sleep_forever()

    async def heal(self) -> Evidence:
        """See `Act`."""
        healed = await super().heal()
        world = self.stage.world
        if self._killed is not None:
            # It alone: the others were only cut off, and run on.
            await see_gone(self.stage, self._killed)
        self.targets = tuple(world.node_process(node) for node in sorted(self.claimed))
        return healed | await self.start_again()
