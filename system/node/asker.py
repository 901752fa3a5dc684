"""Whoever waits for an answer, and may stop waiting before it comes."""

from __future__ import annotations

from typing import Protocol

import trio

from ..http.routes import Answer
from .bell import Bell


class Asker:
    """Someone who waits, at another node; that node says when they stop waiting.

    Attributes:
        gone: The client hung up, or its node is unreachable.
        impatient: An empty answer now is better than a full one later.
    """

    def __init__(self, impatient: bool = False) -> None:
        self.gone = False
        self.impatient = impatient
        self._scope: trio.CancelScope | None = None

    def withdraw(self, client_gone: bool) -> None:
        """Take in that a late answer is of no use; ends a `hold`."""
        self.gone = self.gone or client_gone
        self.impatient = True
        if self._scope is not None:
            self._scope.cancel()

    def answer_now(self, answer: Answer) -> None:
        """Have the answer before the task that waits for it goes on, where that is possible."""

    async def hold(self, event: trio.Event | Bell, deadline: float) -> None:
        """Return at an event, at an instant, or as soon as the asker has withdrawn."""
        if self.impatient:
            return
        with trio.CancelScope(deadline=deadline) as self._scope:
            await event.wait()
        self._scope = None


class Client(Protocol):
    """The connection that a request came in by."""

    async def wait_gone(self) -> None:
        """Return once the client has hung up."""
        ...

    def answer_now(self, answer: Answer) -> bool:
        """Write an answer, where that needs no waiting; whether it was begun."""
        ...


class LocalAsker(Asker):
    """A client of this node; held together with its connection.

    Attributes:
        has_answered: Whether its answer has been written already.
    """

    def __init__(self, client: Client, impatient: bool = False) -> None:
        super().__init__(impatient)
        self.has_answered = False
        self._client = client

    def answer_now(self, answer: Answer) -> None:
        """See `Asker.answer_now`."""
        assert not self.has_answered, "two answers to one request"
        self.has_answered = self._client.answer_now(answer)

    async def hold(self, event: trio.Event | Bell, deadline: float) -> None:
        """See `Asker.hold`; watches the connection meanwhile."""
        if self.impatient:
            return
        if isinstance(event, Bell):
            await self._hold_alone(event, deadline)
            return
        async with trio.open_nursery() as nursery:
            self._scope = nursery.cancel_scope
            nursery.cancel_scope.deadline = deadline
            nursery.start_soon(self._watch)
            await event.wait()
            nursery.cancel_scope.cancel()
        self._scope = None

    async def _hold_alone(self, bell: Bell, deadline: float) -> None:
        """As `hold`: this task watches the connection, and the bell ends that."""
        if bell.is_set():
            return
        with trio.CancelScope(deadline=deadline) as scope:
            self._scope = scope
            bell.on_ring = scope.cancel
            try:
                await self._watch()
            finally:
                bell.on_ring = None
        self._scope = None

    async def _watch(self) -> None:
        await self._client.wait_gone()
        self.withdraw(client_gone=True)
