"""The parts of a node that keep its state on the disk, and carry it to members that lack it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass

import trio

from ..bugs import Bugs
from ..raft.core import RaftCore
from ..storage.errors import DamagedCheckpointError, DiskFailedError
from .address import Address
from .applier import Applier
from .checkpointer import Checkpointer
from .clock import NodeClock
from .counters import Counters
from .driver import RaftDriver
from .ending import exit_damaged, exit_disk_failed
from .links import Dial
from .logbook import Logbook
from .opening import LOG_DIRECTORY, OpenedStorage
from .scrubber import Scrubber
from .snapshot_receiver import SnapshotReceiver
from .snapshot_sender import SnapshotSender
from .storage_limits import StorageLimits


@dataclass(frozen=True, slots=True)
class Disk:
    """What a node with a disk is given.

    Attributes:
        opened: What was found there.
        purge: Deletes log segments without entries above an index; returns at once.
        limits: What is kept, and when.
    """

    opened: OpenedStorage
    purge: Callable[[int], None]
    limits: StorageLimits


class DurableState:
    """Checkpoints, snapshots, and the second look at both.

    Attributes:
        checkpointer: Makes checkpoints.
        sender: Sends snapshots.
        receiver: Takes them.
        scrubber: Looks for rot.
    """

    def __init__(
        self,
        disk: Disk,
        node: str,
        token: bytes,
        addresses: Mapping[str, Address],
        dial: Dial,
        bugs: Bugs,
        core: RaftCore,
        driver: RaftDriver,
        applier: Applier,
        clock: NodeClock,
        logbook: Logbook,
        counters: Counters,
    ) -> None:
        opened, limits = disk.opened, disk.limits
        in_force, folder = opened.in_force, opened.folder
        self._logbook = logbook
        self._in_force = in_force
        in_force.fail = lambda error: exit_damaged(logbook, error)
        self.checkpointer = Checkpointer(
            in_force, applier, core, driver.step, disk.purge, limits, logbook, counters
        )
        self.sender = SnapshotSender(
            node,
            token,
            addresses,
            dial,
            in_force,
            self.checkpointer,
            folder.current_file.parent,
            driver.step,
            limits.snapshot_bytes_per_s,
            logbook,
            counters,
        )
        self.receiver = SnapshotReceiver(
            folder,
            in_force,
            self.checkpointer,
            applier,
            core,
            driver,
            clock,
            self.ends_process,
            bugs,
            logbook,
            counters,
        )
        log_folder = folder.current_file.parent.parent / LOG_DIRECTORY
        self.scrubber = Scrubber(log_folder, in_force, self.checkpointer, limits, logbook, counters)

    async def run(self) -> None:
        """Keep the state durable until cancelled; ends the process when that cannot be."""
        with self.ends_process():
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.checkpointer.run)
                nursery.start_soon(self.sender.run)
                nursery.start_soon(self.scrubber.run)

    async def close(self) -> None:
        """Make a last checkpoint, so that the next start has nothing to apply again."""
        with self.ends_process():
            await self.checkpointer.commit()

    def facts(self) -> dict[str, object]:
        """What `/health` and `/metrics` say."""
        store = self._in_force.store
        return {
            "checkpoint": store.position.index,
            "checkpointAgeMs": round(self.checkpointer.age_s * 1000),
            "checkpointBytes": store.used_bytes,
            "rows": store.row_count,
            "rotten": sorted(self.scrubber.rotten),
        }

    def ends_process(self) -> AbstractContextManager[None]:
        """A block in which a failing disk or a damaged store ends the process."""
        return EndsProcess(self._logbook)


class EndsProcess(AbstractContextManager[None]):
    """See `DurableState.ends_process`."""

    def __init__(self, logbook: Logbook) -> None:
        self._logbook = logbook

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, OSError):
            path = error.filename or "the data folder"
            error = DiskFailedError("use", str(path), error.strerror or str(error))
        if isinstance(error, DiskFailedError):
            exit_disk_failed(self._logbook, error)
        if isinstance(error, DamagedCheckpointError):
            exit_damaged(self._logbook, error)
