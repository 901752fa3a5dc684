"""A power failure of nodes: the process is gone, and so is what no sync had made durable."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec
import trio

from ..histories.ops import Json
from .acts import POLL_S, Evidence, NoBiteError
from .gate import GateRule
from .node_acts import KillNodes
from .options import options_of
from .settings import NemesisSettings

_LOG: Final = ".wal"
_SECTOR_BYTES: Final = 512

Tail = Literal["cut", "zeros", "garbage"]


class PowerLoss(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of power-loss.

    Attributes:
        tail: What stands where unsynced bytes were lost: nothing, zeros, or garbage in some of
            the sectors and zeros in the others.
    """

    tail: Tail = "cut"


def draw(stream: random.Random, _settings: NemesisSettings) -> dict[str, Json]:
    """Which kind of tail."""
    return {"tail": stream.choice(("cut", "zeros", "garbage"))}


@dataclass(frozen=True, slots=True)
class Loss:
    """What one file lost.

    Attributes:
        file: Its name.
        floor: It was durable up to here, bytes.
        kept: It keeps this much.
        size: It was this long.
    """

    file: str
    floor: int
    kept: int
    size: int

    def told(self) -> dict[str, Json]:
        """For the evidence."""
        return {"file": self.file, "floor": self.floor, "kept": self.kept, "size": self.size}


def unsynced(folder: Path, floors: Mapping[tuple[int, int], int]) -> dict[Path, tuple[int, int]]:
    """Files that are only appended to, with bytes that no sync covers: floor and size of each.

    Args:
        folder: A node's data.
        floors: See `gate.DiskGate`.
    """
    found: dict[Path, tuple[int, int]] = {}
    for file in sorted(folder.rglob(f"*{_LOG}")):
        try:
            stat = file.stat()
        except FileNotFoundError:
            continue  # A running node deletes what it needs no more.
        floor = floors.get((stat.st_dev, stat.st_ino), 0)
        if stat.st_size > floor:
            found[file] = (floor, stat.st_size)
    return found


def lose(file: Path, floor: int, size: int, tail: Tail, stream: random.Random) -> Loss:
    """Take a random part of the unsynced bytes from a file that nobody has open.

    Raises:
        OSError: It cannot be written.
    """
    kept = stream.randint(floor, size - 1)
    os.truncate(file, kept)
    if tail != "cut":
        with file.open("r+b") as opened:
            opened.truncate(size)
            if tail == "garbage":
                for begin in range(-(-kept // _SECTOR_BYTES) * _SECTOR_BYTES, size, _SECTOR_BYTES):
                    if stream.random() < 0.5:
                        opened.seek(begin)
                        opened.write(stream.randbytes(min(_SECTOR_BYTES, size - begin)))
    return Loss(file.name, floor, kept, size)


class LosePower(KillNodes):
    """power-loss: hold syncs until something waits for one, kill, and take unsynced bytes away."""

    async def bite(self) -> Evidence:
        """See `Act`."""
        world, tail = self.stage.world, options_of(self.fault, PowerLoss).tail
        stream = random.Random(self.fault.choice)
        # Syncs of other files go on: behind one of them nothing could pile up.
        for target in self.targets:
            world.disk_gate(target.name).begin(GateRule(holds=True, only=_LOG))
        try:
            await self._wait_unsynced()
            killed = await super().bite()
        finally:
            for target in self.targets:
                world.disk_gate(target.name).end()
        lost: Evidence = {}
        total = 0
        for target in self.targets:
            losses = [
                lose(file, floor, size, tail, stream)
                for file, (floor, size) in self._unsynced(target.name).items()
            ]
            total += sum(loss.size - loss.kept for loss in losses)
            lost[target.name] = [loss.told() for loss in losses]
        assert total, f"{self.hit} had something unsynced and lost nothing: {lost}"
        return killed | {"lost": lost, "lost_bytes": total}

    def _unsynced(self, node: str) -> dict[Path, tuple[int, int]]:
        world = self.stage.world
        return unsynced(world.node_data(node), world.disk_gate(node).floors)

    async def _wait_unsynced(self) -> None:
        """Let unsynced bytes pile up before the kill; not for ever, as a follower may be idle.

        Raises:
            NoBiteError: Nobody has anything to lose, so nobody is killed.
        """
        wait_s = self.stage.settings.leader_wait_s
        with trio.move_on_after(wait_s):
            while not all(self._unsynced(target.name) for target in self.targets):
                await trio.sleep(POLL_S)
        if not any(self._unsynced(target.name) for target in self.targets):
            raise NoBiteError(f"{self.hit} wrote nothing to lose for {wait_s:g} s")
