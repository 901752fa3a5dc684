"""Throughput, latency and CPU of real nodes under load, beside Redis streams in the same run.

One generator process (see `load.generator`) speaks to the leader over loopback; what it costs is
told apart from what the nodes cost. Every acknowledged write is on disk: ours by fdatasync, on a
majority; Redis by `appendfsync always`, on one server.

Run: python -m benchmarks.broker_load [--quick] [--nodes 1 3] [--json FILE] (see --help)
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from atleastonce.system.client import calls

from .load.accounting import cpu_s, resident_mib
from .load.plan import Kind, LoadPlan, LoadResult, System
from .load.scripts import GROUP, redis_command
from .own_system import OwnSystem, own_nodes
from .peer_runs import PeersMissingError, redis_process

PARTITIONS: Final = 256
PAYLOAD_BYTES: Final = 200
BACKLOG_FACTOR: Final = 2
"""How much longer than pops are measured messages are pushed in front of them."""

IDLE_SETTLE_S: Final = 3.0
TARGETS: Final = {100: 1000.0, 1: 1500.0}
"""Requests a second that one node must take, by their batch."""

PACED_CONNECTIONS: Final = 64


class Figure(msgspec.Struct, frozen=True):
    """One line of the table."""

    system: str
    nodes: int
    kind: str
    batch: int
    connections: int
    rate: float | None
    spread: bool
    result: LoadResult


class Report(msgspec.Struct):
    """Everything that a run measured.

    Attributes:
        idle_cpu_percent: Of one core, by node, without any client.
        resident_mib: Of each node at the end.
    """

    figures: list[Figure]
    idle_cpu_percent: dict[str, float]
    resident_mib: dict[str, float]


class Target(msgspec.Struct, frozen=True):
    """A server to put load on."""

    system: System
    nodes: int
    port: int
    pids: tuple[int, ...]
    ours: OwnSystem | None = None


class Options(msgspec.Struct, frozen=True):
    """What to measure, and for how long."""

    batches: tuple[int, ...]
    connections: tuple[int, ...]
    measure_s: float
    idle_s: float
    spread: bool
    kinds: tuple[str, ...]
    paced: bool


def generate(plan: LoadPlan) -> LoadResult:
    """Run the generator as a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.load.generator"],
        input=msgspec.json.encode(plan),
        stdout=subprocess.PIPE,
        check=True,
        cwd=Path(__file__).resolve().parent.parent,
    )
    return msgspec.json.decode(done.stdout, type=LoadResult)


class Bench:
    """Measures one system after the other and keeps the figures."""

    def __init__(self, options: Options) -> None:
        self.report = Report([], {}, {})
        self._options = options
        self._serial = 0

    def plan(
        self, target: Target, kind: Kind, batch: int, connections: int, queue: str = ""
    ) -> LoadPlan:
        """A closed-loop plan on a queue of its own."""
        self._serial += 1
        return LoadPlan(
            system=target.system,
            port=target.port,
            kind=kind,
            batch=batch,
            connections=connections,
            warmup_s=min(1.0, self._options.measure_s / 4),
            measure_s=self._options.measure_s,
            rate=None,
            payload_bytes=PAYLOAD_BYTES,
            partitions=PARTITIONS,
            queue=queue or f"load-{self._serial}",
            server_pids=target.pids,
            tag=f"{self._serial:04d}-",
            spread=self._options.spread and kind == "push",
        )

    def run(self, target: Target, plan: LoadPlan) -> LoadResult:
        """Carry out a plan, print its line and check that nothing got lost."""
        result = generate(plan)
        self.report.figures.append(
            Figure(
                target.system,
                target.nodes,
                plan.kind,
                plan.batch,
                plan.connections,
                plan.rate,
                plan.spread,
                result,
            )
        )
        pace = "as fast as it goes" if plan.rate is None else f"{plan.rate:.0f} requests/s"
        what = f"{plan.kind}{'+ack' if plan.kind == 'pop' else ''} x{plan.batch}"
        cpu = "+".join(f"{each:.1f}" for each in result.server_cpu_us)
        print(
            f"{target.system:5} {target.nodes} {what:12} {plan.connections:4} {pace:19}"
            f" {result.per_s:9.0f}/s  p50 {result.p50_ms:7.2f}  p99 {result.p99_ms:7.2f} ms"
            f"  CPU/message {cpu} us, generator {result.generator_cpu_us:.1f}"
            + (f"  late {result.late}" if plan.rate is not None else ""),
            flush=True,
        )
        if target.ours is not None and plan.kind == "push":
            stored = depth(target.ours, plan.queue)
            assert stored == result.all_messages, (
                f"{plan.queue}: {result.all_messages} messages acknowledged, {stored} stored"
            )
        return result

    def load(self, target: Target) -> None:
        """All figures of one system."""
        options = self._options
        for batch in options.batches:
            for connections in options.connections:
                plan = self.plan(target, "push", batch, connections)
                if target.system == "redis":
                    make_streams(target.port, plan)
                if "push" in options.kinds:
                    self.run(target, plan)
                if "pop" in options.kinds:
                    self.pop(target, plan)
            if options.paced and "push" in options.kinds:
                self.paced(target, batch)

    def paced(self, target: Target, batch: int) -> None:
        """Half the rate that one node must take, by the clock."""
        plan = self.plan(target, "push", batch, PACED_CONNECTIONS)
        if target.system == "redis":
            make_streams(target.port, plan)
        rate = TARGETS.get(batch, TARGETS[1]) / 2
        self.run(target, msgspec.structs.replace(plan, rate=rate))

    def pop(self, target: Target, pushed: LoadPlan) -> None:
        """Pop and acknowledge what has been pushed; more is pushed in front, to last."""
        fill = self.plan(target, "push", 100, 8, pushed.queue)
        fill = msgspec.structs.replace(
            fill, measure_s=BACKLOG_FACTOR * self._options.measure_s, spread=False
        )
        generate(fill)
        self.run(target, self.plan(target, "pop", pushed.batch, pushed.connections, pushed.queue))

    def idle(self, system: OwnSystem) -> None:
        """CPU time of nodes that nobody asks anything."""
        time.sleep(IDLE_SETTLE_S)
        pids = {name: process.pid for name, process in system.nodes.items()}
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        time.sleep(self._options.idle_s)
        for name, pid in pids.items():
            percent = 100 * (cpu_s(pid) - before[name]) / self._options.idle_s
            self.report.idle_cpu_percent[f"{name} of {len(pids)}"] = round(percent, 2)
            print(f"idle  {name} of {len(pids)}: {percent:.2f} % of a core", flush=True)


