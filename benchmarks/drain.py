"""Drain a backlog with 32 workers: ours beside RQ and Celery, one after the other in one run.

Every system runs the same body (sleep, then one 8-byte append) on the same machine. Ours is one
node that syncs every acknowledged write; the peers' Redis has an append-only file, fsync always.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
from pathlib import Path

from atleastonce.system.client import calls
from atleastonce.system.jobs.payload import Envelope, JobBody, encode_data, partition_of

from . import peer_runs
from .ends import Drain, read_drain, wait_for_ends
from .own_system import PARTITIONS, QUEUE, OwnSystem, own_nodes, own_workers, wait_for_workers

ITEMS_PER_PUSH = 100


def preload(system: OwnSystem, jobs: int, sleep_ms: float) -> None:
    """Push a backlog, 100 jobs a call."""
    client = system.client()
    data = encode_data({"sleep_ms": sleep_ms})
    for start in range(0, jobs, ITEMS_PER_PUSH):
        items = []
        for number in range(start, min(start + ITEMS_PER_PUSH, jobs)):
            job_id = f"job-{number:06d}"
            partition = partition_of(job_id, PARTITIONS)
            body = JobBody(job="work", id=job_id, data=data, partition=partition)
            items.append(
                {
                    "queue": QUEUE,
                    "partition": partition,
                    "transactionId": job_id,
                    "payload": Envelope(body),
                }
            )
        client.call(calls.push(items))
    client.close()


def drain_ours(jobs: int, workers: int, sleep_ms: float, scratch: Path) -> Drain:
    """Load a backlog into one node, then start the supervisor and measure the drain."""
    ends = scratch / "ends"
    ends.mkdir()
    with own_nodes(scratch, 1) as system:
        preload(system, jobs, sleep_ms)
        with own_workers(system, "benchmarks.drain_app:application", workers):
            wait_for_workers(system, workers)
            if not wait_for_ends(ends, jobs, deadline_s=300):
                raise TimeoutError(f"{jobs} jobs were not finished within 300 s: {scratch}")
    return read_drain(ends)


def main(arguments: list[str] | None = None) -> None:
    """Print jobs a second of each system, and our ratio to the better peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=32)
    parser.add_argument("--sleep-ms", type=float, default=10.0)
    parser.add_argument("--only-ours", action="store_true")
    options = parser.parse_args(arguments)
    rates: dict[str, float] = {}
    print(f"drain: {options.jobs} jobs of {options.sleep_ms:g} ms, {options.workers} workers")
    if not options.only_ours:
        peer_runs.prepare()
        for peer in ("rq", "celery"):
            with tempfile.TemporaryDirectory() as scratch:
                found = peer_runs.drain(
                    peer, options.jobs, options.workers, options.sleep_ms, Path(scratch)
                )
            rates[peer] = found.rate
            print(f"  {peer:12} {found.rate:8.0f} jobs/s  ({found.jobs} jobs)", flush=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as scratch:
        found = drain_ours(options.jobs, options.workers, options.sleep_ms, Path(scratch))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"  {'atleastonce':12} {found.rate:8.0f} jobs/s  ({found.jobs} jobs, "
        f"{1000 * cpu_s / found.jobs:.2f} ms of CPU a job in all processes, dispatch included)"
    )
    if rates:
        better = max(rates, key=lambda name: rates[name])
        print(f"  ratio to the better peer ({better}): {found.rate / rates[better]:.2f}")


if __name__ == "__main__":
    main()
