"""A node's data folder, opened: the checkpoint in force, the log behind it, and that they fit.

What is refused here would lose something that was acknowledged: a log that ends before its
checkpoint, a log that begins behind it, a checkpoint that is missing although the log needs it.
"""

from __future__ import annotations

import errno
import gc
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

from ..broker.machine import Machine
from ..broker.rows import PAYLOAD_PREFIX, DamagedRowError
from ..bugs import Bugs, parse_bugs
from ..raft.log import RaftLog
from ..raft.recovery import LogHoleError, RecoveredLog, recovered_log
from ..storage.checkpoint import CheckpointStore
from ..storage.checkpoint_folder import CHECKPOINT_DIRECTORY, CheckpointFolder
from ..storage.disk import Disk, LossyDisk, RealDisk
from ..storage.errors import DamagedCheckpointError, DamagedLogError, DiskFailedError
from ..storage.failing import DiskErrors
from ..storage.wal import Recovered, Wal, WalLimits
from .config import NodeConfig
from .config_error import ConfigError

LOG_DIRECTORY: Final = "log"

_DISK_TROUBLE: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS})
STORE_REMEDY: Final = (
    "restore the whole data folder from one copy of this node's disk; without one, keep this node "
    "stopped while the others form a majority, and replace it by a node of another name"
)


class StoreInForce:
    """The store of checkpoints, as it is at the moment: a received one may take its place.

    Attributes:
        store: The store.
        fail: Ends the process when a row is damaged; None lets the error pass.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self.store = store
        self.fail: Callable[[DamagedCheckpointError], NoReturn] | None = None

    def read(self, key: bytes) -> bytes:
        """One row (see `broker.rows.MessageStore`)."""
        try:
            return self.store.read(key)
        except DamagedCheckpointError as error:
            if self.fail is None:
                raise
            self.fail(error)


@dataclass(frozen=True, slots=True)
class OpenedStorage:
    """Everything that a node has on its disk.

    Attributes:
        log: Open for appending.
        recovered: What it held.
        folder: The folder of checkpoints.
        in_force: The store of checkpoints.
        raft_log: The entries for the core.
        machine: The broker's state as of the checkpoint.
    """

    log: Wal
    recovered: Recovered
    folder: CheckpointFolder
    in_force: StoreInForce
    raft_log: RaftLog
    machine: Machine


def restore_machine(store: CheckpointStore, bugs: Bugs, payloads: StoreInForce) -> Machine:
    """The broker's state as a store has it. Cost: its rows without payloads.

    Raises:
        DamagedCheckpointError: The store or a row is damaged.
    """
    index = store.position.index
    if not index:
        return Machine(bugs, payloads)
    try:
        machine = Machine.restore(store.rows(without=PAYLOAD_PREFIX), index, bugs, payloads)
    except DamagedRowError as error:
        raise DamagedCheckpointError(str(store.file), str(error), STORE_REMEDY) from None
    # A full collection would visit the state again and again, and it holds no cycles to find.
    gc.freeze()
    return machine


def open_storage(config: NodeConfig) -> OpenedStorage:
    """Open a node's data folder.

    Raises:
        ConfigError: The folder cannot be made.
        DirectoryLockedError: Another process has it.
        DamagedLogError: The log holds something that no crash explains, or ends too early.
        DamagedCheckpointError: The checkpoint does, or is missing.
        DiskFailedError: The disk refused.
    """
    root = Path(config.data_dir)
    try:
        disk = RealDisk(root) if config.disk == "real" else LossyDisk(root)
    except OSError as error:
        if error.errno in _DISK_TROUBLE:
            raise DiskFailedError("make", str(root), error.strerror or str(error)) from None
        raise ConfigError(f"data_dir: cannot make {root}: {error.strerror}") from None
    with DiskErrors(disk, _forget, "open", CHECKPOINT_DIRECTORY):
        return _open(config, disk)


def _forget(failure: DiskFailedError) -> None:
    """Nobody keeps it: whoever opens the folder ends with it."""


def _open(config: NodeConfig, disk: Disk) -> OpenedStorage:
    bugs, limits = parse_bugs(config.bugs), config.storage
    folder = CheckpointFolder(disk)
    folder.open()
    store = None
    if folder.has_store:
        store = CheckpointStore.open(folder.current_file, must_exist=True)
    log, recovered = Wal.open(
        disk,
        LOG_DIRECTORY,
        WalLimits(segment_bytes=limits.segment_bytes),
        bugs,
        checkpoint_index=store.position.index if store else 0,
        tail_bytes=limits.tail_bytes,
    )
    if store is None:
        store = _replace_missing(folder, log)
    is_ahead = folder.pointer is not None and folder.pointer.is_ahead
    fitted = fit_log(recovered, store, is_ahead)
    if fitted.reset is not None:
        log.append(None, None, (), fitted.reset)
    folder.settle()
    folder.sweep()
    in_force = StoreInForce(store)
    machine = restore_machine(store, bugs, in_force)
    return OpenedStorage(log, recovered, folder, in_force, fitted.log, machine)


def _replace_missing(folder: CheckpointFolder, log: Wal) -> CheckpointStore:
    """A new store, where the log alone has everything."""
    if log.first_index > 1:
        where = folder.current_file if folder.pointer else folder.file("CURRENT")
        reason = f"it is missing, although the log begins with entry {log.first_index}"
        raise DamagedCheckpointError(str(where), reason, STORE_REMEDY)
    folder.begin()
    folder.sweep()
    return CheckpointStore.open(folder.current_file)


def fit_log(recovered: Recovered, store: CheckpointStore, is_ahead: bool) -> RecoveredLog:
    """The log as it follows a checkpoint.

    Args:
        recovered: What the log holds.
        store: The checkpoint.
        is_ahead: Whether the checkpoint was received, so that the log may still have to follow it.

    Raises:
        DamagedCheckpointError: The checkpoint ends before the log begins.
        DamagedLogError: The log ends before the checkpoint, or contradicts it.
    """
    position = store.position
    try:
        fitted = recovered_log(recovered.entries, recovered.start_index, position)
    except LogHoleError as error:
        reason = f"it is older than the log: {error}"
        raise DamagedCheckpointError(str(store.file), reason, STORE_REMEDY) from None
    if fitted.reset is None:
        return fitted
    if not is_ahead:
        if recovered.last_index < position.index:
            reason = (
                f"the log ends with entry {recovered.last_index}, although a checkpoint holds "
                f"entry {position.index}"
            )
        else:
            reason = f"entry {position.index} has another term than in the checkpoint"
        raise DamagedLogError(recovered.where, recovered.end, reason, STORE_REMEDY)
    return fitted
