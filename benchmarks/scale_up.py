"""How soon a pool of one worker has twenty: 600 jobs of 5 s, stepwise, fast, polled and woken.

The clock starts before the first push. Each setting runs with the burst at several moments of the
period of its polls; a status file is read every 10 ms.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from atleastonce.system.client import calls
from atleastonce.system.jobs.payload import partition_of

from .own_system import QUEUE, ROOT, OwnSystem, own_nodes

JOBS = 600
WORKERS = 20
RUNS = 3
IDLE_S = 2.0
SETTINGS: dict[str, tuple[float, bool, bool]] = {
    "stepwise": (1.0, False, False),
    "fast": (1.0, True, False),
    "polled": (3.0, True, False),
    "woken": (3.0, True, True),
}
"""Period of polls and cooldown, fast_scale_up, event_driven."""


def push(system: OwnSystem) -> None:
    """Push all jobs in one request."""
    items = []
    for number in range(JOBS):
        name = f"job-{number}"
        partition = partition_of(name, 64)
        body = {"_job": {"job": "five_seconds", "id": name, "partition": partition, "data": {}}}
        items.append(
            {"queue": QUEUE, "partition": partition, "transactionId": name, "payload": body}
        )
    client = system.client()
    client.call(calls.push(items))
    client.close()


def workers(state: Path) -> int:
    """Return how many workers live."""
    try:
        return len(json.loads((state / "status.json").read_bytes())["workers"])
    except FileNotFoundError:
        return 0


def wait_for(state: Path, count: int) -> float:
    """Wait until so many workers live; return when that was."""
    deadline = time.monotonic() + 60
    while workers(state) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{count} workers were not there within 60 s")
        time.sleep(0.01)
    return time.monotonic()


def measure(name: str, share: float) -> tuple[float, float]:
    """Run one burst; return the seconds until the second and the twentieth worker.

    Args:
        name: The setting.
        share: Where in the period of polls the burst comes, as a share of it.
    """
    period_s, fast, woken = SETTINGS[name]
    with tempfile.TemporaryDirectory() as scratch, own_nodes(Path(scratch), 1) as system:
        state = Path(scratch) / "state"
        at = system.endpoints["n1"]
        options = {
            "master.app": "benchmarks.scale_up_app:make_app",
            "master.prefork": "true",
            "master.state_dir": str(state),
            "master.poll_interval_s": period_s,
            "master.event_driven": str(woken).lower(),
            "driver.endpoints": f"{at.host}:{at.port}",
            "driver.block_for_s": 5,
            "pools.bench.queues": QUEUE,
            "pools.bench.max_processes": WORKERS,
            "pools.bench.balance_cooldown_s": period_s,
            "pools.bench.fast_scale_up": str(fast).lower(),
        }
        flags = [f"--set={key}={value}" for key, value in options.items()]
        client = system.client()
        client.call(calls.configure(QUEUE, {}))
        client.close()
        with (Path(scratch) / "supervisor.log").open("ab") as log:
            master = subprocess.Popen(
                [sys.executable, "-m", "atleastonce.system.entry", "supervisor", "run", *flags],
                stderr=log, start_new_session=True, cwd=ROOT, env=dict(os.environ),
            )  # fmt: skip
        try:
            began = wait_for(state, 1)
            periods = -(-IDLE_S // period_s)
            time.sleep(max(0.0, began + (periods + share) * period_s - time.monotonic()))
            start = time.monotonic()
            push(system)
            return wait_for(state, 2) - start, wait_for(state, WORKERS) - start
        finally:
            # Its jobs would take minutes; the kernel ends the workers with it.
            os.killpg(master.pid, signal.SIGKILL)
            master.wait()


def main() -> None:
    """Print one line a setting."""
    print(f"{JOBS} jobs of 5 s, 1 to {WORKERS} workers: seconds to the 2nd and the 20th worker")
    for name in SETTINGS:
        found = [measure(name, (run + 0.5) / RUNS) for run in range(RUNS)]
        for place, count in enumerate((2, WORKERS)):
            times = [times_s[place] for times_s in found]
            print(
                f"{name:9} {count:3} workers: mean {statistics.mean(times):5.2f}, "
                f"{min(times):5.2f} to {max(times):5.2f}"
            )


if __name__ == "__main__":
    main()
