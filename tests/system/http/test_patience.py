"""Deadlines of many waits under one timer."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import trio
import trio.testing

from atleastonce.system.http.patience import Patience


class Waiting:
    """A wait that notes when it was ended."""

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.ended_at: float | None = None

    def expire(self) -> None:
        """See `patience.Wait`."""
        if self.ended_at is None:
            self.ended_at = trio.current_time()


def on_virtual_time(scenario: Callable[[Patience], Awaitable[None]], shortest_s: float) -> None:
    """Run a scenario beside a patience that is watching."""

    async def main() -> None:
        patience = Patience(shortest_s)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(patience.watch)
            await scenario(patience)
            nursery.cancel_scope.cancel()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_each_wait_ends_at_its_own_deadline() -> None:
    async def scenario(patience: Patience) -> None:
        start = trio.current_time()
        waits = [Waiting(start + seconds) for seconds in (7.0, 5.5, 30.0, math.inf)]
        for wait in waits:
            patience.add(wait)
        await trio.sleep(100)
        assert [wait.ended_at for wait in waits] == [start + 7.0, start + 5.5, start + 30.0, None]

    on_virtual_time(scenario, shortest_s=5.0)


def test_a_deadline_that_is_moved_or_set_late_is_kept() -> None:
    async def scenario(patience: Patience) -> None:
        start = trio.current_time()
        moved, late = Waiting(start + 6.0), Waiting(math.inf)
        patience.add(moved)
        patience.add(late)
        await trio.sleep(4.9)
        moved.deadline = start + 40.0
        # The nearest that anything may be set.
        late.deadline = trio.current_time() + 5.0
        await trio.sleep(100)
        assert (moved.ended_at, late.ended_at) == (start + 40.0, start + 9.9)

    on_virtual_time(scenario, shortest_s=5.0)


def test_what_is_watched_no_longer_is_left_alone() -> None:
    async def scenario(patience: Patience) -> None:
        wait = Waiting(trio.current_time() + 6.0)
        patience.add(wait)
        await trio.sleep(1)
        patience.discard(wait)
        await trio.sleep(100)
        assert wait.ended_at is None

    on_virtual_time(scenario, shortest_s=5.0)
