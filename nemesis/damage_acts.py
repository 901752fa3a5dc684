"""Faults that damage what a node has on its disk while it is down, and watch what it makes of it.

Only one node at a time is damaged, and no other fault holds a node meanwhile, so that the others
have all that was acknowledged. What comes after depends on the node: one that refuses to start
never ran on the damage, and gets its bytes back. One that ran may have lost what it had
acknowledged, or its vote; it is removed, wiped, and taken in again as another server.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, Stage
from .damage import (
    How,
    NothingToDamageError,
    What,
    damage,
    delete_segment,
    files_of,
    replace_folder,
)
from .fault import Fault
from .log_act import exit_status
from .node_acts import KillNodes
from .options import options_of
from .process import is_alive
from .rejoining import Rejoining
from .settings import NemesisSettings

CONFIG: Final = 2
"""Exit status of a node that refuses its settings, or an identity that it cannot read."""

_SETTLE_S: Final = 10.0
_LOOK_S: Final = 0.002
_TRIES: Final = 4
_WHATS: Final[tuple[What, ...]] = ("log", "log", "log", "vote", "checkpoint", "checkpoint",
                                   "pointer", "identity")  # fmt: skip

Outcome = Literal["booted", "refused", "died at the start", "died later"]


class DamageOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of damage-file.

    Attributes:
        what: The file: the log, the vote in it, the checkpoint, what points at the files of
            either, or the identity.
        how: Flip about two bits, cut off a tail, or zero a page.
    """

    what: What = "log"
    how: How = "flip"


class OldCopyOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of restore-old.

    Attributes:
        age_s: So much is written after the copy was made, in seconds.
    """

    age_s: Annotated[float, Meta(ge=0.1, le=600)] = 2.0


def draw_damage(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """Which file, and how."""
    return {
        "what": stream.choice(_WHATS),
        "how": stream.choice(("flip", "flip", "truncate", "zero")),
    }


class DamageNode(KillNodes):
    """What these faults have in common."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.rejoining = Rejoining(stage)
        self.stream = random.Random(fault.choice)
        self.was_started = False
        self.outcome: Outcome | None = None
        self.status: int | None = None

    @property
    def node(self) -> str:
        """The node that is damaged."""
        return self.targets[0].name

    @property
    def folder(self) -> Path:
        """Its data."""
        return self.stage.world.node_data(self.node)

    @property
    def kept(self) -> Path:
        """A copy of its data from before the damage."""
        return self.folder.with_name(f"{self.node}.before")

    async def _claim(self) -> bool:
        """All nodes: the others must have everything while this one is damaged."""
        nodes = frozenset(self.stage.world.nodes())
        if self.stage.claims.intersection(nodes) or not await super()._claim():
            return False
        self.claimed = nodes
        self.stage.claims |= nodes
        return True

    async def bite(self) -> Evidence:
        """See `Act`."""
        await self._wait_whole()
        await self.prepare()
        killed = await super().bite()
        await self._wait_whole(but=self.node)
        shutil.rmtree(self.kept, ignore_errors=True)
        await trio.to_thread.run_sync(shutil.copytree, self.folder, self.kept)
        return killed | self.do()

    async def prepare(self) -> None:
        """Wait until there is something to damage."""

    async def start_over(self) -> None:
        """Start the node again, and wait until it has caught up."""
        world = self.stage.world
        await world.start_node(self.node)
        self.targets = (world.node_process(self.node),)
        self.told_to_end = False
        await world.wait_node_healthy(self.node, self.stage.settings.recover_wait_s)

    def do(self) -> Evidence:
        """Damage the node's data; returns what was done."""
        raise AssertionError(f"{self.fault.kind} does no damage")

    async def _wait_whole(self, but: str = "") -> None:
        """Wait until the nodes, but one, are healthy and have what their leader has."""
        world = self.stage.world
        with trio.move_on_after(_SETTLE_S):
            for node in world.nodes():
                if node != but:
                    await world.wait_node_healthy(node, _SETTLE_S)
            while True:
                members = await world.administration().members()
                if members is not None and all(
                    member.lag is not None and member.lag <= 1
                    for node, member in members.items()
                    if node != but
                ):
                    return
                await trio.sleep(POLL_S)
        raise NoBiteError(f"the other nodes were not whole for {_SETTLE_S:g} s")

    async def hold(self) -> None:
        """See `Act`: start the node on the damage, and watch it."""
        world = self.stage.world
        self.was_started = True
        await world.start_node(self.node)
        target = world.node_process(self.node)
        self.status = await exit_status(world, target)
        if self.status is not None:
            refused = self.status in self.refusals
            self.outcome = "refused" if refused else "died at the start"
            return
        self.outcome = "booted"
        with trio.move_on_after(self.fault.duration_s):
            self.status = os.waitstatus_to_exitcode(await world.wait_exit(target))
            self.outcome = "died later"

    @property
    def refusals(self) -> frozenset[int]:
        """Exit statuses of a node that has not run."""
        return frozenset({70, CONFIG})

    async def heal(self) -> Evidence:
        """See `Act`."""
        began_s = time.monotonic()
        told: Evidence = {"outcome": self.outcome, "status": self.status}
        if self.told_to_end and (not self.was_started or self.outcome == "refused"):
            # It has not run since its copy was made, so nobody has heard anything else of it.
            if self.kept.is_dir():
                await trio.to_thread.run_sync(replace_folder, self.folder, self.kept)
            if not is_alive(self.stage.world.node_process(self.node)):
                await self.stage.world.start_node(self.node)
            told["bytes"] = "given back"
        elif self.was_started:
            word = await self.rejoining.change("remove", self.node)
            await self.rejoining.wipe(self.node)
            told |= {"removed": word} | await self.rejoining.rejoin(self.node)
            told |= self.rejoining.told
        shutil.rmtree(self.kept, ignore_errors=True)
        return self.seen_meanwhile() | told | {"healed_s": round(time.monotonic() - began_s, 3)}


