"""The disk's side of a node: one thread that makes the log durable, in order."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from ..raft.events import Persist
from ..raft.log import LogStart
from ..raft.messages import Entry, HardState
from ..storage.errors import DiskFailedError
from .counters import Counters
from .ending import exit_disk_failed
from .logbook import Logbook

SLOW_SYNC_MS: Final = 250


class Log(Protocol):
    """The write-ahead log, as the writer uses it (see `storage.wal.Wal`)."""

    def append(
        self,
        hard_state: HardState | None,
        truncate_from: int | None,
        entries: tuple[Entry, ...],
        reset: LogStart | None = None,
    ) -> None:
        """Buffer records; a reset is durable at once."""
        ...

    def purge(self, index: int) -> int:
        """Delete segments that hold nothing above an index."""
        ...

    def sync(self) -> None:
        """Make what was appended durable."""
        ...

    def close(self) -> None:
        """Make everything durable and let go."""
        ...


@dataclass(frozen=True, slots=True)
class _Purge:
    index: int


class StorageWriter:
    """Takes persists in order; syncs once for all that wait.

    Args:
        log: The open log; used by the writer's thread alone until `stop`.
        report: Called with the highest durable sequence, from the writer's thread.
        logbook: Hears of slow syncs and of the failed one.
        counters: Its sync counts are written by the thread alone.
        fail: Called when the disk fails; the thread ends behind it, and reports nothing more.
    """

    def __init__(
        self,
        log: Log,
        report: Callable[[int], None],
        logbook: Logbook,
        counters: Counters,
        fail: Callable[[Logbook, DiskFailedError], object] = exit_disk_failed,
    ) -> None:
        self._log = log
        self._report = report
        self._logbook = logbook
        self._counters = counters
        self._fail = fail
        self._queue: queue.SimpleQueue[Persist | _Purge | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, persist: Persist) -> None:
        """Queue one persist; never waits."""
        self._queue.put(persist)

    def purge(self, index: int) -> None:
        """Queue that segments without entries above `index` be deleted; never waits."""
        self._queue.put(_Purge(index))

    def stop(self) -> None:
        """Write what is queued, close the log and end the thread. Blocks."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._write(self._take_all()):
                pass
            self._log.close()
        except DiskFailedError as error:
            self._fail(self._logbook, error)

    def _take_all(self) -> list[Persist | _Purge | None]:
        taken = [self._queue.get()]
        while not self._queue.empty():
            taken.append(self._queue.get())
        return taken

    def _write(self, taken: list[Persist | _Purge | None]) -> bool:
        sequence = purge_index = 0
        for order in taken:
            if isinstance(order, _Purge):
                purge_index = order.index
            elif order is not None:
                self._log.append(order.hard_state, order.truncate_from, order.entries, order.reset)
                sequence = order.sequence
        if sequence:
            self._sync(sequence)
        if purge_index:
            self._purge(purge_index)
        return None not in taken

    def _purge(self, index: int) -> None:
        deleted = self._log.purge(index)
        if deleted:
            self._counters.purged_segments += deleted
            self._logbook.info("log-purged", log_index=index, segments=deleted)

    def _sync(self, sequence: int) -> None:
        started_ns = time.monotonic_ns()
        self._log.sync()
        took_us = (time.monotonic_ns() - started_ns) // 1000
        self._report(sequence)
        counters = self._counters
        counters.syncs += 1
        counters.sync_us += took_us
        counters.sync_us_max = max(counters.sync_us_max, took_us)
        if took_us > SLOW_SYNC_MS * 1000:
            self._logbook.warning("slow-sync", took_ms=took_us // 1000, up_to=sequence)
