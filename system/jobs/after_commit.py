"""Dispatching with a transaction of the application's own database.

What is dispatched inside is sent once the transaction has committed, and never if it rolls back.
With the outbox it is written into the same transaction: a crash between commit and sending loses
nothing, since `flush_outbox` sends what lies there, under the ids it was written with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Final, Protocol, Unpack

import msgspec

from ..client import BrokerError
from .application import Application
from .chain import prepare_chain
from .dispatch import Dispatch, DispatchOptions, DispatchResult, Step, prepare_dispatch
from .log import log_event
from .payload import JobBody

TABLE: Final = "atleastonce_outbox"

_CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (id VARCHAR(255) PRIMARY KEY, dispatch TEXT NOT NULL)"
)


class DbCursor(Protocol):
    """What is needed of a DB-API cursor."""

    def execute(self, operation: str, parameters: Any = ..., /) -> object:
        """Run a statement."""

    def fetchall(self) -> list[Any]:
        """All rows."""

    def close(self) -> object:
        """Close it."""


class DbConnection(Protocol):
    """What is needed of a DB-API connection with parameters written as `?`, such as SQLite's."""

    def cursor(self) -> Any:
        """A new cursor."""

    def commit(self) -> object:
        """Commit."""

    def rollback(self) -> object:
        """Roll back."""


class _Written(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A dispatch as the outbox holds it."""

    queue: str
    body: JobBody
    delay_s: float
    request_id: str
    unique_for_s: float = 0.0
    connection: str | None = None


Send = Callable[[Dispatch], DispatchResult]


class AfterCommit(AbstractContextManager["AfterCommit"]):
    """`with dispatcher.after_commit(db) as later:` commits at its end, or rolls back and raises.

    Attributes:
        results: What became of the dispatches; filled after the commit. What could not be sent is
            not among them: with the outbox it waits there.
    """

    def __init__(self, send: Send, connection: DbConnection, *, outbox: bool = True) -> None:
        """Begin.

        Args:
            send: Sends one.
            connection: The application's own; what it has not committed yet is part of it.
            outbox: Whether dispatches are written into the transaction, too. Without it, what
                cannot be sent after the commit is lost, and the error raised.
        """
        self.results: list[DispatchResult] = []
        self._send = send
        self._connection = connection
        self._outbox = outbox
        self._waiting: list[Dispatch] = []

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

    def add(self, dispatch: Dispatch) -> str:
        """Have a prepared job sent after the commit; returns its id."""
        if self._outbox:
            _write(self._connection, dispatch)
        self._waiting.append(dispatch)
        return dispatch.body.id

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        waiting, self._waiting = self._waiting, []
        if kind is not None:
            self._connection.rollback()
            return
        self._connection.commit()
        if self._outbox:
            self.results.extend(_send_written(self._send, self._connection, waiting))
        else:
            self.results.extend(self._send(dispatch) for dispatch in waiting)


def flush_outbox(send: Send, connection: DbConnection) -> tuple[DispatchResult, ...]:
    """Send what committed transactions have left in the outbox, such as after a crash.

    Args:
        send: Sends one; `SyncDispatcher.send`.
        connection: The application's own, outside a transaction.

    Raises:
        BrokerError: One could not be sent; it and those behind it stay.
    """
    cursor = connection.cursor()
    cursor.execute(_CREATE)
    cursor.execute(f"SELECT dispatch FROM {TABLE} ORDER BY id")
    rows = [msgspec.json.decode(row[0], type=_Written) for row in cursor.fetchall()]
    cursor.close()
    connection.commit()
    results: list[DispatchResult] = []
    for row in rows:
        dispatch = Dispatch(
            row.queue, row.body, row.delay_s, row.request_id, row.unique_for_s, row.connection
        )
        results.append(send(dispatch))
        _remove(connection, dispatch)
    return tuple(results)


def _send_written(
    send: Send, connection: DbConnection, waiting: list[Dispatch]
) -> list[DispatchResult]:
    """Send what was written; what cannot be sent stays in the outbox."""
    results: list[DispatchResult] = []
    for dispatch in waiting:
        try:
            results.append(send(dispatch))
        except BrokerError as error:
            log_event("dispatch stays in the outbox", job=dispatch.body.id, error=str(error))
            continue
        _remove(connection, dispatch)
    return results


def _write(connection: DbConnection, dispatch: Dispatch) -> None:
    written = _Written(
        queue=dispatch.queue,
        body=dispatch.body,
        delay_s=dispatch.delay_s,
        request_id=dispatch.request_id,
        unique_for_s=dispatch.unique_for_s,
        connection=dispatch.connection,
    )
    text = msgspec.json.encode(written).decode()
    cursor = connection.cursor()
    cursor.execute(_CREATE)
    cursor.execute(f"INSERT INTO {TABLE} (id, dispatch) VALUES (?, ?)", (dispatch.body.id, text))
    cursor.close()


def _remove(connection: DbConnection, dispatch: Dispatch) -> None:
    cursor = connection.cursor()
    cursor.execute(f"DELETE FROM {TABLE} WHERE id = ?", (dispatch.body.id,))
    cursor.close()
    connection.commit()
