"""CPU and wall time of simple requests on one real node, as its process accounts for them.

Run: python -m benchmarks.node_http [REQUESTS]
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import trio

REQUESTS: Final = 4000
CONNECTIONS: Final = (1, 32)

_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """A port that nobody listened on a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as bound:
        return int(bound.getsockname()[1])


def start_node(folder: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a single node; returns its process and its client port."""
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
    with (folder / "n1.log").open("wb") as log:
        return subprocess.Popen(command, stderr=log), port


def request(method: str, path: str, body: object = None) -> bytes:
    """The bytes of one request."""
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: node\r\nContent-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def push(number: int) -> bytes:
    """A push of one message."""
    item = {"queue": "bench", "partition": f"p{number % 16}", "transactionId": f"t{number}"}
    return request("POST", "/api/v1/push", {"items": [{**item, "payload": {"number": number}}]})


def pop(number: int) -> bytes:
    """A pop of one message, delivered for good."""
    return request("GET", f"/api/v1/pop/queue/bench?batch=1&autoAck=true&n={number}")


def pop_of_nothing(number: int) -> bytes:
    """A pop that finds nothing and does not wait."""
    return request("GET", f"/api/v1/pop/queue/empty?batch=1&n={number}")


def depth(number: int) -> bytes:
    """A linearizable read."""
    return request("GET", f"/api/v1/resources/queues/bench/depth?n={number}")


def health(number: int) -> bytes:
    """An answer of the node's own."""
    return request("GET", f"/health?n={number}")


KINDS: Final = (health, push, pop, pop_of_nothing, depth)


async def exchange(stream: trio.SocketStream, data: bytes) -> None:
    """Send one request and read its whole answer."""
    await stream.send_all(data)
    got = b""
    while True:
        got += await stream.receive_some(65536)
        head, separator, body = got.partition(b"\r\n\r\n")
        if not separator:
            continue
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if len(body) >= length:
            assert head[9:10] == b"2", got.decode("latin-1")
            return


async def drive(port: int, requests: list[bytes], connections: int) -> None:
    """Send the requests over so many connections, one at a time on each."""
    left = iter(requests)

    async def one() -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            for data in left:
                await exchange(stream, data)

    async with trio.open_nursery() as nursery:
        for _ in range(connections):
            nursery.start_soon(one)


async def wait_healthy(port: int) -> None:
    """Wait until the node answers its health request with 200."""
    with trio.fail_after(10):
        while True:
            try:
                async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
                    await exchange(stream, health(0))
            except (OSError, AssertionError):
                await trio.sleep(0.02)
            else:
                return


def cpu_s(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


async def measure(process: subprocess.Popen[bytes], port: int, count: int) -> None:
    """Print a line for each kind of request and number of connections."""
    await wait_healthy(port)
    number = 0
    print(f"{'request':16} {'connections':>11} {'CPU us':>8} {'wall us':>8} {'per s':>8}")
    for connections in CONNECTIONS:
        for kind in KINDS:
            requests = [kind(number + at) for at in range(count)]
            number += count
            used, began = cpu_s(process.pid), time.perf_counter()
            await drive(port, requests, connections)
            used, took = cpu_s(process.pid) - used, time.perf_counter() - began
            print(
                f"{kind.__name__:16} {connections:11} {used / count * 1e6:8.0f}"
                f" {took / count * 1e6:8.0f} {count / took:8.0f}"
            )


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS
    with tempfile.TemporaryDirectory() as folder:
        process, port = start_node(Path(folder))
        try:
            trio.run(measure, process, port, count)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


if __name__ == "__main__":
    main()
