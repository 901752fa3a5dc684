"""A node whose monotonic clock is another one than everybody else's."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import msgspec
import trio
from msgspec import Meta

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError
from .node_acts import KillNodes
from .options import options_of
from .process import ProcessGoneError, send_to
from .settings import NemesisSettings

_SHIFTS_S: Final = (1, 60, 3600, 1_000_000)


class ShiftOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of shift-monotonic.

    Attributes:
        shift_s: By how much the clock is ahead, whole seconds; it may not come to lie before boot.
    """

    shift_s: Annotated[int, Meta(ge=-86_400, le=100_000_000)] = 3600


def draw(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """How far."""
    return {"shift_s": stream.choice(_SHIFTS_S)}


def within(shift_s: int) -> Sequence[str]:
    """The command that starts another one in a time namespace of its own (`unshare(1)`)."""
    return ("unshare", "--time", f"--monotonic={shift_s}", "--")


class ShiftMonotonic(KillNodes):
    """shift-monotonic: kill, start in a time namespace; kill again, start in the common one."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        killed = await super().bite()
        world = self.stage.world
        shift_s = options_of(self.fault, ShiftOptions).shift_s
        shifted: Evidence = {}
        started = []
        for target in self.targets:
            world.administration().start_within(target.name, within(shift_s))
            await world.start_node(target.name)
            started.append(world.node_process(target.name))
        self.targets = tuple(started)
        for target in self.targets:
            shifted[target.name] = await self._offset_of(target.pid)
        return killed | {"monotonic_s": shifted}

    async def _offset_of(self, pid: int) -> int:
        """By how much the monotonic clock of a process differs from this one's, in seconds."""
        wait_s = self.stage.settings.exit_wait_s
        with trio.move_on_after(wait_s), suppress(FileNotFoundError, ProcessLookupError):
            while os.readlink(f"/proc/{pid}/ns/time") == os.readlink("/proc/self/ns/time"):
                await trio.sleep(POLL_S)
            for line in Path(f"/proc/{pid}/timens_offsets").read_text("ascii").splitlines():
                name, seconds, _ = line.split()
                if name == "monotonic" and int(seconds):
                    return int(seconds)
        raise NoBiteError(f"process {pid} was not seen with a monotonic clock of its own")

    async def heal(self) -> Evidence:
        """See `Act`."""
        for target in self.targets:
            self.stage.world.administration().start_within(target.name, ())
            with suppress(ProcessGoneError):
                send_to(target, signal.SIGKILL)
        self.told_to_end = True
        return self.seen_meanwhile() | await self.start_again()
