"""One real broker node, and a bench whose workers use a queue of their own on it."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from atleastonce.system.client import BrokerError, ClientOptions, Endpoint, SyncClient, calls
from atleastonce.system.jobs import ConnectionSettings, SyncDispatcher
from atleastonce.system.jobs.dispatch import DispatchResult
from atleastonce.system.jobs.shared_state import SharedState
from atleastonce.verifier.children import PortHold

from ..worker_process import Bench

PATIENCE_S = 60.0
GROUP = "jobs"


def wait_until(condition: Callable[[], bool], what: str = "it") -> None:
    until_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until_s, f"{what} never happened"
        select.select([], [], [], 0.01)


class OneNode:
    """A cluster of one real node in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._hold = PortHold()
        ports = self._hold.take(["n1"], 0)["n1"]
        self.endpoint = Endpoint("127.0.0.1", ports.client)
        (folder / "token").write_text("t" * 32)
        (folder / "token").chmod(0o600)
        config = {
            "node": "n1",
            "data_dir": str(folder / "n1"),
            "client": [self.endpoint.host, self.endpoint.port],
            "peers": {"n1": ["127.0.0.1", ports.peer]},
            "token_file": str(folder / "token"),
            "log_file": str(folder / "n1.log"),
            "die_with_parent": True,
            "parent_pid": os.getpid(),
        }
        path = folder / "n1.json"
        path.write_text(json.dumps(config))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "atleastonce.system.node", str(path)], start_new_session=True
        )
        self.client = SyncClient([self.endpoint], ClientOptions(10.0, PATIENCE_S))
        wait_until(self._is_healthy, "a healthy node")

    def _is_healthy(self) -> bool:
        try:
            return self.client.health(self.endpoint).value.status == "healthy"
        except BrokerError:
            return False

    def close(self) -> None:
        self.client.close()
        self.process.kill()
        self.process.wait()
        self._hold.close()


class NodeQueue:
    """One queue of the node, as a bench wants its broker."""

    def __init__(self, node: OneNode) -> None:
        self.endpoint = node.endpoint
        self.client = node.client
        self.queue = f"q-{uuid.uuid4().hex[:12]}"

    def wait_for(self, condition: Callable[[], bool]) -> None:
        wait_until(condition)

    def is_drained(self) -> bool:
        waiting = self.client.call(calls.count_timers(self.queue)).value
        return waiting == 0 and self.client.depth(self.queue, GROUP).value.pending == 0

    def dead_letters(self) -> list[tuple[str, str | None]]:
        """(transaction id, error) of each."""
        rows = self.client.dlq(self.queue, GROUP).value.messages
        return [(row.transaction_id, row.error_message) for row in rows]


class FeatureBench(Bench):
    """Workers, and an application that dispatches to them."""

    def __init__(self, folder: Path, node: OneNode) -> None:
        self.own = NodeQueue(node)
        self.dispatched: set[str] = set()
        super().__init__(folder, cast("Any", self.own))
        address = (node.endpoint.host, node.endpoint.port)
        self.app.connection = ConnectionSettings(
            endpoints=(address,), queue=self.own.queue, consumer_group=GROUP, partitions=4
        )
        self.changes.update(
            queue=self.own.queue, try_timeout_s=10.0, deadline_s=30.0, block_for_s=0.5
        )
        self.shared = SharedState([node.endpoint], ClientOptions(10.0, PATIENCE_S))

    def dispatch(self, name: str, payload: object = None, **options: Any) -> DispatchResult:
        dispatcher = SyncDispatcher(self.own.client)
        result = dispatcher.dispatch(self.app, name, payload, **options)
        if result.status != "duplicate":
            self.dispatched.add(result.job_id)
        return result

    def run_until_drained(self, workers: int = 1, **changes: object) -> None:
        """Have every job that was dispatched come to its end."""
        pids = [self.start(**changes) for _ in range(workers)]
        self.wait_for(self.is_done)
        assert [self.stop(pid) for pid in pids] == [0] * workers

    def is_done(self) -> bool:
        """Whether every job that was dispatched has ended, for the broker too."""
        acked = {row["run"] for row in self.records("AttemptAcked")}
        over = {row["job_id"] for row in self.records("JobGaveUp")}
        for row in self.records("AttemptEnded"):
            if row["outcome"] in ("completed", "skipped") and row["run"] in acked:
                over.add(row["job_id"])
        return over >= self.dispatched and self.own.is_drained()

    def timed(self, name: str) -> list[tuple[float, Any]]:
        """(seconds by CLOCK_MONOTONIC, value) of what workers logged under a name."""
        lines = [json.loads(line) for line in (self.folder / "log").read_bytes().splitlines()]
        return [(line[1] / 1e9, line[2]) for line in lines if line[0] == name]

    def attempts(self, job_id: str | None = None) -> list[int]:
        """Attempt numbers of the pickups that were not refused, in order."""
        rows = self.records("AttemptStarting")
        return [row["attempt"] for row in rows if job_id in (None, row["job_id"])]

    def outcomes(self) -> list[str]:
        return [row["outcome"] for row in self.records("AttemptEnded")]

    def give_up(self) -> Mapping[str, Any]:
        """The only job that was given up."""
        (row,) = self.records("JobGaveUp")
        return cast("Mapping[str, Any]", row)

    def close(self) -> None:
        super().close()
        self.shared.close()
