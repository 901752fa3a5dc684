"""Onset and heal latency of every kind of fault, from runs that a store holds.

    verify matrix --store store/matrix
    python -m benchmarks fault_latency --store store/matrix

Onset is from the first act to the proof of its effect, heal from the first act of healing to its
proof: what a proof costs, such as waiting for a process to be reaped, is part of both.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from atleastonce.checkers.latency import Latency, measure
from atleastonce.histories.faults import Fault, group_faults, read_faults


def collect(store: Path) -> list[Fault]:
    """All faults of all runs below a folder."""
    found: list[Fault] = []
    for path in sorted(store.rglob("faults.jsonl")):
        if not any(folder.is_symlink() for folder in path.parents):
            found += group_faults(read_faults(path))
    return found


def row(latency: Latency) -> str:
    """One line of a table in Markdown."""
    heal = "none" if latency.heal_ms is None else " / ".join(f"{ms:.1f}" for ms in latency.heal_ms)
    onset = " / ".join(f"{ms:.1f}" for ms in latency.onset_ms)
    return f"| `{latency.kind}` | {latency.count} | {onset} | {heal} |"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="fault_latency")
    parser.add_argument("--store", type=Path, default=Path("store"), help="folder of the runs")
    store = parser.parse_args(arguments).store
    latencies = measure(collect(store))
    if not latencies:
        print(f"{store} holds no run with a fault that was measured")
        return 0
    print("| fault | times | onset, ms: median / worst | heal, ms: median / worst |")
    print("|---|---|---|---|")
    for latency in latencies:
        print(row(latency))
    return 0
