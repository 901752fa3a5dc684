"""How long a killed node takes to serve again, and its disk: with and without checkpoints.

One node takes messages for a while and is killed. "without" is the same program with checkpoints
put off for ever, so that it keeps and replays its whole log. Figures of the load are taken on the
way, which shows what checkpoints cost the requests beside them.

Run: python -m benchmarks.restart [--messages N …]
"""

from __future__ import annotations

import argparse
import json
import signal
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

from .broker_load import generate
from .load.accounting import resident_mib
from .load.plan import LoadPlan, LoadResult
from .own_system import OwnSystem, own_nodes

NEVER: Final = {"checkpoint_ms": 10**9, "checkpoint_bytes": 1 << 60}
SINGLES_S: Final = 8.0


class Figure(NamedTuple):
    """What one way of running cost."""

    singles: LoadResult
    restart_s: float
    log_mib: float
    checkpoint_mib: float
    resident_mib: float
    stall_ms: float


def push_plan(system: OwnSystem, kind: str, seconds: float, batch: int) -> LoadPlan:
    """Load on the only node."""
    return LoadPlan(
        system="ours",
        port=system.endpoints["n1"].port,
        kind="push",
        batch=batch,
        connections=64 if batch == 1 else 16,
        warmup_s=1.0,
        measure_s=seconds,
        rate=None,
        payload_bytes=200,
        partitions=64,
        queue=f"restart-{kind}",
        server_pids=(system.nodes["n1"].pid,),
        tag=kind,
    )


def folder_mib(folder: Path) -> float:
    """Size of a folder's files, as `du` counts them."""
    blocks = sum(path.stat().st_blocks for path in folder.rglob("*") if path.is_file())
    return blocks * 512 / (1 << 20)


def wait_serving(system: OwnSystem) -> None:
    """Wait until the node is healthy."""
    while True:
        health = system.health("n1")
        if health is not None and health["status"] == "healthy":
            return
        time.sleep(0.01)


def measure(messages: int, storage: dict[str, int]) -> Figure:
    """Run one node until it has taken so many messages; kill it and start it again."""
    with tempfile.TemporaryDirectory() as scratch, own_nodes(Path(scratch), 1) as system:
        config_path = system.configs["n1"]
        config = json.loads(config_path.read_text())
        system.nodes["n1"].send_signal(signal.SIGTERM)
        system.nodes["n1"].wait()
        config_path.write_text(json.dumps(config | {"storage": storage}))
        system.start_node("n1")
        system.leader()
        wait_serving(system)
        singles = generate(push_plan(system, "single", SINGLES_S, 1))
        taken, turn = singles.all_messages, 0
        while taken < messages:
            turn += 1
            taken += generate(push_plan(system, f"bulk{turn}", 4.0, 100)).all_messages
        time.sleep(3.0)
        resident = resident_mib(system.nodes["n1"].pid)
        health = system.health("n1")
        assert health is not None, "the node answers no more"
        counters = health["counters"]
        assert isinstance(counters, dict)
        data = Path(config["data_dir"])
        log, checkpoint = folder_mib(data / "log"), folder_mib(data / "checkpoint")
        system.nodes["n1"].kill()
        system.nodes["n1"].wait()
        began = time.monotonic()
        system.start_node("n1")
        wait_serving(system)
        restart_s = time.monotonic() - began
        stall_ms = counters["checkpoint_stall_us_max"] / 1000
        return Figure(singles, restart_s, log, checkpoint, resident, stall_ms)


def main() -> None:
    """Print one line for each way and size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, nargs="+", default=[200_000, 1_000_000])
    for messages in parser.parse_args().messages:
        for name, storage in (("without", NEVER), ("with", {})):
            found = measure(messages, dict(storage))
            print(
                f"{messages:9} messages, {name:7} checkpoints:"
                f" singles {found.singles.per_s:6.0f}/s p50 {found.singles.p50_ms:6.1f}"
                f" p99 {found.singles.p99_ms:6.1f} ms"
                f"  restart {found.restart_s:6.2f} s"
                f"  log {found.log_mib:7.1f} MiB, checkpoint {found.checkpoint_mib:7.1f} MiB"
                f"  resident {found.resident_mib:6.0f} MiB, longest stall {found.stall_ms:.0f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
