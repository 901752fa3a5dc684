"""The page at `/`: one node's view of its cluster, read-only, complete in itself.

No script runs and nothing is loaded from elsewhere (its policy forbids both); every text from
outside is escaped. It asks to be loaded again every five seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Final, cast

from .overview import DeadRow, Overview, QueueRow

PAGE_HEADERS: Final = (
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Refresh", "5"),
)

_STYLE: Final = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color:#1c1c1c;background:#fff}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}h2{margin-top:2rem}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}"
    "th,td{border-color:#3a3a3a}}"
)
_NUMBERS: Final = frozenset({"Partitions", "Messages", "Pending", "Leases", "Dead"})

Metrics = Mapping[str, object]


def page(metrics: Metrics, overview: Overview) -> str:
    """Lay out the page.

    Args:
        metrics: What `/metrics` says.
        overview: The node's copy of the queues.
    """
    node = escape(str(metrics["node"]))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{node} - atleastonce</title><style>{_STYLE}</style></head><body>",
        f"<h1>{node}</h1>",
        _nodes(metrics),
        _facts(metrics),
        _queues(overview),
        _dead_letters(overview.dead),
        "</body></html>\n",
    ]
    return "".join(parts)


def _nodes(metrics: Metrics) -> str:
    raft = cast(Metrics, metrics["raft"])
    rows = []
    for voter in cast("list[str]", raft["voters"]):
        if voter == metrics["node"]:
            role = str(raft["role"])
        else:
            role = "leader" if voter == raft["leader"] else "follower, or down"
        rows.append((voter, role, "this one" if voter == metrics["node"] else ""))
    return "<h2>Nodes</h2>" + _table(("Node", "Role", ""), rows)


def _facts(metrics: Metrics) -> str:
    raft, disk = cast(Metrics, metrics["raft"]), cast(Metrics, metrics["disk"])
    waiting = cast(Metrics, metrics["waiting"])
    rows = [
        ("Leader", raft["leader"] or "unknown"),
        ("Term", raft["term"]),
        (
            "Applied / committed / last entry",
            f"{raft['applied']} / {raft['commit']} / {raft['last']}",
        ),
        ("Lag, in entries", raft["lag"]),
        ("Quorum heard, ms ago", "never" if raft["quorumAckMs"] is None else raft["quorumAckMs"]),
        ("Disk", f"{disk['state']}, {disk['usedPercent']} % used"),
        ("Waiting requests", waiting["requests"]),
        ("Parked pops", waiting["parkedPops"]),
        ("Client connections", waiting["connections"]),
        ("Version", metrics["version"]),
    ]
    return "<h2>State</h2>" + _table(("Fact", "Value"), rows)


def _queues(overview: Overview) -> str:
    rows = [row for queue in overview.queues for row in _queue_rows(queue)]
    hidden = overview.queues_total - len(overview.queues)
    note = f"<p>{hidden} more queues are not shown.</p>" if hidden else ""
    columns = ("Queue", "Partitions", "Messages", "Dead", "Group", "Pending", "Leases")
    return f"<h2>Queues: {overview.queues_total}</h2>" + _table(columns, rows) + note


def _queue_rows(queue: QueueRow) -> Iterable[tuple[object, ...]]:
    more = " or more" if queue.is_cut else ""
    first: tuple[object, ...] = (
        queue.name,
        queue.partitions,
        f"{queue.messages}{more}",
        queue.dead,
    )
    if not queue.groups:
        yield (*first, "", "", "")
    for group in queue.groups:
        name = group.name or "(the queue's own)"
        yield (*first, name, f"{group.pending}{more}", f"{group.leases}{more}")
        first = ("", "", "", "")


def _dead_letters(letters: Iterable[DeadRow]) -> str:
    rows = [(row.queue, row.partition, row.transaction_id, row.error) for row in letters]
    columns = ("Queue", "Partition", "Transaction", "Error")
    return "<h2>Dead letters, newest first</h2>" + _table(columns, rows)


def _table(columns: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [
        "<tr>"
        + "".join(_cell(column, value, "td") for column, value in zip(columns, row, strict=True))
        + "</tr>"
        for row in rows
    ]
    if not lines:
        return "<p>None.</p>"
    head = "".join(_cell(column, column, "th") for column in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _cell(column: str, value: object, tag: str) -> str:
    kind = ' class="n"' if column in _NUMBERS else ""
    return f"<{tag}{kind}>{escape(str(value))}</{tag}>"
