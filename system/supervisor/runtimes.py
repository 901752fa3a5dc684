"""How long the jobs of each crew took lately, as its workers tell."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from pathlib import Path

from ..jobs.runtimes import SUFFIX, Runtimes, read_runtimes
from .crew import Crew
from .worker_handle import Worker


class RuntimeReader:
    """Reads the workers' files, and forgets what is too old.

    Args:
        directory: The workers' directory.
        ttl_us: How long a duration counts.
    """

    def __init__(self, directory: Path, ttl_us: int) -> None:
        self._directory = directory
        self._ttl_us = ttl_us
        self._seen: dict[int, Runtimes] = {}
        self._lately: dict[Crew, deque[tuple[int, int, int]]] = {}

    def look(self, now_us: int, workers: Iterable[Worker]) -> None:
        """Read what these workers, which are all that live, have done since the last look."""
        living = {worker.pid: worker.crew for worker in workers}
        for pid, crew in living.items():
            before = self._seen.get(pid, Runtimes())
            seen = read_runtimes(self._directory, pid)
            self._seen[pid] = seen
            if seen.jobs > before.jobs:
                spent = (now_us, seen.jobs - before.jobs, seen.total_us - before.total_us)
                self._lately.setdefault(crew, deque()).append(spent)
        for pid in self._seen.keys() - living.keys():
            del self._seen[pid]
            (self._directory / f"{pid}{SUFFIX}").unlink(missing_ok=True)

    def runtime_us(self, now_us: int, crew: Crew) -> float | None:
        """Return how long a crew's jobs took lately, on average; None when there were none."""
        lately = self._lately.get(crew)
        while lately and now_us - lately[0][0] > self._ttl_us:
            lately.popleft()
        if not lately:
            return None
        jobs = sum(jobs for _, jobs, _ in lately)
        return sum(total_us for _, _, total_us in lately) / jobs
