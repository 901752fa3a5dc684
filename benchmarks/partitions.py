"""What a node's state costs as its partitions grow: memory, restart, and one operation.

Each size runs in a process of its own, with the real checkpoint store in a folder that is thrown
away: 1,000 queues (fewer for small sizes) with retention by time and deduplication on, one consumer
group in each; every partition is created by a push, pushed to, popped and acked.

    python benchmarks/partitions.py [SIZE …]
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

from atleastonce.system.broker.commands import Ack, AckItem, Command, Configure, Pop, Push, PushItem
from atleastonce.system.broker.machine import Machine
from atleastonce.system.broker.planner import Planner
from atleastonce.system.broker.replies import PopReply, Reply
from atleastonce.system.raft.members import Checkpoint
from atleastonce.system.storage.checkpoint import CheckpointStore

SIZES = (10_000, 100_000, 1_000_000)
QUEUES = 1_000
WIDTH = 100
"""Partitions of one push and of one pop."""

CHECKPOINT_EVERY = 100
"""Entries, which is 10,000 messages."""

SINGLES = 3_000
BACKLOGS = ((50_000, 1), (500_000, 100))
"""Waiting messages, and how many one push brings."""

PAYLOAD = json.dumps({"job": "sleep", "data": {"ms": 25, "text": "x" * 90}}).encode()
MIB = 1 << 20


class Bench:
    """A machine, its checkpoints and its clock."""

    def __init__(self, folder: Path) -> None:
        self.store = CheckpointStore.open(folder / "state.mdb")
        self.machine = Machine(messages=self.store)
        self.rows = 0
        self.take_s = 0.0
        self._planner = Planner(os.urandom)
        self._clock_us = 1_800_000_000_000_000

    def apply(self, command: Command) -> Reply:
        """One entry; every so often a checkpoint."""
        data = self.plan(command)
        (reply,) = self.machine.apply(self.machine.applied_index + 1, data)
        if self.machine.applied_index % CHECKPOINT_EVERY == 0:
            self.checkpoint()
        return reply

    def plan(self, command: Command) -> bytes:
        """An entry's data."""
        self._clock_us += 1000
        return self._planner.plan(self._clock_us, (command,))

    def checkpoint(self) -> None:
        """Commit what has changed."""
        start = time.process_time()
        changes = self.machine.take_changes()
        self.take_s += time.process_time() - start
        self.rows += len(changes)
        self.store.commit(changes, Checkpoint(self.machine.applied_index, 1))
        self.machine.changes_durable()

    def timed(self, commands: list[Command]) -> tuple[float, list[Reply]]:
        """Microseconds of processor time to apply each, without its coding and checkpoints."""
        entries = [self.plan(command) for command in commands]
        replies: list[Reply] = []
        start = time.process_time()
        for data in entries:
            replies += self.machine.apply(self.machine.applied_index + 1, data)
        spent = time.process_time() - start
        self.checkpoint()
        return spent / len(commands) * 1e6, replies


