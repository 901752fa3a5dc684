"""One supervisor of a run: where its files lie, and what its status says."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..nemesis.world import Target, WorkerView
from ..system.jobs.debts import Code
from ..system.jobs.journal import read_debts
from ..system.supervisor.records import WorkerStatus
from ..system.supervisor.statedir import StateDirectory
from .store import RunPaths
from .watch import SupervisorWatch

_ENDED: Final = frozenset({Code.ACK, Code.FOLLOWING, Code.RETRYING, Code.BURYING_RAN})
"""What is owed for a job that has ended, until the broker has confirmed it."""


@dataclass(frozen=True, slots=True)
class Child:
    """A process that was started here."""

    target: Target
    process: subprocess.Popen[bytes]


@dataclass(slots=True)
class Supervised:
    """A supervisor, up or down; the first of a run is called `supervisor`.

    Attributes:
        name: Its name.
        state: Its private folder.
        watch: Reads its status.
        child: Its process, or the last one; None before the first start.
    """

    name: str
    state: Path
    watch: SupervisorWatch
    child: Child | None = None

    def workers(self) -> Sequence[WorkerView]:
        """Return the workers that it last named, each as its own journal has it now."""
        status = self.watch.read()
        return [self._view(worker) for worker in (status.workers if status else ())]

    def _view(self, worker: WorkerStatus) -> WorkerView:
        # A job lasts a few hundred ms, as long as a status may be old: a fault that waits for a
        # worker in a certain state needs what is true now.
        debts = read_debts(StateDirectory(self.state).workers, worker.pid)
        is_running = debts.running is not None
        return WorkerView(
            pid=worker.pid,
            state="running" if is_running else worker.state,
            job=debts.running,
            since_ns=debts.running_since_ns if is_running else worker.since_ns,
            leases=worker.leases,
            unstarted=debts.prefetched,
            unacked=sum(code in _ENDED for debt in debts.debts for code in debt.codes),
        )


def make_supervised(run: RunPaths, names: Sequence[str]) -> list[Supervised]:
    """Make one for each name; all are down."""
    return [
        Supervised(name, run.state_of(name), SupervisorWatch(run.state_of(name) / "status.json"))
        for name in names
    ]
