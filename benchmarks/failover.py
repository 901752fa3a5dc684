"""How long a lost leader keeps clients waiting, on three real nodes.

For each kill: a client pushes through a follower without a pause; the leader is killed (-9), and
the time until the first push acknowledged by the new leader is taken. Then the killed node is
started again. For each planned stop: the longest push through the two other nodes, and failed
ones. All of it twice: on an idle cluster, and on one that holds 10,000 partitions and is under load
meanwhile (pushes and pops by the clock, through all nodes).

Run: python -m benchmarks.failover [--kills N] [--stops N] [--partitions N ...] [--rate N]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import trio

from .node_http import exchange, free_port, request

KILLS: Final = 20
STOPS: Final = 5
PARTITIONS_PER_PUSH: Final = 100
LOAD_CONNECTIONS: Final = 16
SETTLE_S: Final = 1.0
STOP_WATCH_S: Final = 2.0


class Cluster:
    """Three nodes with default timeouts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "token").write_text("a token for three nodes")
        (folder / "token").chmod(0o600)
        self.names = ["n1", "n2", "n3"]
        self.ports = {name: free_port() for name in self.names}
        self._peers = {name: ["127.0.0.1", free_port()] for name in self.names}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self, name: str) -> None:
        """Start one node."""
        config = {
            "node": name,
            "data_dir": str(self._folder / name),
            "client": ["127.0.0.1", self.ports[name]],
            "peers": self._peers,
            "token_file": str(self._folder / "token"),
            "die_with_parent": True,
        }
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps(config))
        command = [sys.executable, "-m", "atleastonce.system.node", str(path)]
        with (self._folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(command, stderr=log, start_new_session=True)

    async def health(self, name: str) -> dict[str, Any] | None:
        """What one node says about itself; None when it does not answer."""
        try:
            async with await trio.open_tcp_stream("127.0.0.1", self.ports[name]) as stream:
                await stream.send_all(request("GET", "/health"))
                got = await stream.receive_some(65536)
        except (OSError, trio.BrokenResourceError):
            return None
        body = bytes(got).partition(b"\r\n\r\n")[2]
        found: dict[str, Any] | None = json.loads(body) if body else None
        return found

    async def wait_healthy(self) -> str:
        """Wait until all nodes are healthy; returns the leader."""
        with trio.fail_after(20):
            while True:
                states = [await self.health(name) for name in self.names]
                if all(state is not None and state["status"] == "healthy" for state in states):
                    leaders = {state["raft"]["leader"] for state in states if state is not None}
                    if len(leaders) == 1:
                        return str(leaders.pop())
                await trio.sleep(0.02)

    def end(self) -> None:
        """Leave no process behind."""
        for process in self.processes.values():
            process.kill()
            process.wait()


class Pusher:
    """Pushes through one node, one message after the other, and times each push."""

    def __init__(self, port: int, name: str) -> None:
        self._port = port
        self._name = name
        self.spans: list[tuple[float, float]] = []
        self.failures = 0

    async def run(self) -> None:
        """Push until cancelled."""
        number = 0
        while True:
            try:
                async with await trio.open_tcp_stream("127.0.0.1", self._port) as stream:
                    while True:
                        number += 1
                        await self._push(stream, number)
            except (OSError, trio.BrokenResourceError):
                self.failures += 1
                await trio.sleep(0.01)

    async def _push(self, stream: trio.SocketStream, number: int) -> None:
        item = {"queue": "failover", "payload": number, "transactionId": f"{self._name}-{number}"}
        data = request("POST", "/api/v1/push", {"items": [item]})
        began = time.perf_counter()
        try:
            await exchange(stream, data)
        except AssertionError:
            self.failures += 1
        else:
            self.spans.append((began, time.perf_counter()))

    def first_after(self, instant: float) -> float:
        """When the first push that was sent after an instant, or was open at it, ended."""
        ends = [end for began, end in self.spans if end > instant]
        return min(ends) if ends else float("inf")

    def longest_after(self, instant: float) -> float:
        """The longest push that ended after an instant, in seconds."""
        return max((end - began for began, end in self.spans if end > instant), default=0.0)


async def fill(cluster: Cluster, partitions: int) -> None:
    """Push one message into each of so many partitions."""
    port = cluster.ports[await cluster.wait_healthy()]
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        for start in range(0, partitions, PARTITIONS_PER_PUSH):
            items = [
                {"queue": "load", "partition": f"p{number}", "payload": number}
                for number in range(start, min(start + PARTITIONS_PER_PUSH, partitions))
            ]
            await exchange(stream, request("POST", "/api/v1/push", {"items": items}))


class Load:
    """Requests by the clock over many connections: pushes, and as many pops.

    Attributes:
        done: Answered requests.
        failures: Refused or lost ones.
    """

    def __init__(self, cluster: Cluster, partitions: int, rate: float) -> None:
        self.done = 0
        self.failures = 0
        self._ports = list(cluster.ports.values())
        self._partitions = partitions
        self._pause_s = LOAD_CONNECTIONS / rate

    async def run(self) -> None:
        """Put load on the cluster until cancelled."""
        async with trio.open_nursery() as nursery:
            for number in range(LOAD_CONNECTIONS):
                nursery.start_soon(self._drive, number)

    async def _drive(self, number: int) -> None:
        dice = random.Random(number)
        port = number
        due = trio.current_time() + dice.random() * self._pause_s
        while True:
            port += 1
            async with AsyncExitStack() as stack:
                try:
                    address = ("127.0.0.1", self._ports[port % len(self._ports)])
                    stream = await stack.enter_async_context(await trio.open_tcp_stream(*address))
                    while True:
                        await trio.sleep_until(due)
                        due = max(due + self._pause_s, trio.current_time())
                        await exchange(stream, self._request(number, dice))
                        self.done += 1
                except (OSError, trio.BrokenResourceError, AssertionError):
                    self.failures += 1
                    await trio.sleep(0.02)

    def _request(self, number: int, dice: random.Random) -> bytes:
        if number % 2:
            return request("GET", "/api/v1/pop/queue/load?batch=4&partitions=4&autoAck=true")
        partition = f"p{dice.randrange(self._partitions)}"
        item = {"queue": "load", "partition": partition, "payload": {"text": "x" * 150}}
        return request("POST", "/api/v1/push", {"items": [item]})


async def kill_once(cluster: Cluster, serial: int) -> float:
    """Kill the leader once; returns the seconds until a new leader acknowledged a push."""
    leader = await cluster.wait_healthy()
    follower = next(name for name in cluster.names if name != leader)
    pusher = Pusher(cluster.ports[follower], f"kill{serial}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pusher.run)
        await trio.sleep(SETTLE_S / 2 + serial % 5 * 0.03)
        process = cluster.processes[leader]
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        died = time.perf_counter()
        new: str | None = leader
        while new in (leader, None):
            state = await cluster.health(follower)
            new = state["raft"]["leader"] if state else None
            await trio.sleep(0.002)
        while pusher.first_after(died + 0.02) == float("inf"):
            await trio.sleep(0.002)
        nursery.cancel_scope.cancel()
    cluster.start(leader)
    return pusher.first_after(died + 0.02) - died


async def stop_once(cluster: Cluster, serial: int) -> tuple[float, float, int]:
    """Stop the leader once; the longest push elsewhere, the stop's length, and failed pushes."""
    leader = await cluster.wait_healthy()
    others = [name for name in cluster.names if name != leader]
    pushers = [Pusher(cluster.ports[name], f"stop{serial}-{name}") for name in others]
    process = cluster.processes[leader]
    async with trio.open_nursery() as nursery:
        for pusher in pushers:
            nursery.start_soon(pusher.run)
        await trio.sleep(SETTLE_S)
        asked = time.perf_counter()
        os.kill(process.pid, signal.SIGTERM)
        while process.poll() is None:
            await trio.sleep(0.005)
        took = time.perf_counter() - asked
        await trio.sleep(STOP_WATCH_S)
        nursery.cancel_scope.cancel()
    assert process.returncode == 0, f"{leader} ended with status {process.returncode}"
    cluster.start(leader)
    longest = max(pusher.longest_after(asked) for pusher in pushers)
    return longest, took, sum(pusher.failures for pusher in pushers)


async def measure(cluster: Cluster, kills: int, stops: int, partitions: int, rate: float) -> None:
    """Print the figures."""
    load = Load(cluster, partitions, rate)
    async with trio.open_nursery() as nursery:
        began = trio.current_time()
        if partitions:
            await fill(cluster, partitions)
            began = trio.current_time()
            nursery.start_soon(load.run)
            await trio.sleep(SETTLE_S)
        await measure_changes(cluster, kills, stops)
        nursery.cancel_scope.cancel()
    if partitions:
        took = trio.current_time() - began
        print(
            f"meanwhile, over {partitions} partitions: {load.done / took:.0f} requests/s answered,"
            f" {load.failures} lost with their connections or refused"
        )


async def measure_changes(cluster: Cluster, kills: int, stops: int) -> None:
    """Kill, stop, and print."""
    waits = [await kill_once(cluster, serial) for serial in range(kills)]
    if waits:
        print(f"kill -9 of the leader to the first acknowledged push, {kills} kills:")
        print(f"  median {statistics.median(waits):.3f} s, worst {max(waits):.3f} s")
    found = [await stop_once(cluster, serial) for serial in range(stops)]
    if found:
        longest = [each[0] for each in found]
        print(f"SIGTERM of the leader, {stops} stops, clients of the two other nodes:")
        print(
            f"  longest push: median {statistics.median(longest) * 1000:.0f} ms, "
            f"worst {max(longest) * 1000:.0f} ms; failed pushes: {sum(each[2] for each in found)}"
        )
        print(f"  from signal to exit: worst {max(each[1] for each in found):.3f} s")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--stops", type=int, default=STOPS)
    parser.add_argument("--partitions", type=int, nargs="*", default=[0, 10_000])
    parser.add_argument("--rate", type=float, default=300.0, help="requests a second of the load")
    given = parser.parse_args()
    for partitions in given.partitions:
        with tempfile.TemporaryDirectory() as folder:
            cluster = Cluster(Path(folder))
            try:
                for name in cluster.names:
                    cluster.start(name)
                trio.run(measure, cluster, given.kills, given.stops, partitions, given.rate)
            finally:
                cluster.end()


if __name__ == "__main__":
    main()
