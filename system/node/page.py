"""The page at `/`: one node's view of its cluster, read-only, complete in itself.

No script runs and nothing is loaded from elsewhere (its policy forbids both); every text from
outside is escaped, and signs in it that would not show are named. It asks to be loaded again every
five seconds.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from html import escape
from typing import Final, cast

from ..broker.commands import QUEUE_MODE
from .overview import DeadRow, Overview, QueueRow
from .standing import Place

_STYLE: Final = (
    "body{font:15px/1.4 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;"
    "color:#1c1c1c;background:#fff}table{border-collapse:collapse;width:100%}"
    "th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #ddd}"
    "td{unicode-bidi:isolate;overflow-wrap:anywhere}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;overflow-wrap:normal}"
    "h2{margin-top:2rem}"
    "@media(prefers-color-scheme:dark){body{color:#e6e6e6;background:#161616}"
    "th,td{border-color:#3a3a3a}}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode("ascii")

PAGE_HEADERS: Final = (
    (
        "Content-Security-Policy",
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Cache-Control", "no-store"),
    ("Refresh", "5"),
)

_NUMBERS: Final = frozenset(
    {
        "Partitions", "Messages", "Lag", "Leases", "Dead", "Term", "Committed", "Applied",
    }
)  # fmt: skip

Metrics = Mapping[str, object]
Places = Mapping[str, Place | None]


def page(metrics: Metrics, places: Places, overview: Overview) -> str:
    """Lay out the page.

    Args:
        metrics: What `/metrics` says.
        places: Where each node is, None for one that is not heard.
        overview: The node's copy of the queues.
    """
    node = escape(str(metrics["node"]))
    parts = [
        '<!doctype html><html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{node} - atleastonce</title><style>{_STYLE}</style></head><body>",
        f"<h1>{node}</h1>",
        _nodes(str(metrics["node"]), places),
        _facts(metrics),
        _queues(overview),
        _dead_letters(overview.dead),
        "</body></html>\n",
    ]
    return "".join(parts)


def _nodes(node: str, places: Places) -> str:
    known = max([place.commit for place in places.values() if place is not None], default=0)
    rows = [_node_row(name, name == node, place, known) for name, place in places.items()]
    columns = ("Node", "Role", "Term", "Committed", "Applied", "Lag")
    return "<h2>Nodes</h2>" + _table(columns, rows)


def _node_row(name: str, is_own: bool, place: Place | None, known: int) -> tuple[object, ...]:
    shown = f"{name}, this one" if is_own else name
    if place is None:
        return (shown, "not heard", "", "", "", "")
    lag = max(0, known - place.applied)
    return (shown, place.role, place.term, place.commit, place.applied, lag)


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
    columns = ("Queue", "Partitions", "Messages", "Dead", "Group", "Lag", "Leases")
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
        name = "(the queue's own)" if group.name == QUEUE_MODE else group.name
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
    return f"<{tag}{kind}>{escape(_visible(str(value)))}</{tag}>"


def _visible(text: str) -> str:
    """The text with a code for each sign that would not show, or would turn what is around it."""
    if text.isprintable():
        return text
    return "".join(sign if sign.isprintable() else f"\\u{{{ord(sign):04x}}}" for sign in text)
