"""The store of jobs that were given up: one SQLite file, shared by all workers of a host."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

BUSY_S: Final = 10.0

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS failed_jobs (
    id TEXT PRIMARY KEY, job TEXT NOT NULL, queue TEXT NOT NULL, payload TEXT NOT NULL,
    digest TEXT NOT NULL, cause TEXT NOT NULL, error TEXT NOT NULL, attempts INTEGER NOT NULL,
    failed_at REAL NOT NULL, partition TEXT NOT NULL, partition_id TEXT NOT NULL, txn TEXT NOT NULL
)"""


@dataclass(frozen=True, slots=True)
class FailedJob:
    """One row.

    Attributes:
        id: The job, or the transaction id of a message that is not one.
        job: Name it is registered under; empty for what is not a job.
        queue: Queue name.
        payload: The message's payload, JSON.
        digest: SHA-256 of the job's data, hex.
        cause: Why it was given up; see `events.Cause`.
        error: What the dead letter says.
        attempts: Attempts used up.
        failed_at: Wall clock, seconds.
        partition: Name of its partition.
        partition_id: The broker's id of it: with `txn`, the dead letter's address.
        txn: Transaction id of the message that was given up.
    """

    id: str
    job: str
    queue: str
    payload: str
    digest: str
    cause: str
    error: str
    attempts: int
    failed_at: float
    partition: str
    partition_id: str
    txn: str


_COLUMNS: Final = tuple(field.name for field in fields(FailedJob))
_SELECT: Final = f"SELECT {', '.join(_COLUMNS)} FROM failed_jobs"
_INSERT: Final = (
    f"INSERT OR REPLACE INTO failed_jobs ({', '.join(_COLUMNS)}) "
    f"VALUES ({', '.join('?' * len(_COLUMNS))})"
)


class FailedStore:
    """Opened at first use, so it may be made before a fork; a row is on disk when `add` returns."""

    def __init__(self, path: str | Path) -> None:
        """Name the file; it is created when needed, its folder is not."""
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None

    def add(self, row: FailedJob) -> None:
        """Store a row; one of the same id is replaced.

        Raises:
            sqlite3.Error: The file cannot be written.
        """
        values = tuple(getattr(row, name) for name in _COLUMNS)
        self._open().execute(_INSERT, values)

    def get(self, job_id: str) -> FailedJob | None:
        """The row of a job."""
        row = self._open().execute(f"{_SELECT} WHERE id = ?", (job_id,)).fetchone()
        return None if row is None else FailedJob(*row)

    def list(self) -> tuple[FailedJob, ...]:
        """All rows, oldest first."""
        rows = self._open().execute(f"{_SELECT} ORDER BY failed_at, id").fetchall()
        return tuple(FailedJob(*row) for row in rows)

    def remove(self, job_id: str, txn: str | None = None) -> bool:
        """Delete a row; whether there was one.

        Args:
            job_id: The job.
            txn: Only if this is the message that was given up: not when the job was retried and
                given up anew in the meantime.
        """
        statement = "DELETE FROM failed_jobs WHERE id = ? AND txn = coalesce(?, txn)"
        return self._open().execute(statement, (job_id, txn)).rowcount > 0

    def close(self) -> None:
        """Close the file."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
            try:
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection


def _prepare(connection: sqlite3.Connection) -> None:
    until_s = time.monotonic() + BUSY_S
    while True:
        try:
            # Switching to WAL takes a lock for which SQLite does not wait by itself.
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(_SCHEMA)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() >= until_s:
                raise
            time.sleep(0.01)
        else:
            return
