"""What `verify packets` prints: the exchange around a fault or an operation, a line a message."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from ...histories.ops import Json
from ...histories.pcapng import PcapngError, read_folder, segments_of
from ...histories.scenario import read_scenario
from ...nemesis.proxy.control import Plan
from ..errors import UsageError
from ..store import RunPaths, open_run
from .around import NS, Spans, spans_of
from .layer import PeerFrame, told_of
from .streams import Item, Streams
from .unpacking import Value

_PEER_PORT: Final = 6633
_CLIENT_PORT: Final = 6632
_WINDOW_S_MAX: Final = 3600.0
_ENTRIES: Final = {0: "noop", 1: "command", 2: "config"}


def show_packets(folder: Path, around: str, window_s: float, *, as_json: bool) -> None:
    """Print what was said around a fault or an operation.

    Raises:
        UsageError: The run, its capture, the fault or the operation is not there.
    """
    run = open_run(folder)
    if not 0 < window_s <= _WINDOW_S_MAX:
        raise UsageError(
            f"--window {window_s:g} is not allowed; it must be above 0, up to {_WINDOW_S_MAX:g}"
        )
    if not segments_of(run.capture):
        raise UsageError(f"{str(folder)!r} has no capture; record one with verify run --capture")
    spans = spans_of(run, around, window_s)
    origin_ns = read_scenario(run.scenario).origin_ns
    captured: list[int] = []
    try:
        rows = list(_rows(run, spans, origin_ns, captured))
    except PcapngError as error:
        raise UsageError(str(error)) from None
    moments: list[Json] = [
        {"at_s": _at_s(moment.t_ns, origin_ns), "text": moment.text} for moment in spans.moments
    ]
    if as_json:
        told: dict[str, Json] = {
            "around": around,
            "moments": moments,
            "captured_s": [_at_s(t_ns, origin_ns) for t_ns in captured],
            "messages": list(rows),
        }
        click.echo(msgspec.json.encode(told))
        return
    for line in _lines(rows, spans, origin_ns):
        click.echo(line)
    if captured and spans.moments[0].t_ns < captured[0]:
        begin_s, end_s = (_at_s(t_ns, origin_ns) for t_ns in captured)
        click.echo(
            f"what is older than {begin_s:g} s is gone; the capture ends at {end_s:g} s "
            "(keep more with --set capture_mib=N)"
        )


def _mono_ns(row: dict[str, Json]) -> int:
    at_ns = row["mono_ns"]
    assert isinstance(at_ns, int), row
    return at_ns


def _at_s(t_ns: int, origin_ns: int) -> float:
    return round((t_ns - origin_ns) / NS, 6)


def services_of(run: RunPaths) -> dict[int, str]:
    """Return what each port of the run's nodes serves."""
    services: dict[int, str] = {_PEER_PORT: "peer", _CLIENT_PORT: "client"}
    if run.links_config.exists():
        plan = msgspec.json.decode(run.links_config.read_bytes(), type=Plan)
        services |= {way.dial[1]: way.service for way in plan.ways}
    return services


def _rows(
    run: RunPaths, spans: Spans, origin_ns: int, captured: list[int]
) -> Iterator[dict[str, Json]]:
    """The messages that are meant; `captured` gets the first and the last time of all."""
    streams = Streams(services_of(run))
    for item in streams.items(read_folder(run.capture)):
        captured[:] = [captured[0] if captured else item.mono_ns, item.mono_ns]
        if spans.cover(item.mono_ns):
            yield _row(item, origin_ns)


