"""One producer, one message a call, to many pops that wait: what a single node pays for a job.

Run: python -m benchmarks.parked_pops [--consumers N ...] [--job-ms MS] [--source DIR ...]

No worker and no supervisor: one process speaks to real nodes over raw sockets and one epoll.
A consumer has two connections as a worker has: one that pops up to four messages, and waits for
some, and one that acknowledges each message alone. Sources are trees of the project: a node of each
runs, and all are loaded in turn, a slice of a second at a time.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import ExitStack
from heapq import heappop, heappush
from pathlib import Path
from typing import Final

from .node_http import cpu_s, free_port, request

PARTITIONS: Final = 64
SLICE_S: Final = 0.25
"""How long one node is loaded before it is the next one's turn: all meet the same machine."""


class Connection:
    """A socket with at most one request under way."""

    def __init__(self, port: int) -> None:
        """Connect."""
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.got = bytearray()

    def send(self, data: bytes) -> None:
        """Send one request."""
        self.socket.sendall(data)

    def receive(self) -> tuple[int, bytes] | None:
        """Read what is there; the status and body of a whole answer, or None."""
        self.got += self.socket.recv(65536)
        end = self.got.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self.got[:end]).lower()
        at = head.find(b"content-length:")
        length = int(head[at + 15 :].split(b"\r\n")[0]) if at >= 0 else 0
        if len(self.got) < end + 4 + length:
            return None
        body = bytes(self.got[end + 4 : end + 4 + length])
        self.got.clear()
        return int(head[9:12]), body


class Consumer:
    """One worker's two connections, and what it holds."""

    def __init__(self, port: int) -> None:
        """Connect both."""
        self.pops = Connection(port)
        self.acks = Connection(port)
        self.owed: list[dict[str, object]] = []
        self.late: list[dict[str, object]] = []
        self.is_acking = False


class Load:
    """The producer and the consumers on one epoll."""

    def __init__(self, port: int, consumers: int, job_s: float, rate: float) -> None:
        """Connect and let every consumer wait."""
        self.job_s, self.rate = job_s, rate
        self.sent = self.done = self.pushed = 0
        self.sent_at: dict[str, float] = {}
        self.waits_s: list[float] = []
        self.pops = self.popped = 0
        self.poll = select.epoll()
        self.by_fd: dict[int, tuple[str, Consumer | None, Connection]] = {}
        self.producer = Connection(port)
        self._watch("push", None, self.producer)
        self.due: list[tuple[float, int, Consumer]] = []
        self.consumers = [Consumer(port) for _ in range(consumers)]
        for consumer in self.consumers:
            self._watch("pop", consumer, consumer.pops)
            self._watch("ack", consumer, consumer.acks)
            self._pop(consumer)
        self.next_push = 0.0

    def _watch(self, kind: str, consumer: Consumer | None, connection: Connection) -> None:
        self.by_fd[connection.socket.fileno()] = (kind, consumer, connection)
        self.poll.register(connection.socket.fileno(), select.EPOLLIN)

    def _pop(self, consumer: Consumer) -> None:
        self.pops += 1
        path = (
            "/api/v1/pop/queue/bench?batch=4&partitions=16&wait=true&timeout=5000&leaseSeconds=30"
        )
        consumer.pops.send(request("GET", path))

    def _push(self) -> None:
        number = self.sent
        self.sent += 1
        name = f"t{number}"
        partition = f"p{hash((number, 7)) % PARTITIONS}"
        item = {"queue": "bench", "partition": partition, "transactionId": name}
        body = {
            "items": [{**item, "payload": {"_job": {"job": "run", "id": name, "data": "x" * 100}}}]
        }
        self.sent_at[name] = time.perf_counter()
        self.producer.send(request("POST", "/api/v1/push", body))

    def run(self, seconds: float) -> float:
        """Produce for so long, and wait until all is done; returns how long that took."""
        began = time.perf_counter()
        ends, last = began + seconds, began + seconds + 10
        self.next_push = began
        is_free = True
        while True:
            now = time.perf_counter()
            if is_free and now < ends and now >= self.next_push:
                self.next_push += 1 / self.rate if self.rate else 0
                is_free = False
                self._push()
            if (now >= ends and self.done == self.sent) or now > last:
                break
            while self.due and self.due[0][0] <= now:
                self._finish(heappop(self.due)[2])
            wait_s = 0.05
            if self.due:
                wait_s = min(wait_s, self.due[0][0] - now)
            if is_free and now < ends:
                wait_s = min(wait_s, self.next_push - now)
            for fd, _ in self.poll.poll(max(0, wait_s)):
                kind, consumer, connection = self.by_fd[fd]
                answer = connection.receive()
                if answer is None:
                    continue
                assert answer[0] in (200, 201, 204), answer
                if kind == "push":
                    is_free = True
                elif consumer is not None and kind == "pop":
                    self._take(consumer, answer)
                elif consumer is not None:
                    self._acked(consumer)
        assert self.done == self.sent, f"{self.done} of {self.sent} done"
        return time.perf_counter() - began

    def _take(self, consumer: Consumer, answer: tuple[int, bytes]) -> None:
        if answer[0] == 204 or not answer[1]:
            self._pop(consumer)
            return
        body = json.loads(answer[1])
        consumer.owed = body["messages"]
        if not consumer.owed:
            self._pop(consumer)
            return
        self.popped += 1
        self._begin(consumer)

    def _begin(self, consumer: Consumer) -> None:
        now = time.perf_counter()
        self.waits_s.append(now - self.sent_at[str(consumer.owed[0]["transactionId"])])
        if self.job_s:
            heappush(self.due, (now + self.job_s, id(consumer), consumer))
        else:
            self._finish(consumer)

    def _finish(self, consumer: Consumer) -> None:
        message = consumer.owed.pop(0)
        body = {
            "transactionId": message["transactionId"],
            "partitionId": message["partitionId"],
            "status": "completed",
            "consumerGroup": "__QUEUE_MODE__",
            "leaseId": message["leaseId"],
            "error": None,
        }
        if consumer.is_acking:
            consumer.late.append(body)
        else:
            consumer.is_acking = True
            consumer.acks.send(request("POST", "/api/v1/ack", body))
        if consumer.owed:
            self._begin(consumer)
        else:
            self._pop(consumer)

    def _acked(self, consumer: Consumer) -> None:
        self.done += 1
        consumer.is_acking = bool(consumer.late)
        if consumer.late:
            consumer.acks.send(request("POST", "/api/v1/ack", consumer.late.pop(0)))


