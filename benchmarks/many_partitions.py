"""What a whole node holds and how long it takes to come back, as partitions grow.

Over HTTP, 1,000 queues with retention by time and deduplication on: each partition is created by a
push, its message is popped and acked. Then the node is killed (-9) and started again, until it is
healthy and has taken a push. With three nodes the leader is killed, and the time until the next one
takes a push is told as well.

Run: python -m benchmarks.many_partitions [--sizes N …] [--nodes 1|3]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

from atleastonce.system.client import calls

from .load.accounting import cpu_s, resident_mib
from .own_system import OwnSystem, own_nodes

SIZES: Final = (10_000, 100_000, 1_000_000)
QUEUES: Final = 1_000
BATCH: Final = 100
CLIENTS: Final = 4
GROUP: Final = "readers"
OPTIONS: Final = {"retentionEnabled": True, "retentionSeconds": 86_400}
PATIENCE_S: Final = 300.0


def queue_name(number: int) -> str:
    """Name of one of the queues."""
    return f"queue-{number:04d}"


def spread(count: int) -> Iterator[tuple[int, range]]:
    """(queue, its partitions' numbers), a part of `count` for each client."""
    each = count // QUEUES
    for queue in range(QUEUES):
        yield queue, range(each)


def create(system: OwnSystem, part: list[tuple[int, range]]) -> int:
    """Push one message to every partition of some queues."""
    made = 0
    with closing(system.client()) as client:
        for queue, numbers in part:
            name = queue_name(queue)
            client.call(calls.configure(name, OPTIONS))
            for first in range(0, len(numbers), BATCH):
                items = [
                    {
                        "queue": name,
                        "partition": f"p{number}",
                        "transactionId": f"{queue}-{number}",
                        "payload": {"n": number},
                    }
                    for number in numbers[first : first + BATCH]
                ]
                made += len(client.call(calls.push(items)).value)
    return made


def consume(system: OwnSystem, part: list[tuple[int, range]]) -> int:
    """Pop and ack what every partition of some queues holds."""
    done = 0
    with closing(system.client()) as client:
        for queue, numbers in part:
            left = len(numbers)
            while left:
                call = calls.pop(queue_name(queue), group=GROUP, batch=BATCH, partitions=BATCH)
                popped = client.call(call).value
                acks = [
                    {
                        "transactionId": message.transaction_id,
                        "partitionId": message.partition_id,
                        "status": "completed",
                        "leaseId": popped.lease_id,
                    }
                    for message in popped.messages
                ]
                assert acks, f"{left} messages of {queue_name(queue)} are not to be had"
                results = client.call(calls.ack_batch(acks, group=GROUP)).value
                assert all(result.success for result in results), "an ack was refused"
                left -= len(acks)
                done += len(acks)
    return done


def in_parts(work: list[tuple[int, range]]) -> list[list[tuple[int, range]]]:
    """The queues, shared out among the clients."""
    return [work[first::CLIENTS] for first in range(CLIENTS)]


def push_once(system: OwnSystem) -> None:
    """Push one message, however long the cluster needs for it."""
    with closing(system.client()) as client:
        client.call(calls.push([{"queue": "after", "payload": 1}]), deadline_s=PATIENCE_S)


def wait_healthy(system: OwnSystem, name: str) -> None:
    """Wait until a node is healthy."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        health = system.health(name)
        if health is not None and health["status"] == "healthy":
            return
        time.sleep(0.02)
    raise TimeoutError(f"{name} is not healthy within {PATIENCE_S:g} s")


def wait_saved(system: OwnSystem, name: str) -> None:
    """Wait until a node's checkpoint holds all that it has applied."""
    ends = time.monotonic() + PATIENCE_S
    while time.monotonic() < ends:
        health = system.health(name)
        storage, raft = (health or {}).get("storage"), (health or {}).get("raft")
        if (
            isinstance(storage, dict)
            and isinstance(raft, dict)
            and storage["checkpoint"] == raft["applied"]
        ):
            return
        time.sleep(0.02)
    raise TimeoutError(f"{name} made no checkpoint of everything within {PATIENCE_S:g} s")


def memory(system: OwnSystem, name: str) -> dict[str, float]:
    """Resident memory of a node in MiB: all of it, and what is no page of a file."""
    pid = system.nodes[name].pid
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    own = next(line for line in status.splitlines() if line.startswith("RssAnon"))
    return {"all": round(resident_mib(pid)), "own": round(int(own.split()[1]) / 1024)}


def measure(count: int, nodes: int) -> dict[str, object]:
    """Figures of one size."""
    found: dict[str, object] = {"partitions": count, "nodes": nodes}
    with tempfile.TemporaryDirectory() as scratch, own_nodes(Path(scratch), nodes) as system:
        work = in_parts(list(spread(count)))
        for phase, act in (("create", create), ("pop and ack", consume)):
            leader = system.leader()
            began, cpu = time.monotonic(), cpu_s(system.nodes[leader].pid)
            with ThreadPoolExecutor(CLIENTS) as pool:
                done = sum(pool.map(act, [system] * CLIENTS, work))
            took_s = time.monotonic() - began
            assert done == count, f"{phase}: {done} of {count}"
            found[f"{phase}_per_s"] = round(done / took_s)
            found[f"{phase}_leader_cpu_us"] = round(
                (cpu_s(system.nodes[leader].pid) - cpu) / done * 1e6, 1
            )
            found[f"{phase}_resident_mib"] = memory(system, leader)
        leader = system.leader()
        wait_saved(system, leader)
        system.nodes[leader].kill()
        system.nodes[leader].wait()
        began = time.monotonic()
        if nodes > 1:
            push_once(system)
            found["failover_s"] = round(time.monotonic() - began, 2)
            began = time.monotonic()
        system.start_node(leader)
        wait_healthy(system, leader)
        push_once(system)
        found["restart_s"] = round(time.monotonic() - began, 2)
        found["restart_resident_mib"] = memory(system, leader)
    return found


def main() -> None:
    """Print one JSON object a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--nodes", type=int, default=1, choices=(1, 3))
    given = parser.parse_args()
    for count in given.sizes:
        print(json.dumps(measure(count, given.nodes)), flush=True)


if __name__ == "__main__":
    main()
