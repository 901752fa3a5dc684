"""The log writer: group commit, order, and the end of a failed disk."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable

from atleastonce.system.node.counters import Counters
from atleastonce.system.node.logbook import Logbook
from atleastonce.system.node.writer import StorageWriter
from atleastonce.system.raft.events import Persist
from atleastonce.system.raft.log import LogStart
from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage.errors import DiskFailedError


class ScriptedLog:
    """A log whose syncs wait for permission, or fail."""

    def __init__(self) -> None:
        self.appended: list[int] = []
        self.synced: list[int] = []
        self.purged: list[tuple[int, int]] = []
        self.permits: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.syncing = threading.Semaphore(0)
        self.closed = False

    def append(
        self,
        hard_state: HardState | None,
        truncate_from: int | None,
        entries: tuple[Entry, ...],
        reset: LogStart | None = None,
    ) -> None:
        if reset is not None:
            self.appended.clear()
        self.appended += [entry.index for entry in entries]

    def purge(self, index: int) -> int:
        self.purged.append((index, len(self.synced)))
        return 1

    def sync(self) -> None:
        self.syncing.release()
        if not self.permits.get(timeout=10):
            raise DiskFailedError("fsync", "log/1", "Input/output error")
        self.synced.append(len(self.appended))

    def close(self) -> None:
        self.closed = True


def persist(sequence: int) -> Persist:
    entry = Entry(1, sequence, EntryKind.COMMAND, b"")
    return Persist(sequence, None, None, (entry,))


def run_writer(
    scenario: Callable[[ScriptedLog, StorageWriter, list[int]], None],
) -> tuple[ScriptedLog, list[int], list[str], list[str]]:
    """The log, the sequences reported, the log lines' events, and the failures."""
    log = ScriptedLog()
    reported: list[int] = []
    lines: list[bytes] = []
    failures: list[str] = []

    def fail(_: Logbook, error: DiskFailedError) -> None:
        failures.append(str(error))

    logbook = Logbook(lines.append, "n1")
    writer = StorageWriter(log, reported.append, logbook, Counters(), fail)
    writer.start()
    scenario(log, writer, reported)
    writer.stop()
    return log, reported, [json.loads(line)["event"] for line in lines], failures


def test_what_waits_during_a_sync_shares_the_next_one() -> None:
    def scenario(log: ScriptedLog, writer: StorageWriter, reported: list[int]) -> None:
        writer.put(persist(1))
        assert log.syncing.acquire(timeout=10)
        for sequence in range(2, 6):
            writer.put(persist(sequence))
        log.permits.put(True)
        log.permits.put(True)

    log, reported, _, failures = run_writer(scenario)
    assert log.appended == [1, 2, 3, 4, 5]
    assert log.synced == [1, 5]
    assert reported == [1, 5]
    assert log.closed
    assert failures == []


def test_a_failed_sync_is_reported_to_nobody_and_never_tried_again() -> None:
    def scenario(log: ScriptedLog, writer: StorageWriter, reported: list[int]) -> None:
        writer.put(persist(1))
        log.permits.put(False)
        assert log.syncing.acquire(timeout=10)
        writer.put(persist(2))

    log, reported, _, failures = run_writer(scenario)
    assert reported == []
    assert log.synced == []
    assert log.appended == [1]
    assert failures == ["disk failed: fsync of log/1: Input/output error"]


def test_a_purge_waits_behind_the_sync_of_what_was_queued_with_it() -> None:
    def scenario(log: ScriptedLog, writer: StorageWriter, reported: list[int]) -> None:
        writer.put(persist(1))
        assert log.syncing.acquire(timeout=10)
        writer.purge(3)
        writer.purge(5)
        writer.put(persist(2))
        log.permits.put(True)
        log.permits.put(True)

    log, reported, events, _ = run_writer(scenario)
    assert reported == [1, 2]
    assert log.purged == [(5, 2)]
    assert events == ["log-purged"]
