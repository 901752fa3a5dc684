"""The analytics routes that are series over time; see `reports`."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..broker.survey import QueueFigures
from ..http.request import ReportRequest
from ..http.timestamps import rfc3339
from .activity import Activity, Tally
from .report_window import Window, lag_ms, parked, rolled, window_of

Body = dict[str, object]


@dataclass(frozen=True, slots=True)
class Context:
    """What a series is made of.

    Attributes:
        node: This node.
        activity: What was done.
        figures: The queues that the request's filters leave.
        everything: All queues.
    """

    node: str
    activity: Activity
    figures: Sequence[QueueFigures]
    everything: Sequence[QueueFigures]

    @property
    def names(self) -> list[str]:
        """Of the queues that the filters leave."""
        return [each.name for each in self.figures]


def throughput(activity: Activity, window: Window, names: Iterable[str]) -> list[Body]:
    """One point for each bucket in which something was done, oldest first."""
    return [
        {
            "timestamp": rfc3339(bucket_us),
            "ingested": tally.push_messages,
            "processed": tally.pop_messages,
            "acknowledged": tally.ack_success,
            "ingestedPerSecond": window.per_second(tally.push_messages),
            "processedPerSecond": window.per_second(tally.pop_messages),
        }
        for bucket_us, tally in _by_bucket(rolled(activity, window, names)).items()
    ]


def queue_ops(request: ReportRequest, context: Context, now_us: int) -> Body:
    """GET /api/v1/analytics/queue-ops."""
    window = window_of(request, now_us)
    rows = rolled(context.activity, window, context.names)
    return {
        **_head(window),
        "series": [
            {
                "bucket": rfc3339(bucket_us),
                "queueName": queue,
                **_counts(tally),
                "pushPerSecond": window.per_second(tally.push_messages),
                "popPerSecond": window.per_second(tally.pop_messages),
                "ackPerSecond": window.per_second(tally.ack_success + tally.ack_failed),
                "emptyPerSecond": window.per_second(tally.pop_empty),
                "parkedCount": parked(tally),
            }
            for (bucket_us, queue), tally in rows.items()
        ],
        "queues": sorted({queue for _, queue in rows}),
    }


def queue_lag(request: ReportRequest, context: Context, now_us: int) -> list[Body]:
    """GET /api/v1/analytics/queue-lag: a bare list, newest bucket first."""
    window = window_of(request, now_us)
    rows = rolled(context.activity, window, context.names)
    ordered = sorted(rows.items(), key=lambda row: (-row[0][0], row[0][1]))
    return [
        {
            "queueName": queue,
            "popCount": tally.pop_messages,
            "avgLagMs": lag_ms(tally)[0],
            "maxLagMs": lag_ms(tally)[1],
            "bucketMinutes": window.minutes,
            "bucketTime": rfc3339(bucket_us),
        }
        for (bucket_us, queue), tally in ordered
    ]


def parked_replicas(request: ReportRequest, context: Context, now_us: int) -> Body:
    """GET /api/v1/analytics/queue-parked-replicas: pops wait at the leader only."""
    window = window_of(request, now_us)
    rows = rolled(context.activity, window, context.names)
    series = [
        {
            "bucket": rfc3339(bucket_us),
            "queueName": queue,
            "hostname": context.node,
            "workerId": 0,
            "parkedCount": parked(tally),
        }
        for (bucket_us, queue), tally in rows.items()
        if tally.parked
    ]
    replicas = [{"hostname": context.node, "workerId": 0}] if series else []
    return {**_head(window), "series": series, "replicas": replicas}


def retention(request: ReportRequest, context: Context, now_us: int) -> Body:
    """GET /api/v1/analytics/retention."""
    window = window_of(request, now_us)
    rows = {
        place: tally
        for place, tally in rolled(context.activity, window, context.names).items()
        if tally.sweeps
    }
    total = Tally()
    for tally in rows.values():
        total.add(tally)
    body: Body = {
        **_head(window),
        "series": [
            {"bucket": rfc3339(bucket_us), **_gone(tally)}
            for bucket_us, tally in _by_bucket(rows).items()
        ],
        "totals": _gone(total),
    }
    if request.group_by is not None:
        groups: dict[str, dict[str, Tally]] = {}
        for (_, queue), tally in rows.items():
            key = _key(context.figures, request.group_by, queue)
            groups.setdefault(key, {}).setdefault(queue, Tally()).add(tally)
        grouped = [_grouped(key, members) for key, members in groups.items()]
        body["rows"] = sorted(grouped, key=lambda row: (-int(str(row["totalMsgs"])), row["key"]))
    return body


def workload(request: ReportRequest, context: Context, now_us: int) -> Body:
    """GET /api/v1/analytics/workload: who does how much, by label."""
    window, group_by = window_of(request, now_us), request.group_by or "namespace"
    groups: dict[str, list[QueueFigures]] = {}
    for each in context.figures:
        key = {"namespace": each.namespace, "task": each.task, "queue": each.name}[group_by]
        groups.setdefault(key, []).append(each)
    return {
        **_head(window),
        "groupBy": group_by,
        "buckets": [rfc3339(bucket_us) for bucket_us in window.buckets()],
        "rows": [
            {"key": key, **_labels(group_by, members), **_work(context.activity, window, members)}
            for key, members in sorted(groups.items())
        ],
        "tenant": _work(context.activity, window, context.everything),
    }


def worker_metrics(request: ReportRequest, context: Context, now_us: int) -> Body:
    """GET /api/v1/analytics/worker-metrics: this node is the only worker that serves."""
    window = window_of(request, now_us)
    by_bucket = _by_bucket(rolled(context.activity, window, context.names))
    total = Tally()
    for tally in by_bucket.values():
        total.add(tally)
    series = [
        {
            "timestamp": rfc3339(bucket_us),
            **_counts(tally),
            "dlqCount": tally.dead_lettered,
            "pushPerSecond": window.per_second(tally.push_messages),
            "popPerSecond": window.per_second(tally.pop_messages),
            "ackPerSecond": window.per_second(tally.ack_success + tally.ack_failed),
            "lagCount": tally.pop_messages,
        }
        for bucket_us, tally in by_bucket.items()
    ]
    return {
        **_head(window),
        "pointCount": len(series),
        "timeSeries": series,
        "workers": [{"hostname": context.node, "workerId": 0}],
        "queues": context.names,
        "summary": _counts(total),
    }


def system_metrics(request: ReportRequest, context: Context, now_us: int) -> Body:
    """GET /api/v1/analytics/system-metrics: this process as it is now, one point."""
    window = window_of(request, now_us)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    gauges = {
        "cpu": {"user_s": _gauge(usage.ru_utime), "system_s": _gauge(usage.ru_stime)},
        "memory": {"rss_bytes_max": _gauge(usage.ru_maxrss * 1024)},
    }
    point = {"timestamp": rfc3339(now_us), "sampleCount": 1, "metrics": gauges}
    replica = {"hostname": context.node, "workerId": 0, "timeSeries": [point]}
    return {**_head(window), "pointCount": 1, "replicas": [replica], "replicaCount": 1}


def _head(window: Window) -> Body:
    return {"timeRange": window.as_body(), "bucketMinutes": window.minutes}


def _counts(tally: Tally) -> Body:
    average, highest = lag_ms(tally)
    return {
        "pushRequests": tally.push_requests,
        "pushMessages": tally.push_messages,
        "popMessages": tally.pop_messages,
        "popEmpty": tally.pop_empty,
        "ackRequests": tally.ack_requests,
        "ackSuccess": tally.ack_success,
        "ackFailed": tally.ack_failed,
        "transactions": tally.transactions,
        "conflated": tally.conflated,
        "partitionsCreated": None,
        "partitionsDeleted": tally.partitions_deleted,
        "avgLagMs": average,
        "maxLagMs": highest,
    }


def _gone(tally: Tally) -> Body:
    return {
        "retentionMsgs": tally.retained,
        "completedRetentionMsgs": tally.completed,
        "evictionMsgs": tally.evicted,
        "totalMsgs": tally.retained + tally.completed + tally.evicted,
        "eventCount": tally.sweeps,
    }


def _grouped(key: str, members: dict[str, Tally]) -> Body:
    total = Tally()
    for tally in members.values():
        total.add(tally)
    return {"key": key, "queues": sorted(members), **_gone(total)}


def _work(activity: Activity, window: Window, members: Sequence[QueueFigures]) -> Body:
    rows = rolled(activity, window, [each.name for each in members])
    by_bucket, total = _by_bucket(rows), Tally()
    for tally in by_bucket.values():
        total.add(tally)
    axis = window.buckets()
    series: dict[str, Callable[[Tally], float | None]] = {
        "push": lambda tally: tally.push_messages,
        "pop": lambda tally: tally.pop_messages,
        "popEmpty": lambda tally: tally.pop_empty,
        "ackFailed": lambda tally: tally.ack_failed,
        "parked": parked,
        "avgLagMs": lambda tally: lag_ms(tally)[0],
        "maxLagMs": lambda tally: lag_ms(tally)[1],
    }
    without_group = [each for each in members if not each.groups]
    return {
        "queues": len(members),
        "window": {**_counts(total), "parkedAvg": parked(total)},
        "series": {
            name: [read(by_bucket[at]) if at in by_bucket else None for at in axis]
            for name, read in series.items()
        },
        "now": {
            "pending": sum(each.pending for each in members),
            "processing": sum(each.processing for each in members),
            "deadLetter": sum(each.dead for each in members),
            "partitions": sum(each.partitions for each in members),
            "groups": sum(each.groups for each in members),
            "queuesWithoutGroup": len(without_group),
            "pendingWithoutGroup": sum(each.pending for each in without_group),
            "queuesTouched": len({queue for _, queue in rows}),
            "queuesActive": len(
                {q for (_, q), each in rows.items() if each.push_messages or each.pop_messages}
            ),
        },
    }


def _labels(group_by: str, members: Sequence[QueueFigures]) -> Body:
    if group_by != "queue":
        return {}
    return {"namespace": members[0].namespace, "task": members[0].task}


def _key(figures: Sequence[QueueFigures], group_by: str, queue: str) -> str:
    if group_by == "queue":
        return queue
    each = next(each for each in figures if each.name == queue)
    return each.namespace if group_by == "namespace" else each.task


def _by_bucket(rows: dict[tuple[int, str], Tally]) -> dict[int, Tally]:
    found: dict[int, Tally] = {}
    for (bucket_us, _), tally in rows.items():
        found.setdefault(bucket_us, Tally()).add(tally)
    return found


def _gauge(value: float) -> Body:
    return {"avg": value, "min": value, "max": value, "last": value}


Maker = Callable[[ReportRequest, Context, int], Body | list[Body]]

MAKERS: Final[dict[str, Maker]] = {
    "queue-ops": queue_ops,
    "queue-lag": queue_lag,
    "queue-parked-replicas": parked_replicas,
    "retention": retention,
    "workload": workload,
    "worker-metrics": worker_metrics,
    "system-metrics": system_metrics,
}
