"""The state of streaming queries: rows for each query and source partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from .stream_replies import StreamRow

if TYPE_CHECKING:
    from .commands import StateOperation
    from .queries import StreamStateGet


class StreamQuery(msgspec.Struct, frozen=True):
    """A registered query."""

    query_id: str
    name: str
    config_hash: str


class StreamTable:
    """All queries and their rows."""

    __slots__ = ("_names", "_queries", "_rows")

    def __init__(self) -> None:
        self._names: dict[str, StreamQuery] = {}
        self._queries: set[str] = set()
        self._rows: dict[tuple[str, str], dict[str, StreamRow]] = {}

    def by_name(self, name: str) -> StreamQuery | None:
        """The query of a name."""
        return self._names.get(name)

    def knows(self, query_id: str) -> bool:
        """Whether a query has this id."""
        return query_id in self._queries

    def register(self, query_id: str, name: str, config_hash: str) -> None:
        """Name a query."""
        self._names[name] = StreamQuery(query_id, name, config_hash)
        self._queries.add(query_id)

    def wipe(self, query_id: str) -> None:
        """Drop a query's rows. Cost: all partitions with rows."""
        for place in [place for place in self._rows if place[0] == query_id]:
            del self._rows[place]

    def change(
        self,
        query_id: str,
        partition_id: str,
        operations: Sequence[StateOperation],
        now_us: int,
    ) -> None:
        """Put and remove rows in order."""
        rows = self._rows.setdefault((query_id, partition_id), {})
        for operation in operations:
            if operation.value is None:
                rows.pop(operation.key, None)
            else:
                rows[operation.key] = StreamRow(operation.key, operation.value, now_us)
        if not rows:
            del self._rows[query_id, partition_id]

    def rows_of(self, query: StreamStateGet) -> Iterator[StreamRow]:
        """The rows that a question means, in key order."""
        rows = self._rows.get((query.query_id, query.partition_id), {})
        for key in sorted(query.keys or rows):
            row = rows.get(key)
            if row is None or not key.startswith(query.prefix):
                continue
            if query.ripe_at is None or _is_ripe(row.value, query.ripe_at):
                yield row

    def summary(self) -> list[object]:
        """Everything as plain values, for digests."""
        rows = [[*place, list(self._rows[place].values())] for place in sorted(self._rows)]
        return [list(self._names.values()), rows]


def _is_ripe(value: bytes, ripe_at: float) -> bool:
    try:
        decoded: object = msgspec.json.decode(value)
    except (msgspec.MsgspecError, RecursionError):
        # Valid JSON all the same: a number out of range, or nested too deep to look at.
        return False
    end = decoded.get("windowEnd") if isinstance(decoded, dict) else None
    if isinstance(end, bool) or not isinstance(end, int | float):
        return False
    return end <= ripe_at
