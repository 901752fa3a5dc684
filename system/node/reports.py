"""Status and analytics: reports over the leader's state and what it has counted as leader.

Shapes follow Queen's dashboard. What this broker does not measure is null or absent, never a
made-up zero.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

import trio

from ..broker.machine import Machine
from ..broker.queries import DlqList
from ..broker.queue import Queue
from ..broker.replies import DlqReply
from ..broker.survey import QueueFigures
from ..http.answer import Answer, json_answer, no_such_route
from ..http.parse_reports import INTERVALS_S
from ..http.request import ReportRequest
from ..http.timestamps import rfc3339
from . import report_series
from .activity import MINUTE_US, Activity
from .report_window import window_of

Body = dict[str, object]
Figures = Sequence[QueueFigures]

SIGNATURES_MAX: Final = 8
SIGNATURE_CHARS_MAX: Final = 120

_FOLDS: Final = (
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?Z?)?\b"), "<date>"),
    (re.compile(r"\b(?=[0-9a-fA-F]*\d)[0-9a-fA-F]{12,}\b"), "<id>"),
    (re.compile(r"\b\d+\b"), "<n>"),
    (re.compile(r"\s+"), " "),
)


class Reports:
    """Answers reports while this node leads.

    Args:
        node: Its name.
        machine: The queues.
        activity: What was done for them.
    """

    def __init__(self, node: str, machine: Machine, activity: Activity) -> None:
        self._node = node
        self._machine = machine
        self._activity = activity
        self._makers: dict[str, Callable[[ReportRequest, Figures, int], Body | list[Body]]] = {
            "status": self._status,
            "volume": self._volume,
            "overview": self._overview,
            "partition-liveness": self._liveness,
            "dlq-signatures": self._signatures,
            "queues": self._queues,
            "namespaces": self._labels,
            "tasks": self._labels,
        }

    async def answer(self, request: ReportRequest, now_us: int) -> Answer:
        """Make one report; other tasks run meanwhile."""
        make = self._makers.get(request.name)
        series = report_series.MAKERS.get(request.name)
        if make is None and series is None:
            return no_such_route()
        figures = await self._survey(request, now_us)
        if series is not None:
            everything = figures
            if request.name == "workload":
                everything = await self._survey(None, now_us)
            context = report_series.Context(self._node, self._activity, figures, everything)
            return json_answer(series(request, context, now_us))
        assert make is not None
        return json_answer(make(request, figures, now_us))

    async def _survey(self, request: ReportRequest | None, now_us: int) -> Figures:
        steps = self._machine.survey(lambda queue: _matches(request, queue), now_us)
        while True:
            try:
                next(steps)
            except StopIteration as ended:
                found: list[QueueFigures] = ended.value
                return found
            await trio.lowlevel.checkpoint()

    def _status(self, request: ReportRequest, figures: Figures, now_us: int) -> Body:
        window = window_of(request, now_us)
        points = report_series.throughput(self._activity, window, [each.name for each in figures])
        return {
            "engine": "atleastonce",
            "timeRange": window.as_body(),
            "bucketMinutes": window.minutes,
            "pointCount": len(points),
            "throughput": points,
            "queues": [{"id": each.queue_id, **_queue(each)} for each in figures],
            "messages": _messages(figures),
            "leases": {"active": sum(each.leases for each in figures)},
            "deadLetterQueue": {"totalMessages": sum(each.dead for each in figures)},
            "workers": [{"hostname": self._node, "workerId": 0}],
            "errors": {},
            "statsAge": 0,
        }

    def _volume(self, request: ReportRequest, figures: Figures, now_us: int) -> Body:
        window = window_of(request, now_us, 24 * 60)
        width_us = INTERVALS_S[request.interval] * 1_000_000
        names = {each.name for each in figures}
        counts: dict[int, int] = {}
        for minute_us, queue, tally in self._activity.between(window.from_us, window.to_us):
            if queue in names:
                bucket_us = minute_us // width_us * width_us
                counts[bucket_us] = counts.get(bucket_us, 0) + tally.push_messages
        points = [
            {"timestamp": rfc3339(bucket_us), "messages": count}
            for bucket_us, count in sorted(counts.items())
        ]
        return {"dataPoints": points, "interval": request.interval, **window.as_body()}

    def _overview(self, request: ReportRequest, figures: Figures, now_us: int) -> Body:
        window = window_of(request, now_us, 5)
        pushed = popped = 0
        for _, _, tally in self._activity.between(now_us - 5 * MINUTE_US, now_us):
            pushed += tally.push_messages
            popped += tally.pop_messages
        seconds = 5 * 60
        return {
            "queues": len(figures),
            "partitions": sum(each.partitions for each in figures),
            "namespaces": len({each.namespace for each in figures if each.namespace}),
            "tasks": len({each.task for each in figures if each.task}),
            "messages": _messages(figures),
            "lag": {
                "time": _spread([each.lag_us // 1_000_000 for each in figures]),
                "offset": _spread([each.lag_max for each in figures]),
            },
            "throughput": {
                "ingestedPerSecond": round(pushed / seconds, 2),
                "processedPerSecond": round(popped / seconds, 2),
            },
            "timestamp": rfc3339(window.to_us),
            "statsAge": 0,
        }

    def _liveness(self, request: ReportRequest, figures: Figures, now_us: int) -> Body:
        rows = sorted(figures, key=lambda each: (-each.partitions, each.name))[: request.limit]
        return {
            "capturedAt": rfc3339(now_us),
            "rows": [
                {
                    "queue": each.name,
                    "namespace": each.namespace,
                    "task": each.task,
                    "partitions": each.partitions,
                    "live1h": each.live_1h,
                    "live24h": each.live_24h,
                    "live7d": each.live_7d,
                    "oldestWriteAt": _instant(each.oldest_write_us),
                    "newestWriteAt": _instant(each.newest_write_us),
                    "pending": each.pending,
                }
                for each in rows
            ],
        }

    def _signatures(self, request: ReportRequest, figures: Figures, now_us: int) -> Body:
        reply = self._machine.read(DlqList(request.queue, limit=request.limit), now_us)
        assert isinstance(reply, DlqReply), f"dead letters are {type(reply).__name__}"
        letters = reply.letters
        texts: dict[str, int] = {}
        days: dict[str, int] = {}
        for letter in letters:
            text = folded(letter.error)
            texts[text] = texts.get(text, 0) + 1
            day = rfc3339(letter.failed_us)[:10]
            days[day] = days.get(day, 0) + 1
        most = sorted(texts.items(), key=lambda pair: (-pair[1], pair[0]))[:SIGNATURES_MAX]
        count = len(letters)
        sizes = sum(len(letter.message.payload) for letter in letters)
        return {
            "queue": request.queue,
            "rowsNow": sum(each.dead for each in figures),
            "sample": count,
            "retryCounts": sorted({letter.retry_count for letter in letters}),
            "groups": sorted({letter.group for letter in letters}),
            "oldest": _instant(letters[-1].failed_us if letters else None),
            "newest": _instant(letters[0].failed_us if letters else None),
            "avgBytes": round(sizes / count) if count else 0,
            "signatures": [
                {"text": text, "n": number, "share": round(number / count, 3)}
                for text, number in most
            ],
            "byDay": [{"day": day, "n": number} for day, number in sorted(days.items())],
        }

    def _queues(self, request: ReportRequest, figures: Figures, _: int) -> Body:
        page = list(figures)
        body: Body = {}
        if request.is_paged:
            page = page[request.offset : request.offset + request.limit]
            body["pagination"] = {"limit": request.limit, "offset": request.offset}
        rows = [{"id": each.queue_id, "queue": each.name, **_queue(each)} for each in page]
        return {"queues": rows, **body}

    def _labels(self, request: ReportRequest, figures: Figures, _: int) -> Body:
        kind = request.name.removesuffix("s")
        rows: dict[str, list[QueueFigures]] = {}
        for each in figures:
            label = each.namespace if kind == "namespace" else each.task
            if label:
                rows.setdefault(label, []).append(each)
        return {
            request.name: [
                {
                    kind: label,
                    "name": label,
                    "queues": len(members),
                    "partitions": sum(each.partitions for each in members),
                    "messages": {
                        "total": sum(each.total for each in members),
                        "pending": sum(each.pending for each in members),
                    },
                }
                for label, members in rows.items()
            ]
        }


def folded(error: str) -> str:
    """An error text without what differs from one message to the next."""
    for pattern, sign in _FOLDS:
        error = pattern.sub(sign, error)
    return error.strip()[:SIGNATURE_CHARS_MAX]


def _matches(request: ReportRequest | None, queue: Queue) -> bool:
    if request is None:
        return True
    return (
        request.queue in (None, queue.name)
        and request.namespace in (None, queue.namespace)
        and request.task in (None, queue.task)
    )


def _queue(figures: QueueFigures) -> Body:
    counts = {
        "total": figures.total,
        "pending": figures.pending,
        "processing": figures.processing,
        "completed": figures.total - figures.pending,
        "deadLetter": figures.dead,
    }
    return {
        "name": figures.name,
        "namespace": figures.namespace,
        "task": figures.task,
        "createdAt": rfc3339(figures.created_us),
        "partitions": figures.partitions,
        "messages": counts,
        "totals": counts,
    }


def _messages(figures: Figures) -> Body:
    total, pending = sum(each.total for each in figures), sum(each.pending for each in figures)
    return {
        "total": total,
        "pending": pending,
        "processing": sum(each.processing for each in figures),
        "completed": total - pending,
        "failed": None,
        "deadLetter": sum(each.dead for each in figures),
    }


def _spread(values: list[int]) -> Body:
    values = sorted(values) or [0]
    return {
        "avg": round(sum(values) / len(values), 2),
        "median": values[len(values) // 2],
        "min": values[0],
        "max": values[-1],
    }


def _instant(instant_us: int | None) -> str | None:
    return None if instant_us is None else rfc3339(instant_us)
