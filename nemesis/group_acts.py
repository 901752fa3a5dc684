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
from .acts import POLL_S, Evidence, NoBiteError, Stage
from .cgroups import ControlGroup, NoControllerError
from .fault import Fault
from .node_acts import NodeAct
from .options import options_of
from .settings import NemesisSettings

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


class NarrowCpu(NodeAct):
    """cpu-quota: a share of one CPU for a while; the kernel counts how often it held the node."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.groups: dict[str, ControlGroup] = {}

    async def bite(self) -> Evidence:
        """See `Act`."""
        share = options_of(self.fault, CpuQuota).share
        for target in self.targets:
            name = f"atleastonce-{self.fault.id}-{target.name}-{os.urandom(4).hex()}"
            try:
                group = ControlGroup(name, ("cpu",))
            except NoControllerError as error:
                raise NoBiteError(str(error)) from None
            self.stage.owe(self.fault, {"control-group": group.thing()})
            group.make()
            self.groups[target.name] = group
            group.bound_cpu(share)
            group.admit(target.pid)
        self.bitten_s = time.monotonic()
        with trio.move_on_after(_SEEN_WITHIN_S):
            while not all(group.read().get("nr_throttled") for group in self.groups.values()):
                await trio.sleep(POLL_S)
            return {"throttled": {name: dict(g.read()) for name, g in self.groups.items()}}
        raise NoBiteError(f"{self.hit} needed no more CPU than it got")

    async def heal(self) -> Evidence:
        """See `Act`."""
        counted: dict[str, Json] = {}
        for name, group in self.groups.items():
            counted[name] = dict(group.read())
            await trio.to_thread.run_sync(group.release)
        return self.seen_meanwhile() | {"counted": counted}
