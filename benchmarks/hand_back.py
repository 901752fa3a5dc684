"""Kill a worker in the middle of a job with three more prefetched: when do those start again?"""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
import time
from pathlib import Path

from atleastonce.system.client import calls
from atleastonce.system.jobs.payload import Envelope, JobBody, encode_data

from .own_system import QUEUE, OwnSystem, own_nodes, own_workers, wait_for_workers

ROUNDS = 5
PREFETCH = 4
LEASE_S = 12.0


def read_starts(path: Path) -> list[tuple[int, int, int, float]]:
    """Read `(job, attempt, pid, time in s)` of every start."""
    if not path.exists():
        return []
    rows = [line.split() for line in path.read_text().splitlines()]
    return [(int(job), int(attempt), int(pid), int(at) / 1e9) for job, attempt, pid, at in rows]


def wait_for_starts(path: Path, count: int, deadline_s: float) -> list[tuple[int, int, int, float]]:
    """Wait until `count` starts are written."""
    deadline = time.monotonic() + deadline_s
    while len(starts := read_starts(path)) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(starts)} of {count} starts within {deadline_s:g} s")
        time.sleep(0.005)
    return starts


def push_batch(system: OwnSystem, first: int, is_spread: bool) -> None:
    """Push four jobs, the first a long one, in one partition or in one each."""
    client = system.client()
    items = []
    for number in range(first, first + PREFETCH):
        data = encode_data({"number": number, "sleep_s": 2.0 if number == first else 0.05})
        partition = f"p-{number % PREFETCH if is_spread else 0:04d}"
        body = JobBody(job="long", id=f"job-{number}", data=data, partition=partition)
        items.append(
            {
                "queue": QUEUE,
                "partition": partition,
                "transactionId": body.id,
                "payload": Envelope(body),
            }
        )
    client.call(calls.push(items))
    client.close()


def measure(is_spread: bool) -> None:
    """Kill the worker of a batch five times; print when its jobs started again."""
    unstarted_s: list[float] = []
    killed_s: list[float] = []
    numbers: set[int] = set()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        (scratch / "ends").mkdir()
        starts = scratch / "ends" / "starts"
        with (
            own_nodes(scratch, 1) as system,
            own_workers(
                system, "benchmarks.drain_app:application", 2, retry_after_s=LEASE_S, timeout_s=5.0
            ),
        ):
            wait_for_workers(system, 2)
            for turn in range(ROUNDS):
                # Kills that follow each other at once would be a crash loop, and open the circuit.
                wait_for_workers(system, 2)
                time.sleep(1.5)
                first = turn * PREFETCH
                seen = len(read_starts(starts))
                push_batch(system, first, is_spread)
                running = wait_for_starts(starts, seen + 1, 20.0)[-1]
                os.kill(running[2], signal.SIGKILL)
                killed_at = time.monotonic()
                rows = wait_for_starts(starts, seen + 1 + PREFETCH, LEASE_S + 10)[seen + 1 :]
                for job, attempt, _pid, at in rows:
                    if job == running[0]:
                        killed_s.append(at - killed_at)
                    else:
                        unstarted_s.append(at - killed_at)
                        numbers.add(attempt)
    print(f"  four jobs in {'four partitions' if is_spread else 'one partition'}, {ROUNDS} kills:")
    print(
        f"    unstarted jobs started again after {1000 * statistics.median(unstarted_s):.0f} ms "
        f"(median), {1000 * max(unstarted_s):.0f} ms (worst), with attempt numbers "
        f"{sorted(numbers)}"
    )
    print(
        f"    the killed job after {statistics.median(killed_s):.2f} s (median), "
        f"{max(killed_s):.2f} s (worst); the lease is {LEASE_S:g} s"
    )


def main() -> None:
    """Print it for a batch in one partition, and for one spread over four."""
    print(f"hand-back: SIGKILL of a worker in mid-job, prefetch {PREFETCH}")
    measure(is_spread=False)
    measure(is_spread=True)


if __name__ == "__main__":
    main()
