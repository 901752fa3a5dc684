"""Private memory of forked workers: idle, and after 600 jobs."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path

from .drain import preload
from .ends import wait_for_ends
from .own_system import own_nodes, own_workers, wait_for_workers
from .processes import private_mib

WORKERS = 8
JOBS = 600


def main() -> None:
    """Print the median and worst private memory of eight workers, before and after 600 jobs."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        ends = scratch / "ends"
        ends.mkdir()
        with own_nodes(scratch, 1) as system, own_workers(
            system, "benchmarks.drain_app:application", WORKERS
        ):  # fmt: skip
            pids = wait_for_workers(system, WORKERS)
            idle = [private_mib(pid) for pid in pids]
            preload(system, JOBS, 1.0)
            if not wait_for_ends(ends, JOBS, deadline_s=60):
                raise TimeoutError(f"{JOBS} jobs were not finished within 60 s")
            worked = [private_mib(pid) for pid in pids]
    print(f"worker memory: {WORKERS} forked workers, private MiB each")
    for label, figures in (("idle", idle), (f"after {JOBS} jobs", worked)):
        print(f"  {label:16} {statistics.median(figures):.2f} median, {max(figures):.2f} worst")


if __name__ == "__main__":
    main()
