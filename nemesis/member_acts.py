"""Faults on the membership: nodes removed, wiped, and taken in again as new servers."""

from __future__ import annotations

import time

import trio

from .acts import Evidence, NoBiteError, Stage
from .fault import Fault
from .node_acts import NodeAct
from .process import is_alive
from .rejoining import Rejoining, is_done


class RejoinMembers(NodeAct):
    """rejoin-member, replace-leader, rejoin-two: remove, kill, wipe; later add and promote.

    A change that is refused ends the cycle: refusing is right while it would cost the quorum.
    """

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.rejoining = Rejoining(stage)
        self.removed: list[str] = []
        self.wiped: dict[str, int] = {}
        self.told = 0

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.bitten_s = time.monotonic()
        for target in self.targets:
            if not is_done(await self.rejoining.change("remove", target.name)):
                break
            self.removed.append(target.name)
        if not self.rejoining.changes:
            raise NoBiteError(f"nobody was asked to remove {self.hit}")
        await self._wipe(self.removed)
        self.told = len(self.rejoining.changes)
        return self.rejoining.told | {"removed": [*self.removed], "wiped_bytes": {**self.wiped}}

    async def _wipe(self, nodes: list[str]) -> None:
        self.told_to_end = True
        for node in nodes:
            self.wiped[node] = await self.rejoining.wipe(node)

    async def hold(self) -> None:
        """See `Act`."""
        if self.wiped:
            await super().hold()

    async def heal(self) -> Evidence:
        """See `Act`. Whatever was cut short, each node ends as a voter."""
        rejoined: Evidence = {}
        for target in self.targets:
            rejoined[target.name] = await self.rejoining.rejoin(target.name)
        changes: Evidence = {"changes": self.rejoining.changes[self.told :]}
        return self.seen_meanwhile() | changes | {"rejoined": rejoined}


class WipeMembers(RejoinMembers):
    """wipe-rejoin: a disk is lost unannounced; the node comes back empty and is replaced."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.bitten_s = time.monotonic()
        await self._wipe([target.name for target in self.targets])
        return {"wiped_bytes": {**self.wiped}}

    async def heal(self) -> Evidence:
        """See `Act`."""
        for target in self.targets:
            if not is_alive(target):
                await self.stage.world.start_node(target.name)
            # The leader meets it before it can tell that it is another server.
            while self.wiped and not is_done(await self.rejoining.change("replace", target.name)):
                await trio.sleep(0.2)
        return await super().heal()
