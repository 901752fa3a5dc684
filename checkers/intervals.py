"""Closed time intervals (ns) and what is left of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

Interval = tuple[int, int]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the union as disjoint intervals in order of time."""
    merged: list[Interval] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        elif end > start:
            merged.append((start, end))
    return merged


def subtract(interval: Interval, holes: Sequence[Interval]) -> list[Interval]:
    """Return what is left of an interval; the holes must be disjoint and in order (see `merge`)."""
    left: list[Interval] = []
    start, end = interval
    for hole_start, hole_end in holes:
        if hole_end <= start:
            continue
        if hole_start >= end:
            break
        if hole_start > start:
            left.append((start, hole_start))
        start = hole_end
    if start < end:
        left.append((start, end))
    return left


def length(interval: Interval) -> int:
    """Return how long an interval is."""
    return interval[1] - interval[0]


def longest(
    intervals: Iterable[Interval], measure: Callable[[Interval], int] = length
) -> Interval | None:
    """Return the longest interval by a measure and then by length, the first of equals, or None."""
    return max(intervals, key=lambda interval: (measure(interval), length(interval)), default=None)


def intersect(left: Interval, right: Interval) -> Interval | None:
    """Return the common part, or None where there is none of any length."""
    start, end = max(left[0], right[0]), min(left[1], right[1])
    return (start, end) if start < end else None


def clip(intervals: Iterable[Interval], within: Interval) -> list[Interval]:
    """Return the parts of intervals that lie within another one."""
    return [part for interval in intervals if (part := intersect(interval, within))]
