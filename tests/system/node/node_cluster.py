"""Real broker nodes on free loopback ports, and a plain client for them."""

from __future__ import annotations

import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from atleastonce.verifier.children import PortHold

PATIENCE_S = 60.0
"""For what has to happen at all, however slow the machine: only a test that fails waits it out."""
TOKEN = "a token that all nodes of a test know"


def wait_until(what: str, condition: Callable[[], bool], within_s: float = PATIENCE_S) -> float:
    """Poll until a condition holds; returns how long that took, in seconds."""
    began = time.monotonic()
    pause = threading.Event()
    while not condition():
        assert time.monotonic() - began < within_s, f"not within {within_s} s: {what}"
        pause.wait(0.01)
    return time.monotonic() - began


def write_token(path: Path, token: str) -> None:
    """Write a secret that only its owner can read."""
    path.touch(0o600)
    path.write_text(token)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on and that the system gives to no connection of others."""
    hold = PortHold()
    taken = hold.take([str(number) for number in range(count)], 0)
    hold.close()
    return [pair.client for pair in taken.values()]


def whole_lines(path: Path) -> list[str]:
    """A log's lines; what is being written at the moment is none yet."""
    return path.read_text(encoding="utf-8").split("\n")[:-1]


class Client:
    """One keep-alive connection to one node; connects again after an error."""

    def __init__(
        self, port: int, timeout_s: float = 20.0, context: ssl.SSLContext | None = None
    ) -> None:
        self.port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
        if context is not None:
            self._connection = http.client.HTTPSConnection(
                "127.0.0.1", port, timeout=timeout_s, context=context
            )

    def call(
        self, method: str, path: str, body: object = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """One request; the status and the decoded JSON body (None for an empty one)."""
        data = None if body is None else json.dumps(body).encode()
        try:
            self._connection.request(method, path, data, headers or {})
            response = self._connection.getresponse()
            content = response.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        return response.status, json.loads(content) if content else None

    def push(self, queue: str, *names: str, partition: str = "p") -> tuple[int, Any]:
        """Push one message for each name, which is its transaction id and payload."""
        items = [
            {"queue": queue, "partition": partition, "transactionId": name, "payload": name}
            for name in names
        ]
        return self.call("POST", "/api/v1/push", {"items": items})

    def pop(self, queue: str, **parameters: object) -> tuple[int, Any]:
        """Pop; parameters as in the URL."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return self.call("GET", f"/api/v1/pop/queue/{queue}?{query}")

    def ack(self, popped: Any) -> tuple[int, Any]:
        """Acknowledge everything that a pop brought."""
        acks = [
            {
                "transactionId": message["transactionId"],
                "partitionId": message["partitionId"],
                "leaseId": message["leaseId"],
            }
            for message in popped["messages"]
        ]
        return self.call("POST", "/api/v1/ack/batch", {"acknowledgments": acks})

    def depth(self, queue: str) -> Any:
        """A queue's counts."""
        return self.call("GET", f"/api/v1/resources/queues/{queue}/depth")[1]

    def health(self) -> Any:
        """What the node says about itself; None when it does not answer."""
        try:
            return self.call("GET", "/health")[1]
        except (OSError, http.client.HTTPException):
            return None

    def hang_up(self) -> None:
        """Close the connection."""
        self._connection.close()


def drain(client: Client, queue: str) -> list[Any]:
    """Pop and acknowledge until nothing is left; the payloads in order."""
    found: list[Any] = []
    while True:
        status, popped = client.pop(queue, batch=1000, partitions=0)
        if status == 204:
            return found
        found += [message["data"] for message in popped["messages"]]
        client.ack(popped)


class NodeProcess:
    """One node, which may be stopped and started again."""

    def __init__(self, config: dict[str, Any], folder: Path) -> None:
        self.config = config
        self.name: str = config["node"]
        self.port: int = config["client"][1]
        self.peer_port: int = config["peers"][self.name][1]
        self.log_path = folder / f"{self.name}.log"
        self._config_path = folder / f"{self.name}.json"
        self.process: subprocess.Popen[bytes] | None = None
        self.context: ssl.SSLContext | None = None
        self.environment: dict[str, str] = {}
        self.command: list[str] | None = None

    def start(self) -> None:
        """Start the process."""
        self._config_path.write_text(json.dumps(self.config))
        program = self.command or [sys.executable, "-m", "atleastonce.system.node"]
        command = [*program, str(self._config_path)]
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.environment},
            )

    def client(self, timeout_s: float = 20.0) -> Client:
        """A new connection to this node."""
        return Client(self.port, timeout_s, self.context)

    def kill(self) -> None:
        """End it without warning."""
        self.signal(signal.SIGKILL)
        self.wait()

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self.process is not None, f"{self.name} was not started"
        os.kill(self.process.pid, number)

    def wait(self, within_s: float = PATIENCE_S) -> int:
        """The exit status."""
        assert self.process is not None, f"{self.name} was not started"
        return self.process.wait(within_s)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Its log lines of one event."""
        found = []
        for line in whole_lines(self.log_path):
            if line.startswith("{"):
                record = json.loads(line)
                if record["event"] == name:
                    found.append(record)
        return found

    def end(self) -> None:
        """Make sure that the process is gone."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Cluster:
    """Some nodes that know each other."""

    def __init__(self, folder: Path, size: int, **settings: object) -> None:
        names = [f"n{number}" for number in range(1, size + 1)]
        write_token(folder / "token", TOKEN)
        self._hold = PortHold()
        ports = self._hold.take(names, 0)
        peers = {name: ["127.0.0.1", ports[name].peer] for name in names}
        self.nodes = {
            name: NodeProcess(
                {
                    "node": name,
                    "data_dir": str(folder / name),
                    "client": ["127.0.0.1", ports[name].client],
                    "peers": peers,
                    "token_file": str(folder / "token"),
                    "die_with_parent": True,
                    "parent_pid": os.getpid(),
                    **settings,
                },
                folder,
            )
            for name in names
        }

    def start(self) -> None:
        """Start all nodes and wait until each of them is healthy."""
        for node in self.nodes.values():
            node.start()
        self.wait_healthy()

    def wait_healthy(self, within_s: float = PATIENCE_S) -> None:
        """Wait until every running node is healthy."""
        for node in self.running():
            client = node.client()

            def is_healthy(client: Client = client) -> bool:
                health = client.health()
                return health is not None and health["status"] == "healthy"

            wait_until(f"{node.name} healthy", is_healthy, within_s)
            client.hang_up()

    def running(self) -> list[NodeProcess]:
        """The nodes whose processes live."""
        return [
            node
            for node in self.nodes.values()
            if node.process is not None and node.process.poll() is None
        ]

    def leader(self, within_s: float = PATIENCE_S) -> NodeProcess:
        """The node that leads, as itself says."""
        found: list[NodeProcess] = []

        def look() -> bool:
            for node in self.running():
                client = node.client()
                health = client.health()
                client.hang_up()
                if health and health["raft"]["role"] == "leader" and health["status"] == "healthy":
                    found.append(node)
            return bool(found)

        wait_until("a leader", look, within_s)
        return found[0]

    def followers(self) -> list[NodeProcess]:
        """The running nodes that do not lead."""
        leader = self.leader()
        return [node for node in self.running() if node is not leader]

    def end(self) -> None:
        """Make sure that no process is left."""
        for node in self.nodes.values():
            node.end()
        self._hold.close()