def memory() -> dict[str, float]:
    """Resident MiB of this process: its own, and pages of files."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = dict(line.split(":", 1) for line in lines if line.startswith("Rss"))
    return {
        "own": int(found["RssAnon"].split()[0]) / 1024,
        "files": int(found["RssFile"].split()[0]) / 1024,
    }


def names(size: int) -> list[tuple[str, list[str]]]:
    """Queues and their partitions."""
    queues = min(QUEUES, size // WIDTH)
    each = size // queues
    partitions = [f"tenant-{number:07d}" for number in range(each)]
    return [(f"queue-{number:04d}", partitions) for number in range(queues)]


def push_of(queue: str, partitions: list[str]) -> Push:
    """One message for each partition."""
    items = [PushItem(queue, name, str(uuid.uuid4()), PAYLOAD) for name in partitions]
    return Push(str(uuid.uuid4()), tuple(items))


def pop_of(queue: str, width: int) -> Pop:
    """A pop of so many partitions, of one message each."""
    return Pop(
        request_id=str(uuid.uuid4()),
        queue=queue,
        group="workers",
        batch=width,
        partitions=width,
        lease_s=60,
        subscribe="all",
    )


def ack_of(reply: Reply) -> Ack:
    """Everything that a pop has claimed."""
    assert isinstance(reply, PopReply)
    items = [
        AckItem(run.messages[-1].transaction_id, run.partition_id, "completed", reply.lease_id)
        for run in reply.runs
    ]
    return Ack(str(uuid.uuid4()), "workers", tuple(items))


def fill(bench: Bench, size: int) -> dict[str, float]:
    """Create, push, pop and ack in all partitions; microseconds a message, checkpoints included."""
    options: dict[str, int | bool | None] = {
        "retentionEnabled": True,
        "retentionSeconds": 86_400,
        "completedRetentionSeconds": 3_600,
    }
    queues = names(size)
    for queue, _ in queues:
        bench.apply(Configure("", queue, options))
        bench.apply(pop_of(queue, 1))
    start = time.process_time()
    for queue, partitions in queues:
        for place in range(0, len(partitions), WIDTH):
            bench.apply(push_of(queue, partitions[place : place + WIDTH]))
    created = time.process_time()
    for queue, partitions in queues:
        for _ in range(0, len(partitions), WIDTH):
            bench.apply(ack_of(bench.apply(pop_of(queue, WIDTH))))
    bench.checkpoint()
    done = time.process_time()
    return {
        "create_us": (created - start) / size * 1e6,
        "deliver_us": (done - created) / size * 1e6,
    }


def one_by_one(bench: Bench, size: int) -> dict[str, float]:
    """Apply costs of single pushes, pops and acks spread over all partitions, microseconds."""
    queues = names(size)
    spread = [
        (queue, partitions[(number * 37 + number // len(queues)) % len(partitions)])
        for number in range(SINGLES)
        for queue, partitions in (queues[number * 7 % len(queues)],)
    ]
    push_us, _ = bench.timed([push_of(queue, [name]) for queue, name in spread])
    pop_us, popped = bench.timed([pop_of(queue, 1) for queue, _ in spread])
    claims = [reply for reply in popped if isinstance(reply, PopReply) and reply.runs]
    ack_us, _ = bench.timed([ack_of(reply) for reply in claims])
    return {"push_us": push_us, "pop_us": pop_us, "ack_us": ack_us}


def measure_fill(size: int, folder: Path) -> dict[str, float]:
    """Fill a store and measure."""
    gc.set_threshold(50_000, 20, 1_000)
    bench = Bench(folder)
    base = memory()["own"]
    figures = fill(bench, size)
    figures |= one_by_one(bench, size)
    start = time.process_time()
    gc.collect()
    figures["gc_ms"] = (time.process_time() - start) * 1000
    resident = memory()
    figures["own_mib"], figures["files_mib"] = resident["own"], resident["files"]
    figures["bytes_each"] = (resident["own"] - base) * MIB / size
    figures["row_us"] = bench.take_s / bench.rows * 1e6
    figures["store_mib"] = bench.store.used_bytes / MIB
    bench.store.close()
    return figures


def measure_backlog(messages: int, width: int, folder: Path) -> dict[str, float]:
    """Memory of messages of 1 KiB that nobody pops, pushed so many at a time to 16 partitions."""
    gc.set_threshold(50_000, 20, 1_000)
    bench = Bench(folder)
    payload = b'"' + b"x" * 1022 + b'"'
    base = memory()["own"]
    for number in range(messages // width):
        items = [
            PushItem("queue", f"p-{number % 16}", str(uuid.uuid4()), payload) for _ in range(width)
        ]
        bench.apply(Push(str(uuid.uuid4()), tuple(items)))
    bench.checkpoint()
    gc.collect()
    resident = memory()
    bench.store.close()
    return {
        f"waiting_bytes_by_{width}": (resident["own"] - base) * MIB / messages,
        f"store_bytes_by_{width}": bench.store.used_bytes / messages,
    }


def measure_restore(folder: Path) -> dict[str, float]:
    """Open a store again and measure."""
    gc.disable()
    store = CheckpointStore.open(folder / "state.mdb")
    start, spent = time.perf_counter(), time.process_time()
    Machine.restore(store.rows(without=b"m/"), store.position.index, messages=store)
    figures = {
        "restore_s": time.perf_counter() - start,
        "restore_cpu_s": time.process_time() - spent,
    }
    resident = memory()
    figures["restored_own_mib"] = resident["own"]
    figures["restored_files_mib"] = resident["files"]
    store.close()
    return figures


def child(*arguments: str) -> dict[str, float]:
    """Run one part in a process of its own."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    """Print one line of figures a size."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["fill"]:
        print(json.dumps(measure_fill(int(arguments[1]), Path(arguments[2]))))
        return
    if arguments[:1] == ["restore"]:
        print(json.dumps(measure_restore(Path(arguments[1]))))
        return
    if arguments[:1] == ["backlog"]:
        messages, width = int(arguments[1]), int(arguments[2])
        print(json.dumps(measure_backlog(messages, width, Path(arguments[3]))))
        return
    for messages, width in BACKLOGS:
        with tempfile.TemporaryDirectory(prefix="partitions-") as folder:
            show("waiting messages of 1 KiB", child("backlog", str(messages), str(width), folder))
    for size in [int(argument) for argument in arguments] or SIZES:
        with tempfile.TemporaryDirectory(prefix="partitions-") as folder:
            figures = child("fill", str(size), folder)
            figures |= child("restore", folder)
        show(f"{size:,} partitions", figures)


def show(title: str, figures: dict[str, float]) -> None:
    """Print figures."""
    print(title)
    for name, figure in figures.items():
        print(f"  {name:20} {figure:10.1f}", flush=True)


if __name__ == "__main__":
    main()
