"""The sessions as tables for people and as JSON for other programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

import msgspec

from .phases import Rate
from .session import Session


def _rows(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterable[str]:
    table = [titles, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for row in table:
        first, *rest = row
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        yield "  " + "  ".join((first.ljust(widths[0]), *cells))


def _rate_rows(name: str, rates: Iterable[Rate]) -> Iterable[tuple[str, ...]]:
    for found in rates:
        yield (
            name,
            str(found.workers),
            f"{found.sleep_ms:g} ms",
            str(found.jobs),
            f"{found.rate:.0f}",
            f"{found.produce_rate:.0f}",
            f"{found.pool_cpu_ms:.2f}",
            f"{found.backend_cpu_ms:.2f}",
            f"{found.producer_cpu_ms:.2f}",
            f"{found.cpu_ms:.2f}",
            "yes" if found.is_exact else "NO",
        )


_RATE_TITLES = (
    "", "workers", "job", "jobs", "jobs/s", "produced/s",
    "pool ms/job", "backend", "producer", "all CPU", "once each",
)  # fmt: skip


def _latency_rows(session: Session) -> Iterable[tuple[str, ...]]:
    for found in session.latencies:
        yield (
            session.name,
            str(found.workers),
            f"{found.rate:g}/s",
            f"{found.p50_ms:.1f}",
            f"{found.p95_ms:.1f}",
            f"{found.p99_ms:.1f}",
            f"{found.late_ms_max:.1f}",
            "yes" if found.is_exact else "NO",
        )


_LATENCY_TITLES = ("", "workers", "pace", "p50 ms", "p95 ms", "p99 ms", "late", "once each")


def _memory_rows(session: Session) -> Iterable[tuple[str, ...]]:
    for found in session.memories:
        yield (
            session.name,
            str(found.workers),
            str(found.processes),
            f"{found.pss:.0f}",
            f"{found.pool_pss:.0f}",
            f"{found.backend_pss:.0f}",
            f"{found.idle_pool_pss:.0f}",
            f"{found.idle_private:.2f}",
            f"{found.worked_private:.2f}",
        )


_MEMORY_TITLES = (
    "", "workers", "processes", "PSS MiB", "pool", "backend", "pool idle",
    "worker private, idle", "worked",
)  # fmt: skip


def _disk_rows(session: Session) -> Iterable[tuple[str, ...]]:
    for found in session.disks:
        yield (
            session.name,
            f"{found.fdatasync_ms_p50:.2f}",
            f"{found.fdatasync_ms_p99:.2f}",
            f"{found.load_1m:.1f}",
        )


_DISK_TITLES = ("", "fdatasync p50 ms", "p99 ms", "load")


def render(sessions: Sequence[Session], ablations: Sequence[Session]) -> str:
    """Return all tables as one text."""
    both = (*sessions, *ablations)
    lines = ["drain of a backlog"]
    lines += _rows(_RATE_TITLES, [r for s in sessions for r in _rate_rows(s.name, s.drains)])
    lines += ["", "one producer, one job a call, to a running pool"]
    lines += _rows(_RATE_TITLES, [r for s in sessions for r in _rate_rows(s.name, s.included)])
    lines += ["", "dispatch to end, jobs of 10 ms"]
    lines += _rows(_LATENCY_TITLES, [r for s in sessions for r in _latency_rows(s)])
    lines += ["", "memory"]
    lines += _rows(_MEMORY_TITLES, [r for s in sessions for r in _memory_rows(s)])
    if ablations:
        lines += ["", "ours, one feature off at a time: drain"]
        lines += _rows(_RATE_TITLES, [r for s in ablations for r in _rate_rows(s.name, s.drains)])
        lines += ["", "… dispatch to end"]
        lines += _rows(_LATENCY_TITLES, [r for s in ablations for r in _latency_rows(s)])
    lines += ["", "the disk meanwhile"]
    lines += _rows(_DISK_TITLES, [r for s in both for r in _disk_rows(s)])
    lines += [f"FAILED {s.name}: {s.failure}" for s in both if s.failure]
    return "\n".join(lines)


def as_json(
    plan: object, sessions: Sequence[Session], ablations: Sequence[Session], **facts: object
) -> bytes:
    """Return the same as JSON: `plan`, `contenders`, `ablation` and what else is given."""
    whole = {
        "plan": plan,
        **facts,
        "contenders": [_with_sums(session) for session in sessions],
        "ablation": [_with_sums(session) for session in ablations],
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n"


def _with_sums(session: Session) -> dict[str, object]:
    found: dict[str, object] = msgspec.to_builtins(session)
    return {
        **found,
        "drains": [{**asdict(rate), "cpu_ms": rate.cpu_ms} for rate in session.drains],
        "included": [{**asdict(rate), "cpu_ms": rate.cpu_ms} for rate in session.included],
        "memories": [{**asdict(memory), "pss": memory.pss} for memory in session.memories],
        "is_exact": session.is_exact,
    }
