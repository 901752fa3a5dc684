"""Pools on a real broker node: they grow with a backlog, and shrink after it, job by job."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from atleastonce.system.client import AsyncClient, Endpoint

from .one_node import one_node
from .supervised import Supervised, wait_for

pytestmark = pytest.mark.cluster
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


@pytest.fixture
def pooled(tmp_path: Path) -> Iterator[Pooled]:
    with one_node(tmp_path) as port:
        made = Pooled(tmp_path, port)
        yield made
        made.end()


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


def test_a_pool_grows_under_a_backlog_is_spread_over_it_and_shrinks_after_it(
    pooled: Pooled,
) -> None:
    pooled.options = options(0.2)
    gate = pooled.root / "gate"
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 1, f"the first worker\n{pooled.log()}")
    push(pooled.port, QUEUES, 12, {"file": str(gate)})
    wait_for(lambda: len(pooled.workers()) == 4, f"four workers\n{pooled.log()}")
    assert pooled.pool()["target"] == 4
    assert all(pooled.crews()[queue] >= 2 for queue in QUEUES)
    wait_for(lambda: len(pooled.running()) == 4, f"four jobs\n{pooled.log()}")
    gate.touch()
    wait_for(lambda: len(pooled.notes("done")) == 24, f"all jobs\n{pooled.log()}", 30)
    wait_for(lambda: len(pooled.workers()) == 1, f"one worker\n{pooled.log()}", 30)
    assert pooled.pool()["depths"] == {"mail": 0, "news": 0}
    starts = Counter((note[2], note[3]) for note in pooled.notes("started"))
    assert set(starts.values()) == {1}
    assert {attempt for _, attempt in starts} == {"1"}
    assert all(death["exit"] == 0 for death in pooled.lines("deaths.jsonl"))
    assert pooled.stop() == 0


def test_new_messages_wake_a_pool_long_before_its_next_poll(pooled: Pooled) -> None:
    pooled.options = options(600, "event_driven = true", "control_ttl_s = 3600")
    gate = pooled.root / "gate"
    push(pooled.port, ("mail",), 1, {"file": str(gate)})
    gate.touch()
    pooled.launch()
    wait_for(lambda: len(pooled.notes("done")) == 1, f"the first job\n{pooled.log()}")
    gate.unlink()
    push(pooled.port, ("mail",), 20, {"file": str(gate)})
    wait_for(lambda: len(pooled.workers()) == 4, f"four workers\n{pooled.log()}", 30)
    gate.touch()
    assert pooled.stop() == 0


def test_a_pool_of_the_time_strategy_learns_how_long_its_jobs_take(pooled: Pooled) -> None:
    learns = ('strategy = "time"', "target_clear_s = 2", "default_runtime_s = 0.001")
    pooled.options = options(0.2, pool=learns)
    push(pooled.port, ("mail",), 60, {"ms": 400}, "nap")
    pooled.launch()
    wait_for(lambda: len(pooled.workers()) == 1, f"the first worker\n{pooled.log()}")
    wait_for(lambda: len(pooled.workers()) == 4, f"four workers\n{pooled.log()}", 30)
    assert pooled.stop() == 0


def test_two_supervisors_that_share_run_the_target_between_them(
    pooled: Pooled, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = Pooled(tmp_path / "other", pooled.port)
    gate = {"file": str(tmp_path / "gate")}
    push(pooled.port, ("mail",), 24, gate)
    pooled.options = other.options = options(
        0.2, "coordination = true", pool=("target_jobs_per_process = 6",)
    )
    try:
        for one in (pooled, other):
            one.launch()
        wait_for(
            lambda: [len(one.workers()) for one in (pooled, other)] == [2, 2],
            f"two workers each\n{pooled.log()}\n{other.log()}",
            30,
        )
        assert [one.pool()["target"] for one in (pooled, other)] == [2, 2]
        (tmp_path / "gate").touch()
        assert other.stop() == 0
        wait_for(lambda: len(pooled.notes("done")) + len(other.notes("done")) == 24, "all jobs", 30)
        assert pooled.stop() == 0
    finally:
        other.end()
