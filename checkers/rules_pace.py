"""The rule about pace: while jobs wait, the configured workers' time must be accounted for.

Time is cut into bins of a tenth of the contract's window. In each bin the workers' time is
accounted for by runs, and by an overhead that the contract grants each pickup. A window counts only
if no fault window was open in it and if in every bin some job had been ready for `pace_age_s` with
its partition not held. The pickups of such a window fall below the floor when runs and overhead
together cover less than `pace_floor` of `workers` times its length: an open crash circuit leaves
most workers unaccounted for, and so does a pop loop that comes back empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .capacity import NOT_JUDGED, Capacity
from .facts import RAN, Times
from .findings import Finding, seconds
from .intervals import Interval, length
from .world import World

_BINS_PER_WINDOW: Final = 10


def judge_pace(world: World, capacity: Capacity) -> Iterator[Finding]:
    """Pickups per second below the floor, in each longest stretch of windows."""
    table = world.facts.deliveries
    picked = table.start_ns >= 0
    if not picked.any():
        return
    origin_ns = int(table.start_ns[picked].min())
    bin_ns = max(1, world.ns("pace_window_s") // _BINS_PER_WINDOW)
    bins = (world.facts.end_ns - origin_ns) // bin_ns
    if bins < _BINS_PER_WINDOW:
        return
    timeline = _Timeline(world, capacity, origin_ns, bin_ns, int(bins))
    for low, high in timeline.slow_stretches():
        share, pickups = timeline.share(low, high)
        length_ns = (high - low) * bin_ns
        workers = world.contract.bounds.workers
        yield Finding(
            "pace",
            None,
            f"for {seconds(length_ns)} jobs were ready for more than "
            f"{world.contract.bounds.pace_age_s:g} s, no fault window was open, and {pickups} "
            f"pickups accounted for {share:.0%} of the time of {workers} workers; the floor is "
            f"{world.contract.bounds.pace_floor:.0%}",
            origin_ns + low * bin_ns,
            origin_ns + high * bin_ns,
            doubt=timeline.doubt(low, high),
        )


class _Timeline:
    def __init__(self, world: World, capacity: Capacity, origin_ns: int, bin_ns: int, bins: int):
        self._world = world
        self._capacity = capacity
        self._origin_ns = origin_ns
        self._bin_ns = bin_ns
        self._bins = bins
        table = world.facts.deliveries
        ran = np.flatnonzero(table.kind == RAN)
        ends = np.minimum(table.end_ns[ran], world.facts.end_ns)
        self._busy_ns = self._covered(table.start_ns[ran], ends)
        picked = (table.start_ns[table.start_ns >= 0] - origin_ns) // bin_ns
        self._pickups = np.bincount(picked[picked < bins], minlength=bins)
        self._quiet = self._quiet_bins()
        self._old = self._old_waits()
        self._open: dict[int, bool] = {}

    def _covered(self, start_ns: Times, end_ns: Times) -> NDArray[np.float64]:
        """Total length of intervals in each bin, from the sums of their clipped ramps."""
        edges = np.arange(self._bins + 1, dtype=np.int64) * self._bin_ns
        started = _passed(np.sort(start_ns - self._origin_ns), edges)
        return np.diff(started - _passed(np.sort(end_ns - self._origin_ns), edges))

    def _quiet_bins(self) -> NDArray[np.bool_]:
        quiet = np.ones(self._bins, np.bool_)
        for start, end in self._world.windows.open:
            low = (start - self._origin_ns) // self._bin_ns
            high = (end - self._origin_ns) // self._bin_ns
            quiet[max(0, low) : max(0, high + 1)] = False
        return quiet

    def _old_waits(self) -> tuple[Times, Times, Times]:
        """Deliveries that were waited for longer than the age, and their bins [low, high)."""
        waits = self._capacity.waits
        since_ns = waits.ready_ns + self._world.ns("pace_age_s")
        rows = np.flatnonzero((waits.kind != NOT_JUDGED) & (waits.taken_ns > since_ns))
        low = -((self._origin_ns - since_ns[rows]) // self._bin_ns)
        low = np.maximum(low, 0)
        high = np.minimum((waits.taken_ns[rows] - self._origin_ns) // self._bin_ns, self._bins)
        some = high > low
        return rows[some], low[some], high[some]

    def share(self, low: int, high: int) -> tuple[float, int]:
        """Share of the workers' time that is accounted for in bins [low, high), and the pickups."""
        return self._share(np.arange(low, high))

    def _share(self, bins: Times) -> tuple[float, int]:
        bounds = self._world.contract.bounds
        pickups = int(self._pickups[bins].sum())
        accounted = float(self._busy_ns[bins].sum()) + pickups * bounds.pace_overhead_s * 1e9
        return accounted / (bounds.workers * len(bins) * self._bin_ns), pickups

    def doubt(self, low: int, high: int) -> str | None:
        """Say why a slow stretch proves nothing, where what was not starved of it does not.

        That is so when less than a window is left of it, or what is left keeps the pace.
        """
        starvation, bounds = self._world.starvation, self._world.contract.bounds
        starts = self._origin_ns + np.arange(low, high) * self._bin_ns
        bins = [(start, start + self._bin_ns) for start in starts.tolist()]
        whole = (bins[0][0], bins[-1][1])
        calm = np.array([starvation.left_ns(bin_) == self._bin_ns for bin_ in bins])
        left = int(np.count_nonzero(calm))
        if left == high - low:
            return None
        share, _ = self._share(np.arange(low, high)[calm]) if left else (0.0, 0)
        if left >= _BINS_PER_WINDOW and share < bounds.pace_floor:
            return None
        slow, rest = seconds(length(whole)), seconds(left * self._bin_ns)
        kept = f", with {share:.0%} accounted for" if left else ""
        return (
            f"{starvation.told(whole)}; of the {slow} that are too slow, {rest} lie outside of "
            f"that{kept}, and pace is judged over {bounds.pace_window_s:g} s"
        )

    def slow_stretches(self) -> Iterator[Interval]:
        """Find stretches of bins that consist of slow windows only."""
        bounds = self._world.contract.bounds
        _, low, high = self._old
        change = np.bincount(low, minlength=self._bins + 1) - np.bincount(
            high, minlength=self._bins + 1
        )
        candidate = self._quiet & (np.cumsum(change)[: self._bins] > 0)
        spent = self._busy_ns + self._pickups * bounds.pace_overhead_s * 1e9
        window = np.ones(_BINS_PER_WINDOW)
        full = np.convolve(candidate, window, "valid") == _BINS_PER_WINDOW
        need = bounds.pace_floor * bounds.workers * _BINS_PER_WINDOW * self._bin_ns
        slow = full & (np.convolve(spent, window, "valid") < need)
        stretch: tuple[int, int] | None = None
        for at in np.flatnonzero(slow).tolist():
            if not all(self._has_open_wait(bin_) for bin_ in range(at, at + _BINS_PER_WINDOW)):
                continue
            if stretch and at <= stretch[1]:
                stretch = (stretch[0], at + _BINS_PER_WINDOW)
            else:
                if stretch:
                    yield stretch
                stretch = (at, at + _BINS_PER_WINDOW)
        if stretch:
            yield stretch

    def _has_open_wait(self, bin_: int) -> bool:
        """Whether in this bin an old wait's partition was not held all the time."""
        if bin_ not in self._open:
            rows, low, high = self._old
            start = self._origin_ns + bin_ * self._bin_ns
            waiting = rows[(low <= bin_) & (high > bin_)]
            self._open[bin_] = any(
                not self._capacity.is_held(partition, (start, start + self._bin_ns))
                for partition in np.unique(self._capacity.partitions(waiting)).tolist()
            )
        return self._open[bin_]


def _passed(sorted_ns: Times, edges: Times) -> NDArray[np.float64]:
    """Sum over times t of max(0, edge - t), for each edge."""
    sums = np.concatenate([[0.0], np.cumsum(sorted_ns.astype(np.float64))])
    count = np.searchsorted(sorted_ns, edges)
    passed: NDArray[np.float64] = count * edges.astype(np.float64) - sums[count]
    return passed
