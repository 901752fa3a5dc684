"""The event heap: one order of everything that happens in a run."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

Action = Callable[..., None]


class Scheduler:
    """Actions at integer microseconds; those of one moment run in the order they were added.

    Attributes:
        now_us: Time of the action that runs.
        events: Actions run so far.
    """

    __slots__ = ("_added", "_heap", "events", "now_us")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []
        self._added = 0
        self.now_us = 0
        self.events = 0

    def after(self, delay_us: int, action: Action, *arguments: Any) -> None:
        """Run `action(*arguments)` after a delay."""
        self._added += 1
        heappush(self._heap, (self.now_us + delay_us, self._added, action, arguments))

    def run_until(self, end_us: int) -> None:
        """Run actions in order, up to and including those at `end_us`."""
        heap = self._heap
        while heap and heap[0][0] <= end_us:
            self.now_us, _, action, arguments = heappop(heap)
            self.events += 1
            action(*arguments)
        self.now_us = end_us
