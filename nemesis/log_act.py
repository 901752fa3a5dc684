"""Bits that flip in the logs of a majority, or of all nodes, while none runs."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import trio

from .acts import POLL_S, Evidence, NoBiteError
from .node_acts import KillNodes
from .world import Target, World

REFUSED: Final = 70
"""Exit status of a node that refuses to boot from what its disk has lost."""

_SUFFIX: Final = ".wal"
_USED_BYTES_MIN: Final = 4096
_FLIPPED_BYTES: Final = 8
"""More than the zeros between two records, which nothing depends on."""

_LATE_BYTES: Final = (4096, 12_288)
"""How far before the end late damage lies, at least and at most."""

_SHARE_LATE: Final = 0.7
_BOOT_S: Final = 15.0
"""A node that lives so long after its start has taken its log as it is, answering or not."""


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes of one file that were changed.

    Attributes:
        file: The file.
        offset: Where they lie.
        before: What they were.
        after: What they are now.
    """

    file: Path
    offset: int
    before: bytes
    after: bytes

    @classmethod
    def do(cls, folder: Path, stream: random.Random) -> Damage:
        """Flip bits in the newest log file that has something in it.

        They lie in its middle half, or shortly before its end: behind what a checkpoint may hold,
        and before the last batch, which alone may be taken for torn.

        Raises:
            NoBiteError: There is none.
        """
        found = _find_used(folder)
        if found is None:
            raise NoBiteError(f"no log file under {folder} has {_USED_BYTES_MIN} bytes")
        file, content = found
        used = len(content)
        offset = used // 4 + stream.randrange(used // 2)
        if used >= 2 * max(_LATE_BYTES) and stream.random() < _SHARE_LATE:
            offset = used - stream.randrange(*_LATE_BYTES)
        before = content[offset : offset + _FLIPPED_BYTES]
        damage = cls(file, offset, before, bytes(byte ^ 0x55 for byte in before))
        damage._write(damage.after)
        return damage

    def undo(self) -> bool:
        """Give the bytes back; False where they are not what the damage left.

        A log file is only ever appended to, so a node that runs does not notice.
        """
        found = b""
        # A node that took the log as it was may have cut or deleted it meanwhile.
        with suppress(FileNotFoundError), self.file.open("rb") as file:
            file.seek(self.offset)
            found = file.read(len(self.after))
        if found == self.after:
            self._write(self.before)
        return found == self.after

    def _write(self, data: bytes) -> None:
        with self.file.open("r+b") as file:
            file.seek(self.offset)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())


def _find_used(folder: Path) -> tuple[Path, bytes] | None:
    """The newest log file with enough in it, and what that is, without the zeros at its end."""
    for file in sorted(folder.rglob(f"*{_SUFFIX}"), reverse=True):
        # A running node deletes what it needs no more.
        with suppress(FileNotFoundError):
            content = file.read_bytes().rstrip(b"\0")
            if len(content) >= _USED_BYTES_MIN:
                return file, content
    return None


class FlipLog(KillNodes):
    """flip-log: kill all nodes, damage the logs of at least a majority, start all.

    Whoever refuses to boot gets its bytes back, as by an operator with a backup, and is started
    again.
    """

    damages: dict[str, Damage]

    async def bite(self) -> Evidence:
        """See `Act`."""
        self.damages = {}
        stream = random.Random(self.fault.choice)
        names = [target.name for target in self.targets]
        majority = len(names) // 2 + 1
        # A third of the faults leaves a minority with whole logs, which may outvote the damage.
        count = majority if self.fault.choice % 3 == 0 else len(names)
        folders = {node: self.stage.world.node_data(node) for node in stream.sample(names, count)}
        # Right behind a checkpoint there may be hardly any log.
        with trio.move_on_after(self.stage.settings.leader_wait_s):
            while not all(_find_used(folder) for folder in folders.values()):
                await trio.sleep(POLL_S)
        evidence = await super().bite()
        may_spare = count - majority
        for node, folder in sorted(folders.items()):
            # One that made a checkpoint in the last moment is spared, as long as most are not.
            if may_spare and _find_used(folder) is None:
                may_spare -= 1
                continue
            self.damages[node] = Damage.do(folder, stream)
        damaged: Evidence = {
            node: f"{damage.file.name} at {damage.offset}" for node, damage in self.damages.items()
        }
        return evidence | {"damaged": damaged}

    async def heal(self) -> Evidence:
        """See `Act`."""
        seen = self.seen_meanwhile() | await self.start_again()
        outcomes: dict[str, str] = {}
        async with trio.open_nursery() as nursery:
            for node in getattr(self, "damages", {}):
                nursery.start_soon(self._see_to, node, outcomes)
        refused: Evidence = dict(sorted(outcomes.items()))
        return seen | {"outcomes": refused}

    async def _see_to(self, node: str, outcomes: dict[str, str]) -> None:
        world, damage = self.stage.world, self.damages[node]
        target = world.node_process(node)
        status = await exit_status(world, target)
        if status is None:
            outcomes[node] = "booted"
            damage.undo()
            return
        outcomes[node] = "refused" if status == REFUSED else f"exit {status}"
        damage.undo()
        await world.start_node(node)


async def exit_status(world: World, target: Target) -> int | None:
    """How a node ended that was just started; None once it answers, or after `_BOOT_S`."""
    status: int | None = None

    async def see_end(scope: trio.CancelScope) -> None:
        nonlocal status
        status = os.waitstatus_to_exitcode(await world.wait_exit(target))
        scope.cancel()

    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + _BOOT_S
        nursery.start_soon(see_end, nursery.cancel_scope)
        while not await world.is_answering(target.name):
            await trio.sleep(POLL_S)
        nursery.cancel_scope.cancel()
    return status
