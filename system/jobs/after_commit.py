"""Dispatching with a transaction of the application's own database.

What is dispatched inside is sent once the transaction has committed, and never if it rolls back.
With the outbox it is written into the same transaction: a crash between commit and sending loses
nothing, since `flush_outbox` sends what lies there, under the ids it was written with.

A connection whose settings say `after_commit` has every dispatch on it wait for the transaction
that it is made in; a dispatch may say otherwise itself.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, Generic, TypeVar, Unpack

from ..client import BrokerError
from .application import Application
from .chain import prepare_chain
from .dispatch import Dispatch, DispatchOptions, DispatchResult, Step, prepare_dispatch
from .log import log_event
from .outbox import DbConnection, Send, remove_from_outbox, write_to_outbox

SendAsync = Callable[[Dispatch], Awaitable[DispatchResult]]
S = TypeVar("S")
C = TypeVar("C")


class _Transaction(Generic[S, C]):
    """What waits for a commit: jobs with their senders, and what is called after them."""

    def __init__(self, send: S, connection: DbConnection, *, outbox: bool = True) -> None:
        """Prepare.

        Args:
            send: Sends one.
            connection: The application's own; what it has not committed yet is part of it.
            outbox: Whether dispatches are written into the transaction, too. Without it, what
                cannot be sent after the commit is lost, and the error raised.
        """
        self.results: list[DispatchResult] = []
        self.is_open = False
        self._send = send
        self._connection = connection
        self._outbox = outbox
        self._waiting: list[tuple[Dispatch, S]] = []
        self._calls: list[C] = []

    def dispatch(
        self,
        app: Application,
        job_name: str,
        payload: object,
        **options: Unpack[DispatchOptions],
    ) -> str:
        """Have a job sent after the commit; returns its id.

        Raises:
            ValueError: See `prepare_dispatch`.
        """
        return self.add(prepare_dispatch(app, job_name, payload, **options))

    def chain(self, app: Application, steps: Sequence[Step], **options: Any) -> str:
        """Have a chain sent after the commit; returns the id of its first job.

        Raises:
            ValueError: See `prepare_chain`.
        """
        return self.add(prepare_chain(app, steps, **options))

    def add(self, dispatch: Dispatch, send: S | None = None) -> str:
        """Have a prepared job sent after the commit, by another sender if so; returns its id."""
        if self._outbox:
            write_to_outbox(self._connection, dispatch)
        self._waiting.append((dispatch, send or self._send))
        return dispatch.body.id

    def call(self, after: C) -> None:
        """Have something called after the commit and the jobs; it is in no outbox."""
        self._calls.append(after)

    def _end(self, commits: bool) -> tuple[list[tuple[Dispatch, S]], list[C]]:
        """Commit or roll back; returns what is to be sent and called now."""
        waiting, calls = self._waiting, self._calls
        self.is_open, self._waiting, self._calls = False, [], []
        if not commits:
            self._connection.rollback()
            return [], []
        self._connection.commit()
        return waiting, calls

    def _sent(self, dispatch: Dispatch, result: DispatchResult) -> None:
        self.results.append(result)
        if self._outbox:
            remove_from_outbox(self._connection, dispatch)

    def _not_sent(self, dispatch: Dispatch, error: BrokerError) -> None:
        if not self._outbox:
            raise error
        log_event("dispatch stays in the outbox", job=dispatch.body.id, error=str(error))


class AfterCommit(_Transaction[Send, Callable[[], object]], AbstractContextManager["AfterCommit"]):
    """`with dispatcher.after_commit(db) as later:` commits at its end, or rolls back and raises.

    Transactions do not nest: the end of an inner one commits what the outer one has done so far.

    Attributes:
        results: What became of the dispatches; filled after the commit. What could not be sent is
            not among them: with the outbox it waits there.
        is_open: Whether it has begun and has not ended.
    """

    _token: Token[AfterCommit | None]

    def __enter__(self) -> AfterCommit:
        self.is_open = True
        self._token = _OPEN.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _OPEN.reset(self._token)
        waiting, calls = self._end(kind is None)
        for dispatch, send in waiting:
            try:
                result = send(dispatch)
            except BrokerError as failure:
                self._not_sent(dispatch, failure)
            else:
                self._sent(dispatch, result)
        for call in calls:
            call()


class AsyncAfterCommit(
    _Transaction[SendAsync, Callable[[], Awaitable[object]]],
    AbstractAsyncContextManager["AsyncAfterCommit"],
):
    """The same for trio tasks: `async with dispatcher.after_commit(db) as later:`.

    The database's own calls block the event loop while they run. Tasks that are started inside
    are inside, too, until it ends.

    Attributes:
        results: See `AfterCommit`.
        is_open: Whether it has begun and has not ended.
    """

    _token: Token[AsyncAfterCommit | None]

    async def __aenter__(self) -> AsyncAfterCommit:
        self.is_open = True
        self._token = _OPEN_ASYNC.set(self)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _OPEN_ASYNC.reset(self._token)
        waiting, calls = self._end(kind is None)
        for dispatch, send in waiting:
            try:
                result = await send(dispatch)
            except BrokerError as failure:
                self._not_sent(dispatch, failure)
            else:
                self._sent(dispatch, result)
        for call in calls:
            await call()


_OPEN: Final[ContextVar[AfterCommit | None]] = ContextVar("open transaction", default=None)
_OPEN_ASYNC: Final[ContextVar[AsyncAfterCommit | None]] = ContextVar(
    "open transaction of tasks", default=None
)


def open_transaction() -> AfterCommit | None:
    """The transaction that this code is in."""
    found = _OPEN.get()
    return found if found is not None and found.is_open else None


def open_async_transaction() -> AsyncAfterCommit | None:
    """The transaction that this task is in."""
    found = _OPEN_ASYNC.get()
    return found if found is not None and found.is_open else None
