"""Journals of dead workers, kept until what they owe is settled, by this master or by the next.

A dead worker's journal is moved aside under a name of its own, so that a new worker with the same
pid cannot meet it. One that a dead master left unsettled is settled by the next one: the broker
refuses what a lease no longer covers. Journals are not synced, so they count only in the boot of
the host that they were written in: after a crash of the host they may say what was true before.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..jobs.journal import (
    WorkerDebts,
    delete_journal,
    list_journals,
    plan_path,
    read_debts,
    state_path,
)
from .linux import boot_id

_BOOT_FILE: Final = "boot"


@dataclass(frozen=True, slots=True)
class LeftJournal:
    """A dead worker's journal.

    Attributes:
        name: What it is called among the journals that were set aside.
        pid: The worker.
        debts: What it says.
    """

    name: str
    pid: int
    debts: WorkerDebts

    @property
    def is_owed(self) -> bool:
        """Whether it asks for anything to be done."""
        return bool(self.debts.debts) or self.debts.popping


class LeftJournals:
    """The journals set aside in one directory.

    Args:
        workers: Where workers keep theirs.
        left: Where they are set aside.
    """

    def __init__(self, workers: Path, left: Path) -> None:
        self._workers = workers
        self._left = left

    def rescue(self) -> None:
        """Set aside all that dead workers have left, if it is of this boot; at a master's start.

        No worker may live. What is of another boot is deleted, or left for the caller to delete.
        """
        boot = boot_id()
        mark = self._left / _BOOT_FILE
        if mark.exists() and mark.read_text(encoding="ascii") == boot:
            for name in list_journals(self._workers):
                self._set_aside(name)
        else:
            for path in self._left.iterdir():
                path.unlink()
        mark.write_text(boot, encoding="ascii")

    def take(self, pid: int) -> LeftJournal:
        """Set aside the journal of a worker that has just died."""
        journal = self._read(self._set_aside(str(pid)))
        if not journal.is_owed:
            self.delete(journal)
        return journal

    def unsettled(self) -> list[LeftJournal]:
        """Return all that were set aside and not deleted."""
        return [self._read(name) for name in list_journals(self._left)]

    def delete(self, journal: LeftJournal) -> None:
        """Forget a journal that is settled."""
        delete_journal(self._left, journal.name)

    def _read(self, name: str) -> LeftJournal:
        return LeftJournal(name, int(name.partition("-")[0]), read_debts(self._left, name))

    def _set_aside(self, pid: str) -> str:
        name = f"{pid}-{time.monotonic_ns()}"
        # The plan first: a state without its plan owes nothing.
        for path in (plan_path, state_path):
            try:
                os.rename(path(self._workers, pid), path(self._left, name))
            except FileNotFoundError:
                continue
        return name
