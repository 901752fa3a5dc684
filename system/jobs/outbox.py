"""The outbox: dispatches that were written into the application's own transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

import msgspec

from .dispatch import Dispatch, DispatchResult
from .payload import JobBody

TABLE: Final = "atleastonce_outbox"

_CREATE: Final = (
    f"CREATE TABLE IF NOT EXISTS {TABLE} (id VARCHAR(255) PRIMARY KEY, dispatch TEXT NOT NULL)"
)
Send = Callable[[Dispatch], DispatchResult]


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
        remove_from_outbox(connection, dispatch)
    return tuple(results)


def write_to_outbox(connection: DbConnection, dispatch: Dispatch) -> None:
    """Make a dispatch part of the open transaction."""
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


def remove_from_outbox(connection: DbConnection, dispatch: Dispatch) -> None:
    """Forget a dispatch that was sent, and commit."""
    cursor = connection.cursor()
    cursor.execute(f"DELETE FROM {TABLE} WHERE id = ?", (dispatch.body.id,))
    cursor.close()
    connection.commit()
