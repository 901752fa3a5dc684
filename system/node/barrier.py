"""Linearizable reads: from when on the machine may be read for them (ReadIndex)."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import trio

from ..raft.events import Read, ReadFailed, ReadReady


class _Waiting:
    __slots__ = ("is_ready", "settled")

    def __init__(self) -> None:
        self.settled = trio.Event()
        self.is_ready = False


class ReadBarrier:
    """Asks the core for a read's log index and waits until that is applied.

    Args:
        step: Hands an event to the core.
        applied_index: How far the machine is.
    """

    def __init__(self, step: Callable[[Read], None], applied_index: Callable[[], int]) -> None:
        self._step = step
        self._applied_index = applied_index
        self._last = 0
        self._asked: dict[int, _Waiting] = {}
        self._unapplied: list[tuple[int, int, _Waiting]] = []

    async def passes(self, deadline: float) -> bool:
        """Wait until a read may be served here; False if not here, or not by the deadline."""
        self._last += 1
        read = self._last
        waiting = self._asked[read] = _Waiting()
        self._step(Read(read))
        with trio.move_on_at(deadline):
            await waiting.settled.wait()
        self._asked.pop(read, None)
        return waiting.is_ready

    def ready(self, effect: ReadReady) -> None:
        """The core has named the index."""
        waiting = self._asked.pop(effect.read, None)
        if waiting is None:
            return
        if effect.log_index <= self._applied_index():
            self._settle(waiting, is_ready=True)
        else:
            heapq.heappush(self._unapplied, (effect.log_index, effect.read, waiting))

    def failed(self, effect: ReadFailed) -> None:
        """This node cannot serve the read."""
        waiting = self._asked.pop(effect.read, None)
        if waiting is not None:
            self._settle(waiting, is_ready=False)

    def applied(self) -> None:
        """The machine has moved on."""
        while self._unapplied and self._unapplied[0][0] <= self._applied_index():
            self._settle(heapq.heappop(self._unapplied)[2], is_ready=True)

    def _settle(self, waiting: _Waiting, is_ready: bool) -> None:
        waiting.is_ready = is_ready
        waiting.settled.set()
