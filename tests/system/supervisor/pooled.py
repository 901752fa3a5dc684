"""Pools of a supervisor that is started by the command, on a real broker node."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trio

from atleastonce.system.client import AsyncClient, Endpoint

from .supervised import Supervised

QUEUES = ("mail", "news")


@dataclass
class Pooled(Supervised):
    """A supervisor that is started by the command, from a file of options."""

    options: str = ""

    def launch(self) -> subprocess.Popen[bytes]:
        path = self.root / "supervisor.toml"
        path.write_text(self.options, encoding="utf-8")
        environment = {
            **os.environ,
            "PYTHONPATH": f"{Path(__file__).resolve().parent}:{os.environ.get('PYTHONPATH', '')}",
            "SUPERVISED_LOG": str(self.root / "jobs.log"),
            "ATLEASTONCE_DRIVER_ENDPOINTS": f"127.0.0.1:{self.port}",
        }
        command = [sys.executable, "-m", "atleastonce.system.entry", "supervisor", "run"]
        flags = ["--config", str(path), "--set", f"master.state_dir={self.state_dir}"]
        with open(self.root / "supervisor.log", "ab") as log:
            self.process = subprocess.Popen(
                [*command, *flags],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.root,
                start_new_session=True,
            )
        return self.process

    def pool(self) -> dict[str, Any]:
        """What the status says of the pool; nothing before there is one."""
        pools = self.status().get("pools") or [{}]
        found: dict[str, Any] = pools[0]
        return found

    def crews(self) -> Counter[str]:
        """How many workers were ever started for each queue."""
        words = (line for line in self.log().splitlines() if '"event":"worker started"' in line)
        return Counter(queue for line in words for queue in QUEUES if f"pool/{queue}" in line)


def options(
    poll_s: float, *more: str, pool: tuple[str, ...] = ("target_jobs_per_process = 2",)
) -> str:
    return "\n".join(
        (
            "[master]",
            'app = "supervised_app:make_app"',
            "prefork = true",
            f"poll_interval_s = {poll_s}",
            "shutdown_grace_s = 25",
            *more,
            "[driver]",
            "partitions = 8",
            "prefetch = 4",
            "lease_renewal = true",
            "renewal_timeout_s = 0.5",
            "renewal_grace_s = 0.5",
            "renewal_margin_s = 0.5",
            "block_for_s = 1",
            "request_timeout_s = 2",
            "[pools.pool]",
            'queues = ["mail", "news"]',
            "max_processes = 4",
            "balance_cooldown_s = 0.2",
            "scale_down_delay_s = 1",
            "retry_after_s = 30",
            "timeout_s = 20",
            "memory_mib = 0",
            *pool,
        )
    )


def push(
    port: int, queues: tuple[str, ...], count: int, data: dict[str, Any], job: str = "until_file"
) -> None:
    """Push so many jobs to each queue, all in one request."""
    items = []
    for queue, number in itertools.product(queues, range(count)):
        name, partition = f"{queue}{number}", f"p-{number % 8:04d}"
        body = {"job": job, "id": name, "partition": partition, "data": data}
        item = {"queue": queue, "partition": partition, "transactionId": name}
        items.append(item | {"payload": {"_job": body}})

    async def go() -> None:
        client = AsyncClient([Endpoint("127.0.0.1", port)])
        await client.push(items)
        await client.aclose()

    trio.run(go)
