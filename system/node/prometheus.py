"""A node's metrics in Prometheus' text format, version 0.0.4.

Source: https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, cast

PREFIX: Final = "atleastonce_"

_MICROSECONDS: Final = 1e-6
_RAFT_GAUGES: Final = ("term", "applied", "commit", "last", "lag")
_WAITING_GAUGES: Final = {
    "requests": "waiting_requests",
    "bytes": "waiting_bytes",
    "parkedPops": "parked_pops",
    "connections": "connections",
}

Section = Mapping[str, object]


def exposition(node: str, version: str, metrics: Section) -> str:
    """Render what `/metrics` says; every sample carries the node as a label."""
    label = f'{{node="{_escaped(node)}"}}'
    lines: list[str] = []
    for kind, name, value in _samples(metrics):
        lines += [f"# TYPE {PREFIX}{name} {kind}", f"{PREFIX}{name}{label} {value:.15g}"]
    info = f'{{node="{_escaped(node)}",version="{_escaped(version)}"}}'
    lines += [f"# TYPE {PREFIX}build_info gauge", f"{PREFIX}build_info{info} 1"]
    return "\n".join(lines) + "\n"


def _samples(metrics: Section) -> Iterator[tuple[str, str, float]]:
    for name, count in _section(metrics, "counters").items():
        number = float(cast(int, count))
        if name == "sync_us_max":
            yield "gauge", "sync_seconds_max", number * _MICROSECONDS
        elif name == "checkpoint_stall_us_max":
            yield "gauge", "checkpoint_stall_seconds_max", number * _MICROSECONDS
        elif name.endswith("_us"):
            yield "counter", f"{name.removesuffix('_us')}_seconds_total", number * _MICROSECONDS
        else:
            yield "counter", f"{name}_total", number
    raft = _section(metrics, "raft")
    yield "gauge", "is_leader", float(raft["role"] == "leader")
    yield "gauge", "has_leader", float(raft["leader"] is not None)
    yield "gauge", "storage_ready", float(raft["storageReady"] is True)
    for name in _RAFT_GAUGES:
        yield "gauge", f"raft_{name}", float(cast(int, raft[name]))
    if raft["quorumAckMs"] is not None:
        yield "gauge", "quorum_silence_seconds", cast(int, raft["quorumAckMs"]) / 1000
    disk = _section(metrics, "disk")
    yield "gauge", "disk_full", float(disk["state"] == "full")
    yield "gauge", "disk_wait_seconds", cast(int, disk["waitMs"]) / 1000
    if disk["freeBytes"] is not None:
        yield "gauge", "disk_free_bytes", float(cast(int, disk["freeBytes"]))
        yield "gauge", "disk_used_ratio", cast(float, disk["usedPercent"]) / 100
    waiting = _section(metrics, "waiting")
    for key, name in _WAITING_GAUGES.items():
        yield "gauge", name, float(cast(int, waiting[key]))


def _section(metrics: Section, name: str) -> Section:
    return cast(Section, metrics[name])


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
