"""Nodes that the kernel kills for want of memory, in a control group that bounds it."""

from __future__ import annotations

import os
import random
import time
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import Evidence, NoBiteError, Stage, already_gone, check_killed, exit_of
from .cgroups import ControlGroup, NoControllerError
from .fault import Fault
from .node_acts import NodeAct
from .options import options_of
from .process import is_alive
from .settings import NemesisSettings
from .world import Target

_MIB: Final = 1 << 20
_PROBES: Final = 20
_PROBE_S: Final = 1.0


class OomKill(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of oom-kill.

    Attributes:
        more_mib: A node may take so much memory beside what it has, MiB.
        request_mib: Requests of this size are sent, so that it needs more, MiB.
    """

    more_mib: Annotated[int, Meta(ge=1, le=256)] = 1
    request_mib: Annotated[int, Meta(ge=1, le=60)] = 16


def draw_oom(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How soon it comes: within the first request, or after some work."""
    return {"more_mib": stream.choice((1, 2, 4, 8))}


class KillByMemory(NodeAct):
    """oom-kill: memory for hardly more than it has, large requests, and the kernel's SIGKILL."""

    def __init__(self, fault: Fault, stage: Stage) -> None:
        super().__init__(fault, stage)
        self.groups: dict[Target, ControlGroup] = {}

    async def bite(self) -> Evidence:
        """See `Act`."""
        options = options_of(self.fault, OomKill)
        begun_s = time.monotonic()
        for target in self.targets:
            self._bound(target, options.more_mib)
        self.bitten_s = time.monotonic()
        self.told_to_end = True
        async with trio.open_nursery() as nursery:
            for target in self.targets:
                nursery.start_soon(self._press, target, options.request_mib * _MIB)
        statuses: Evidence = {}
        kills: Evidence = {}
        for target, group in self.groups.items():
            if is_alive(target):
                raise NoBiteError(f"{target.name} got along with {options.more_mib} MiB more")
            statuses[target.name] = status = await exit_of(self.stage, target)
            check_killed(target, status)
            kills[target.name] = counted = group.read().get("oom_kill", 0)
            if not counted:
                raise NoBiteError(f"the kernel did not count a kill of {target.name}")
        onset_ms = round((time.monotonic() - begun_s) * 1000, 3)
        return {"statuses": statuses, "oom_kills": kills, "onset_ms": onset_ms}

    def _bound(self, target: Target, more_mib: int) -> None:
        name = f"atleastonce-{self.fault.id}-{target.name}-{os.urandom(4).hex()}"
        try:
            group = ControlGroup(name, ("memory",))
        except NoControllerError as error:
            raise NoBiteError(str(error)) from None
        self.stage.owe(self.fault, {"control-group": group.thing()})
        group.make()
        self.groups[target] = group
        # What it has stays on the bill of the group that it comes from.
        group.bound_memory(more_mib * _MIB)
        try:
            group.admit(target.pid)
        except (ProcessLookupError, FileNotFoundError):
            raise already_gone(target) from None

    async def _press(self, target: Target, request_bytes: int) -> None:
        desk = self.stage.world.administration()
        for _ in range(_PROBES):
            if not is_alive(target):
                return
            await desk.probe(target.name, request_bytes, _PROBE_S)

    async def heal(self) -> Evidence:
        """See `Act`."""
        for group in self.groups.values():
            await trio.to_thread.run_sync(group.release)
        # Whoever got along with it is not about to end.
        self.told_to_end = not any(is_alive(target) for target in self.targets)
        return self.seen_meanwhile() | await self.start_again()