def depth(system: OwnSystem, queue: str) -> int:
    """How many messages of a queue nobody has claimed."""
    client = system.client()
    try:
        answer = client.call(calls.depth(queue, GROUP))
        return answer.value.pending
    finally:
        client.close()


def make_streams(port: int, plan: LoadPlan) -> None:
    """Make the streams and their group, as a consumer would once."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        for turn in range(plan.partitions):
            name = f"{plan.queue}-{turn}"
            sock.sendall(redis_command("XGROUP", "CREATE", name, GROUP, "0", "MKSTREAM"))
            answer = sock.recv(4096)
            assert answer == b"+OK\r\n", answer


@contextmanager
def our_target(nodes: int) -> Iterator[Target]:
    """A cluster of ours; the load goes to its leader."""
    with tempfile.TemporaryDirectory() as scratch, own_nodes(Path(scratch), nodes) as system:
        leader = system.leader()
        names = [leader, *sorted(set(system.nodes) - {leader})]
        pids = tuple(system.nodes[name].pid for name in names)
        yield Target("ours", nodes, system.endpoints[leader].port, pids, system)


@contextmanager
def redis_target() -> Iterator[Target]:
    """A Redis server whose every write is synced."""
    with tempfile.TemporaryDirectory() as scratch, redis_process(Path(scratch)) as (pid, port):
        yield Target("redis", 1, port, (pid,))


def read_arguments(arguments: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, nargs="*", default=[1, 3])
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 100])
    parser.add_argument("--connections", type=int, nargs="*", default=[1, 16, 64, 128])
    parser.add_argument("--kinds", nargs="*", default=["push", "pop"], choices=["push", "pop"])
    parser.add_argument("--seconds", type=float, default=5.0, help="counted time of each figure")
    parser.add_argument("--idle-seconds", type=float, default=20.0, help="0 leaves it out")
    parser.add_argument("--spread", action="store_true", help="each message of a push elsewhere")
    parser.add_argument("--no-redis", action="store_true")
    parser.add_argument("--no-paced", action="store_true")
    parser.add_argument("--json", type=Path, help="write every figure here too")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Measure and print."""
    given = read_arguments(arguments)
    bench = Bench(
        Options(
            tuple(given.batches),
            tuple(given.connections),
            given.seconds,
            given.idle_seconds,
            given.spread,
            tuple(given.kinds),
            not given.no_paced,
        )
    )
    if not given.no_redis:
        try:
            with redis_target() as target:
                bench.load(target)
        except PeersMissingError as error:
            print(f"redis: {error}", file=sys.stderr)
    for nodes in given.nodes:
        with our_target(nodes) as target:
            assert target.ours is not None
            if given.idle_seconds:
                bench.idle(target.ours)
            bench.load(target)
            for name, process in target.ours.nodes.items():
                bench.report.resident_mib[f"{name} of {nodes}"] = round(resident_mib(process.pid))
    if given.json is not None:
        given.json.write_bytes(msgspec.json.format(msgspec.json.encode(bench.report)))


if __name__ == "__main__":
    main()