def counters(port: int) -> dict[str, int]:
    """The node's own counters."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as answer:
        found: dict[str, int] = json.loads(answer.read())["counters"]
    return found


def start(folder: Path, source: str) -> tuple[subprocess.Popen[bytes], int]:
    """Start a node from a tree's sources and wait until it is healthy."""
    port = free_port()
    (folder / "token").write_text("a token for one node only")
    (folder / "token").chmod(0o600)
    config = {
        "node": "n1",
        "data_dir": str(folder / "data"),
        "client": ["127.0.0.1", port],
        "peers": {"n1": ["127.0.0.1", free_port()]},
        "token_file": str(folder / "token"),
        "die_with_parent": True,
    }
    (folder / "n1.json").write_text(json.dumps(config))
    command = [sys.executable, "-m", "atleastonce.system.node", str(folder / "n1.json")]
    environment = {**os.environ, "PYTHONPATH": f"{source}/src"} if source else None
    with (folder / "n1.log").open("wb") as log:
        process = subprocess.Popen(command, stderr=log, env=environment)
    for _ in range(500):
        try:
            counters(port)
        except OSError:
            time.sleep(0.02)
        else:
            return process, port
    raise TimeoutError("the node did not become healthy")


class Measured:
    """One node under load, in slices."""

    def __init__(
        self, source: str, folder: Path, consumers: int, job_s: float, rate: float
    ) -> None:
        """Start a fresh node and let the consumers wait."""
        folder.mkdir()
        self.name = Path(source).name or "this"
        self.process, self.port = start(folder, source)
        self.load = Load(self.port, consumers, job_s, rate)
        self.load.run(0.5)
        self.load.waits_s.clear()
        self.load.popped = 0
        self.done = self.load.done
        self.used_s = self.took_s = 0.0
        self.before = counters(self.port)

    def slice(self, seconds: float) -> None:
        """Load it for a moment."""
        used_s = cpu_s(self.process.pid)
        self.took_s += self.load.run(seconds)
        self.used_s += cpu_s(self.process.pid) - used_s

    def figures(self) -> dict[str, float]:
        """What the slices cost."""
        load, after = self.load, counters(self.port)
        jobs, waits_s = load.done - self.done, sorted(load.waits_s)
        more = {key: after[key] - self.before[key] for key in after}
        each = {key: more[key] / jobs for key in ("syncs", "commands", "parked")}
        return {
            "jobs/s": jobs / self.took_s,
            "node us": self.used_s / jobs * 1e6,
            "p50 ms": 1e3 * waits_s[len(waits_s) // 2],
            "p95 ms": 1e3 * waits_s[len(waits_s) * 95 // 100],
            "a pop": jobs / max(1, load.popped),
            "sync us": more["sync_us"] / max(1, more["syncs"]),
            **each,
        }

    def stop(self) -> None:
        """End the node."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(10)


def main() -> None:
    """Measure in turn and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--consumers", type=int, nargs="+", default=[8, 32])
    parser.add_argument("--job-ms", type=float, default=0.0)
    parser.add_argument("--rate", type=float, default=0.0)
    parser.add_argument("--source", nargs="+", default=[""])
    given = parser.parse_args()
    for consumers in given.consumers:
        with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
            nodes = []
            for number, source in enumerate(given.source):
                folder = Path(scratch) / str(number)
                node = Measured(source, folder, consumers, given.job_ms / 1e3, given.rate)
                nodes.append(node)
                stack.callback(node.stop)
            for _ in range(round(given.seconds / SLICE_S)):
                for node in nodes:
                    node.slice(SLICE_S)
            for node in nodes:
                figures = "  ".join(f"{key} {value:.2f}" for key, value in node.figures().items())
                print(f"{node.name:8} {consumers:3}  {figures}", flush=True)


if __name__ == "__main__":
    main()
