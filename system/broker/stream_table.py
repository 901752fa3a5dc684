"""The state of streaming queries: rows for each query and source partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING

import msgspec

from .changes import Dirty
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
    """All queries and their rows.

    Attributes:
        queries_changed: By query id.
        rows_changed: By query id, partition id and key.
    """

    __slots__ = ("_names", "_queries", "_rows", "queries_changed", "rows_changed")

    def __init__(self) -> None:
        self.queries_changed: Dirty[str, StreamQuery] = Dirty()
        self.rows_changed: Dirty[tuple[str, str, str], StreamRow] = Dirty()
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
        query = StreamQuery(query_id, name, config_hash)
        self.put_query(query)
        self.queries_changed.change(query_id, query)

    def put_query(self, query: StreamQuery) -> None:
        """Take a query in."""
        self._names[query.name] = query
        self._queries.add(query.query_id)

    def put_row(self, query_id: str, partition_id: str, row: StreamRow) -> None:
        """Take a row in."""
        self._rows.setdefault((query_id, partition_id), {})[row.key] = row

    def wipe(self, query_id: str) -> None:
        """Drop a query's rows. Cost: all partitions with rows."""
        for place in [place for place in self._rows if place[0] == query_id]:
            for key in self._rows.pop(place):
                self.rows_changed.drop((*place, key))

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
            place = (query_id, partition_id, operation.key)
            if operation.value is None:
                if rows.pop(operation.key, None) is not None:
                    self.rows_changed.drop(place)
                continue
            row = StreamRow(operation.key, operation.value, now_us)
            if operation.key in rows:
                self.rows_changed.change(place, row)
            else:
                self.rows_changed.add(place, row)
            rows[operation.key] = row
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
        rows = [
            [*place, [rows[key] for key in sorted(rows)]]
            for place, rows in sorted(self._rows.items(), key=itemgetter(0))
        ]
        return [sorted(self._names.values(), key=attrgetter("query_id")), rows]


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