def _row(item: Item, origin_ns: int) -> dict[str, Json]:
    link, _, stage = item.seen.interface.partition(" ")
    words = item.seen.words
    row: dict[str, Json] = {
        "at_s": _at_s(item.mono_ns, origin_ns),
        "mono_ns": item.mono_ns,
        "link": link,
        "stage": stage,
        "verdict": words.get("verdict", ""),
        "fault": "" if words.get("fault") == "-" else words.get("fault", ""),
        "connection": item.connection,
        "service": item.service,
        "kind": item.kind,
    }
    if item.kind == "frame":
        kind, values = told_of(PeerFrame(item.data))
        row["kind"] = kind
        row["bytes"] = len(item.data)
        row |= {name: _plain(name, value) for name, value in values.items()}
    elif item.kind == "http":
        row["head"] = item.text
    return row


def _plain(name: str, value: Value) -> Json:
    """A value as JSON can hold it: bytes by their number, entries by what they are."""
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    if name == "entries" and isinstance(value, list):
        return [_entry(entry) for entry in value]
    if isinstance(value, list):
        return [_plain("", each) for each in value]
    if isinstance(value, dict):
        secret = ("authorization", "proof", "challenge")
        return {k: "..." if k.lower() in secret else _plain("", v) for k, v in value.items()}
    return value


def _entry(entry: Value) -> Json:
    if not isinstance(entry, list) or len(entry) != 4 or not isinstance(entry[3], bytes):
        return "?"
    kind = _ENTRIES.get(entry[2], "?") if isinstance(entry[2], int) else "?"
    return {
        "term": _plain("", entry[0]),
        "index": _plain("", entry[1]),
        "kind": kind,
        "bytes": len(entry[3]),
    }


def _lines(rows: list[dict[str, Json]], spans: Spans, origin_ns: int) -> Iterator[str]:
    ahead = list(spans.moments)
    for row in sorted(rows, key=_mono_ns):
        while ahead and ahead[0].t_ns <= _mono_ns(row):
            moment = ahead.pop(0)
            yield f"{_at_s(moment.t_ns, origin_ns):11.6f} ---- {moment.text}"
        verdict = "" if row["verdict"] == "pass" else str(row["verdict"])
        fault = f" [{row['fault']}]" if row["fault"] else ""
        yield (
            f"{row['at_s']:11.6f} {row['link']!s:<12} {row['stage']!s:<9} {verdict:<5} "
            f"{row['connection']!s:>5} {summary(row)}{fault}"
        )
    for moment in ahead:
        yield f"{_at_s(moment.t_ns, origin_ns):11.6f} ---- {moment.text}"
    yield f"{len(rows)} messages; delivered ones stand twice, as sent and as delivered"


def summary(row: dict[str, Json]) -> str:
    """Say a message in one line."""
    kind = row["kind"]
    if kind == "http":
        return str(row["head"])
    if kind == "appends":
        entries = row["entries"] if isinstance(row["entries"], list) else []
        return (
            f"{kind} term {row['term']} prev {row['prev_index']}/{row['prev_term']} "
            f"commit {row['commit_index']} round {row['round']} {_span(entries)}"
        )
    if kind == "append-answers":
        word = "matches" if row["success"] else "refuses"
        return f"{kind} term {row['term']} {word} {row['match_index']} round {row['round']}"
    if kind == "forward":
        return f"{kind} {row['correlation']} {row['method']} {row['target']} {row['body']}"
    if kind == "reply":
        return f"{kind} {row['correlation']} {row['status']} {row['body']}"
    skipped = set(_COMMON)
    told = " ".join(f"{name} {value}" for name, value in row.items() if name not in skipped)
    return f"{kind} {told}".strip()


_COMMON: Final = (
    "at_s", "mono_ns", "link", "stage", "verdict", "fault", "connection", "service", "kind",
    "bytes",
)  # fmt: skip


def _span(entries: list[Json]) -> str:
    indexes = [entry["index"] for entry in entries if isinstance(entry, dict)]
    sizes = [entry["bytes"] for entry in entries if isinstance(entry, dict)]
    if not indexes:
        return "heartbeat"
    total = sum(size for size in sizes if isinstance(size, int))
    return f"entries {indexes[0]}..{indexes[-1]} ({len(indexes)}, {total} B)"