class DamageFile(DamageNode):
    """damage-file: bits, a tail or a page of one file."""

    def do(self) -> Evidence:
        """See `DamageNode`."""
        options = options_of(self.fault, DamageOptions)
        changes = damage(self.folder, options.what, options.how, self.stream)
        done: list[Json] = [change.told() for change in changes]
        return {"what": options.what, "how": options.how, "damaged": done}


class DeleteSegment(DamageNode):
    """delete-segment: a sealed segment of the log is gone."""

    async def prepare(self) -> None:
        """See `DamageNode`: a checkpoint soon deletes what it has made superfluous."""
        with trio.move_on_after(self.stage.settings.leader_wait_s):
            while len(files_of(self.folder, "log")) < 2:
                await trio.sleep(_LOOK_S)

    async def bite(self) -> Evidence:
        """See `Act`. Tries again where a checkpoint was faster."""
        for _ in range(_TRIES - 1):
            try:
                return await super().bite()
            except NothingToDamageError:
                await self.start_over()
        return await super().bite()

    def do(self) -> Evidence:
        """See `DamageNode`."""
        done: list[Json] = [change.told() for change in delete_segment(self.folder, self.stream)]
        return {"deleted": done}


class RestoreOld(DamageNode):
    """restore-old: the data of some seconds ago is put in the place of today's."""

    @property
    def old(self) -> Path:
        """The old copy."""
        return self.folder.with_name(f"{self.node}.old")

    async def bite(self) -> Evidence:
        """See `Act`: stop it for a copy, let it run on, and stop it again."""
        age_s = options_of(self.fault, OldCopyOptions).age_s
        await self._wait_whole()
        first = await KillNodes.bite(self)
        shutil.rmtree(self.old, ignore_errors=True)
        await trio.to_thread.run_sync(shutil.copytree, self.folder, self.old)
        await self.start_over()
        await trio.sleep(age_s)
        return {"before": first} | await super().bite()

    def do(self) -> Evidence:
        """See `DamageNode`."""
        size = replace_folder(self.folder, self.old)
        shutil.rmtree(self.old, ignore_errors=True)
        return {"old_copy_bytes": size, "age_s": options_of(self.fault, OldCopyOptions).age_s}
