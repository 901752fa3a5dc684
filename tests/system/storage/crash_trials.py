"""One log that loses power again and again, and what it must hold after that."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import pytest

from atleastonce.system.raft.log import LogStart
from atleastonce.system.raft.messages import Entry, EntryKind, HardState
from atleastonce.system.storage.errors import DamagedLogError, DiskFailedError
from atleastonce.system.storage.recovery import Recovered
from atleastonce.system.storage.wal import Wal, WalLimits

from .fragile_disk import FragileDisk, PowerLostError

NEW_STATE = HardState(0, None)

Change: TypeAlias = "HardState | int | Entry | Reset"


class ViolationError(Exception):
    """The log broke its promise."""


@dataclass(frozen=True)
class Reset:
    """The log begins anew behind an entry."""

    index: int


@dataclass
class State:
    """What a log amounts to."""

    hard_state: HardState = NEW_STATE
    entries: dict[int, Entry] = field(default_factory=dict)
    last_index: int = 0

    def take(self, change: Change) -> None:
        if isinstance(change, HardState):
            self.hard_state = change
        elif isinstance(change, Entry):
            self.entries[change.index] = change
            self.last_index = change.index
        elif isinstance(change, Reset):
            self.entries.clear()
            self.last_index = change.index
        else:
            self.last_index = change - 1

    def is_in(self, found: Recovered, purged: int) -> bool:
        """Whether a log holds just this, but for entries up to `purged` that may be gone."""
        if self.hard_state != found.hard_state or self.last_index != found.last_index:
            return False
        kept = {entry.index: entry for entry in found.entries}
        wanted = {index: each for index, each in self.entries.items() if index <= self.last_index}
        return kept.items() <= wanted.items() and all(
            index in kept or index <= purged for index in wanted
        )


@dataclass
class Model:
    """What the log must hold: a base state, what was appended since, and how much is confirmed."""

    base: State = field(default_factory=State)
    changes: list[Change] = field(default_factory=list)
    confirmed: int = 0
    purged: int = 0
    lost: list[Change] = field(default_factory=list)

    def recover(self, found: Recovered) -> None:
        state = State(self.base.hard_state, dict(self.base.entries), self.base.last_index)
        position = 0
        while position < self.confirmed or not state.is_in(found, self.purged):
            if position == len(self.changes):
                raise ViolationError(
                    f"recovered {found.start_index} to {found.last_index} and {found.hard_state}: "
                    f"no state after {self.confirmed} to {len(self.changes)} of the changes"
                )
            state.take(self.changes[position])
            position += 1
        self.lost = self.changes[position:]
        state.entries = {entry.index: entry for entry in found.entries}
        self.base = state
        self.changes = []
        self.confirmed = 0


class Trial:
    """One log, one disk, a few crashes, all from one seed."""

    def __init__(self, seed: int, wal_type: type[Wal], disk_type: type[FragileDisk]) -> None:
        self.random = random.Random(seed)
        self.disk = disk_type(random.Random(seed + 1))
        self.wal_type = wal_type
        self.limits = WalLimits(
            segment_bytes=self.random.choice((150, 700, 2_500)),
            buffer_bytes=self.random.choice((1, 300, 5_000)),
        )
        self.salt = self.random.randrange(1 << 32)
        self.model = Model()
        self.term = 0

    def run(self) -> None:
        for _ in range(3):
            self.disk.operations_left = self.random.choice((1 << 30, self.random.randrange(60)))
            self.disk.fail_fsyncs = int(self.random.randrange(20) == 0)
            with contextlib.suppress(PowerLostError, DiskFailedError):
                self._live()
            self.disk.operations_left = 1 << 30
            self.disk.fail_fsyncs = 0
            if self.random.randrange(4):
                self.disk.cut_power()
            else:
                self.disk.kill_process()
        self._open()

    def _open(self) -> Wal:
        try:
            wal, recovered = self.wal_type.open(
                self.disk, "log", self.limits, clock=lambda: 0.0, salt=self.salt
            )
        except DamagedLogError as refusal:
            raise ViolationError(f"refused after a crash: {refusal}") from None
        self.model.recover(recovered)
        return wal

    def _live(self) -> None:
        wal = self._open()
        length = self.model.base.last_index
        if self.model.lost and self.random.randrange(2):
            for change in self.model.lost:
                length = self._append(wal, [change], length)
                if self.random.randrange(3) == 0:
                    self._sync(wal)
        for _ in range(self.random.randrange(12)):
            length = self._append(wal, self._changes(length), length)
            if self.random.randrange(25) == 0:
                self.disk.fail_fsyncs = 1
            if self.random.randrange(40) == 0:
                self.disk.space_bytes = self.random.randrange(2_000)
            if self.random.randrange(2):
                self._sync(wal)
                self._purge(wal, length)
        if self.random.randrange(5) == 0:
            wal.close()
            self.model.confirmed = len(self.model.changes)

    def _changes(self, length: int) -> list[Change]:
        changes: list[Change] = []
        if self.random.randrange(4) == 0:
            self.term += 1
            changes.append(HardState(self.term, self.random.choice((None, "n1", "n2"))))
        if self.random.randrange(20) == 0:
            length += self.random.randrange(5)
            changes.append(Reset(length))
        elif length > self.model.purged and self.random.randrange(6) == 0:
            length -= self.random.randrange(min(length - self.model.purged, 3))
            changes.append(length)
            length -= 1
        for _ in range(self.random.randrange(4)):
            length += 1
            data = self.random.randbytes(self.random.choice((0, 3, 40, 300, 900)))
            changes.append(Entry(self.term, length, EntryKind.COMMAND, data))
        return changes

    def _append(self, wal: Wal, changes: Sequence[Change], length: int) -> int:
        # Appended in part still counts: the log may keep any prefix of it.
        self.model.changes.extend(changes)
        hard_state = next((change for change in changes if isinstance(change, HardState)), None)
        cut = next((change for change in changes if isinstance(change, int)), None)
        entries = [change for change in changes if isinstance(change, Entry)]
        reset = next((change.index for change in changes if isinstance(change, Reset)), None)
        if reset is not None:
            # As in a node: whatever is in the checkpoint behind a reset was committed.
            self.model.purged = reset
        wal.append(hard_state, cut, entries, None if reset is None else LogStart(reset, self.term))
        length = reset if reset is not None else length if cut is None else cut - 1
        return length + len(entries)

    def _purge(self, wal: Wal, length: int) -> None:
        if self.random.randrange(3) == 0:
            # Never cut off later than this, as what is in a checkpoint was committed.
            self.model.purged = max(self.model.purged, length - self.random.randrange(6))
            wal.purge(self.model.purged)

    def _sync(self, wal: Wal) -> None:
        try:
            wal.sync()
        except DiskFailedError:
            with pytest.raises(DiskFailedError):
                wal.sync()
            with pytest.raises(DiskFailedError):
                wal.append(None, None, [])
            raise
        self.model.confirmed = len(self.model.changes)
