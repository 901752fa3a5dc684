"""Nodes in a control group that bounds their memory or their CPU time."""

from __future__ import annotations

import os
import random
import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError, Stage, check_killed
from .cgroups import ControlGroup, Controller, NoControllerError
from .fault import Fault
from .node_acts import NodeAct
from .options import options_of
from .settings import NemesisSettings

_SEEN_WITHIN_S: Final = 3.0
_KIB: Final = 1024


class CpuQuota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of cpu-quota.

    Attributes:
        share: Of one CPU, that each target gets.
    """

    share: Annotated[float, Meta(ge=0.01, le=0.9)] = 0.1


class OomKill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of oom-kill.

    Attributes:
        headroom_kib: Each target may take so much more memory than it has, KiB.
    """

    headroom_kib: Annotated[int, Meta(ge=64, le=1 << 20)] = 256


def draw_quota(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """From a twentieth to a third of a CPU."""
    return {"share": stream.randrange(5, 34) / 100}


class _Grouped(NodeAct):
    """What both have in common: a group for each target, which is gone when the fault heals."""

    controller: Controller

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.groups: dict[str, ControlGroup] = {}

    def _gather(self) -> Sequence[ControlGroup]:
        """Make a group for each target, and move it in; `NoBiteError` if that cannot be."""
        for target in self.targets:
            name = f"atleastonce-{self.fault.id}-{target.name}-{os.urandom(4).hex()}"
            try:
                group = ControlGroup(name, (self.controller,))
            except NoControllerError as error:
                raise NoBiteError(str(error)) from None
            self.stage.owe(self.fault, {"control-group": group.thing()})
            group.make()
            self.groups[target.name] = group
            self._bound(group)
            group.admit(target.pid)
        return list(self.groups.values())

    @abstractmethod
    def _bound(self, group: ControlGroup) -> None:
        """Give a group its bound."""

    async def _release(self) -> dict[str, Json]:
        """Remove the groups; what they counted, by target."""
        counted: dict[str, Json] = {}
        for name, group in self.groups.items():
            counted[name] = dict(group.read())
            await trio.to_thread.run_sync(group.release)
        self.groups.clear()
        return counted


class NarrowCpu(_Grouped):
    """cpu-quota: a share of one CPU for a while; the kernel counts how often it held the node."""

    controller: Controller = "cpu"

    def _bound(self, group: ControlGroup) -> None:
        group.bound_cpu(options_of(self.fault, CpuQuota).share)

    async def bite(self) -> Evidence:
        """See `Act`."""
        groups = self._gather()
        self.bitten_s = time.monotonic()
        with trio.move_on_after(_SEEN_WITHIN_S):
            while not all(group.read().get("nr_throttled") for group in groups):
                await trio.sleep(POLL_S)
            return {"throttled": {name: dict(g.read()) for name, g in self.groups.items()}}
        raise NoBiteError(f"{self.hit} needed no more CPU than it got")

    async def heal(self) -> Evidence:
        """See `Act`."""
        return self.seen_meanwhile() | {"counted": await self._release()}


class KillByMemory(_Grouped):
    """oom-kill: no more memory for a node, until the kernel kills it for wanting some."""

    controller: Controller = "memory"

    def _bound(self, group: ControlGroup) -> None:
        group.bound_memory(options_of(self.fault, OomKill).headroom_kib * _KIB)

    async def bite(self) -> Evidence:
        """See `Act`."""
        self._gather()
        self.bitten_s = time.monotonic()
        self.told_to_end = True
        statuses: Evidence = {}
        with trio.move_on_after(self.stage.settings.exit_wait_s):
            for target in self.targets:
                status = await self.stage.world.wait_exit(target)
                check_killed(target, status)
                statuses[target.name] = status
        counted: dict[str, Json] = {n: dict(group.read()) for n, group in self.groups.items()}
        if len(statuses) < len(self.targets):
            raise NoBiteError(f"{self.hit} lived on without more memory: {counted}")
        return {"statuses": statuses, "counted": counted}

    async def heal(self) -> Evidence:
        """See `Act`."""
        await self._release()
        return self.seen_meanwhile() | await self.start_again()
