"""Local reads of partitions by offset, which may wait for more to arrive."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio

from ..broker.machine import Machine
from ..broker.replies import FetchReply
from ..http.routes import Answer, FetchRequest, error_answer, render
from .asker import Asker


class Fetches:
    """Serves fetches from this node's own machine, whoever leads: maybe behind, never wrong.

    Args:
        machine: The replicated state.
        stamp_us: The time at which to ask it.
    """

    def __init__(self, machine: Machine, stamp_us: Callable[[], int]) -> None:
        self._machine = machine
        self._stamp_us = stamp_us
        self._opened = trio.Event()
        self._waiting: dict[str, set[trio.Event]] = {}

    @property
    def is_open(self) -> bool:
        """Whether this node has applied again whatever it may have shown before its start."""
        return self._opened.is_set()

    def open(self) -> None:
        """From now on the machine is no older than what was shown before."""
        self._opened.set()

    def wake(self, queues: Iterable[str]) -> None:
        """These queues have changed."""
        for queue in queues:
            for event in self._waiting.get(queue, ()):
                event.set()

    async def answer(self, request: FetchRequest, asker: Asker, open_within_s: float) -> Answer:
        """Answer as soon as there is enough, or at the end of the request's wait."""
        if not self.is_open:
            await asker.hold(self._opened, trio.current_time() + open_within_s)
            if not self.is_open:
                text = "no connection to a leader since this node's start"
                return error_answer(503, "no_leader", text, retry_after_s=1)
        deadline = trio.current_time() + request.max_wait_ms / 1000
        while True:
            reply = self._machine.read(request.query, self._stamp_us())
            assert isinstance(reply, FetchReply), f"a fetch got {type(reply).__name__}"
            if reply.is_final or asker.impatient or trio.current_time() >= deadline:
                return render(request, reply)
            await self._wait_for_change(request, asker, deadline)

    async def _wait_for_change(self, request: FetchRequest, asker: Asker, deadline: float) -> None:
        event = trio.Event()
        queues = request.query.queues
        for queue in queues:
            self._waiting.setdefault(queue, set()).add(event)
        try:
            await asker.hold(event, deadline)
        finally:
            for queue in queues:
                events = self._waiting[queue]
                events.discard(event)
                if not events:
                    del self._waiting[queue]
