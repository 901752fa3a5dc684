"""The disk's side of a node: one thread that makes the log durable, in order."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Final, NoReturn, Protocol

from ..raft.events import Persist
from ..raft.messages import Entry, HardState
from ..storage.errors import DiskFailedError
from .counters import Counters
from .logbook import Logbook
from .saying import say

SLOW_SYNC_MS: Final = 250
EXIT_DISK_FAILED: Final = 71


class Log(Protocol):
    """The write-ahead log, as the writer uses it (see `storage.wal.Wal`)."""

    def append(
        self, hard_state: HardState | None, truncate_from: int | None, entries: tuple[Entry, ...]
    ) -> None:
        """Buffer records."""
        ...

    def sync(self) -> None:
        """Make what was appended durable."""
        ...

    def close(self) -> None:
        """Make everything durable and let go."""
        ...


def exit_disk_failed(logbook: Logbook, error: DiskFailedError) -> NoReturn:
    """End the process at once: nothing that waits for the disk may be answered any more."""
    logbook.error("disk-failed", operation=error.operation, file=error.path, reason=error.cause)
    say(f"node: {error}")
    os._exit(EXIT_DISK_FAILED)


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
        self._queue: queue.SimpleQueue[Persist | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def put(self, persist: Persist) -> None:
        """Queue one persist; never waits."""
        self._queue.put(persist)

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

    def _take_all(self) -> list[Persist | None]:
        taken = [self._queue.get()]
        while not self._queue.empty():
            taken.append(self._queue.get())
        return taken

    def _write(self, taken: list[Persist | None]) -> bool:
        sequence = 0
        for persist in taken:
            if persist is None:
                continue
            self._log.append(persist.hard_state, persist.truncate_from, persist.entries)
            sequence = persist.sequence
        if sequence:
            self._sync(sequence)
        return None not in taken

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
