"""What the master tells others about its workers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from ..jobs.journal import read_debts
from .records import WorkerStatus
from .worker_handle import Worker


def view_workers(workers: Iterable[Worker], journals: Path) -> list[WorkerStatus]:
    """Look at every worker's journal and leases; return what each does, by pid.

    The worker's own journal names the job it runs and since when; a lease without a running job
    means that it holds jobs which it has not begun.
    """
    seen = []
    for worker in sorted(workers, key=lambda worker: worker.pid):
        _look(worker, journals)
        seen.append(
            WorkerStatus(
                pid=worker.pid,
                state=worker.state,
                job=worker.job,
                since_ns=worker.since_ns,
                leases=len(worker.leases),
                code=worker.server.code,
                failing_since_ns=worker.failing_since_ns,
            )
        )
    return seen


def _look(worker: Worker, journals: Path) -> None:
    debts = read_debts(journals, worker.pid)
    if debts.running is not None:
        worker.state, worker.job = "running", debts.running
        worker.since_ns = debts.running_since_ns
        return
    state = "prefetched" if worker.leases else "idle"
    if worker.state != state or not worker.since_ns:
        worker.state = "prefetched" if worker.leases else "idle"
        worker.since_ns = time.monotonic_ns()
    worker.job = None
