"""Nodes in a control group that bounds their CPU time."""

from __future__ import annotations

import os
import random
import time
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, Stage, already_gone
from .cgroups import ControlGroup, Controller, NoControllerError
from .fault import Fault
from .node_acts import NodeAct
from .options import options_of
from .settings import NemesisSettings
from .world import Target

_SEEN_WITHIN_S: Final = 4.0


class CpuQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of cpu-quota.

    Attributes:
        share: Of one CPU, that each target gets.
    """

    share: Annotated[float, Meta(ge=0.01, le=0.9)] = 0.02


def draw_quota(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """From one to four hundredths of a CPU: a node under light load needs little more."""
    return {"share": stream.randrange(1, 5) / 100}


class GroupAct(NodeAct):
    """What faults by control groups have in common: one for each target, released at the end."""

    controller: Controller

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.groups: dict[Target, ControlGroup] = {}

    def bound(self, group: ControlGroup) -> None:
        """Bound a group before its process comes in."""
        raise AssertionError(f"{self.fault.kind} has no bound for {group.name}")

    def enclose(self) -> None:
        """Put every target into a bounded group of its own; `NoBiteError` if one cannot be."""
        for target in self.targets:
            name = f"atleastonce-{self.fault.id}-{target.name}-{os.urandom(4).hex()}"
            try:
                group = ControlGroup(name, (self.controller,))
            except NoControllerError as error:
                raise NoBiteError(str(error)) from None
            self.stage.owe(self.fault, {"control-group": group.thing()})
            group.make()
            self.groups[target] = group
            self.bound(group)
            try:
                group.admit(target.pid)
            except (ProcessLookupError, FileNotFoundError):
                raise already_gone(target) from None
        self.bitten_s = time.monotonic()

    async def release(self) -> None:
        """Let all processes go back to where they were."""
        for group in self.groups.values():
            await trio.to_thread.run_sync(group.release)


class NarrowCpu(GroupAct):
    """cpu-quota: a share of one CPU for a while; the kernel counts how often it held the node."""

    controller = "cpu"

    def bound(self, group: ControlGroup) -> None:
        """See `GroupAct`."""
        group.bound_cpu(options_of(self.fault, CpuQuota).share)

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.enclose()
        with trio.move_on_after(_SEEN_WITHIN_S):
            while not all(group.read().get("nr_throttled") for group in self.groups.values()):
                await trio.sleep(POLL_S)
            return {"throttled": self._counted()}
        raise NoBiteError(f"{self.hit} needed no more CPU than it got")

    def _counted(self) -> dict[str, Json]:
        return {target.name: dict(group.read()) for target, group in self.groups.items()}

    async def heal(self) -> Evidence:
        """See `Act`."""
        counted = self._counted()
        await self.release()
        return self.seen_meanwhile() | {"counted": counted}
