"""Nodes that the kernel kills for want of memory, in a control group that bounds it."""

from __future__ import annotations

import random
import time
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import Evidence, NoBiteError, check_killed, exit_of
from .cgroups import ControlGroup
from .group_acts import GroupAct
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


class KillByMemory(GroupAct):
    """oom-kill: memory for hardly more than it has, large requests, and the kernel's SIGKILL."""

    controller = "memory"

    def bound(self, group: ControlGroup) -> None:
        """See `GroupAct`: what the process has stays on the bill of the group it comes from."""
        group.bound_memory(options_of(self.fault, OomKill).more_mib * _MIB)

    async def bite(self) -> Evidence:
        """See `Act`."""
        options = options_of(self.fault, OomKill)
        begun_s = time.monotonic()
        self.enclose()
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

    async def _press(self, target: Target, request_bytes: int) -> None:
        desk = self.stage.world.administration()
        for _ in range(_PROBES):
            if not is_alive(target):
                return
            await desk.probe(target.name, request_bytes, _PROBE_S)

    async def heal(self) -> Evidence:
        """See `Act`."""
        await self.release()
        # Whoever got along with it is not about to end.
        self.told_to_end = not any(is_alive(target) for target in self.targets)
        return self.seen_meanwhile() | await self.start_again()
