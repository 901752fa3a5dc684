"""A power failure of nodes whose data lies on a real file system of its own."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import trio

from ..histories.ops import Json
from .acts import Evidence, NoBiteError, check_killed, exit_of, send_or_no_bite
from .ext4 import Ext4Image
from .node_acts import NodeAct
from .process import wait_stopped
from .world import Target


def listing(folder: Path) -> dict[str, int]:
    """The files below a folder with their sizes, by path relative to it."""
    found: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            found[str(path.relative_to(folder))] = path.stat().st_size
    return found


def losses(before: dict[str, int], after: dict[str, int]) -> dict[str, Json]:
    """What a power failure took: files that vanished, came back, or are shorter."""
    both = before.keys() & after.keys()
    return {
        "vanished": [*sorted(before.keys() - after.keys())],
        "back": [*sorted(after.keys() - before.keys())],
        "shorter": {
            name: before[name] - after[name] for name in both if after[name] < before[name]
        },
    }


class CutPower(NodeAct):
    """power-cut: stop, shut the file system down, kill, mount it again, start.

    The stop is so short that it is no pause, and keeps the node from seeing its disk fail: a
    machine without power sees nothing.
    """

    async def bite(self) -> Evidence:
        """See `Act`."""
        volumes = {target.name: self._volume(target) for target in self.targets}
        for target in self.targets:
            send_or_no_bite(target, signal.SIGSTOP)
        for target in self.targets:
            if not await wait_stopped(target, True, self.stage.settings.exit_wait_s):
                raise NoBiteError(f"{target.name} was not seen stopped")
        before = {name: listing(volume.point) for name, volume in volumes.items()}
        begun_ns = time.monotonic_ns()
        for volume in volumes.values():
            volume.cut_power()
        spread_ns = time.monotonic_ns() - begun_ns
        self.bitten_s = time.monotonic()
        self.told_to_end = True
        for target in self.targets:
            send_or_no_bite(target, signal.SIGKILL)
        lost: Evidence = {}
        for target in self.targets:
            check_killed(target, await exit_of(self.stage, target))
            volume = volumes[target.name]
            if not await trio.to_thread.run_sync(fails, volume.point):
                raise NoBiteError(f"{target.name}'s file system still takes files")
            await trio.to_thread.run_sync(_replay, volume)
            lost[target.name] = losses(before[target.name], listing(volume.point))
        return {"cut_us": spread_ns // 1000, "lost": lost}

    def _volume(self, target: Target) -> Ext4Image:
        volume = self.stage.world.volume(target.name)
        if volume is None:
            raise NoBiteError(f"{target.name} has no file system of its own")
        return volume

    async def heal(self) -> Evidence:
        """See `Act`."""
        for target in self.targets:
            volume = self.stage.world.volume(target.name)
            if volume is not None and self.told_to_end and fails(volume.point):
                await trio.to_thread.run_sync(_replay, volume)
        return self.seen_meanwhile() | await self.start_again()


def fails(folder: Path) -> bool:
    """Whether no file can be made in a folder, as after a power failure of its file system."""
    probe = folder / ".power"
    try:
        probe.write_bytes(b"")
    except OSError:
        return True
    probe.unlink()
    return False


def _replay(volume: Ext4Image) -> None:
    """Unmount what has lost its power, and mount it again, which replays the journal."""
    if volume.is_mounted():
        volume.unmount()
    volume.mount()
