"""What has changed since the last checkpoint, noted by whoever changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from .rows import PAYLOADS, placed

if TYPE_CHECKING:
    from .claims import Claim
    from .cursors import Cursor, Group
    from .message import Run
    from .partition import Partition
    from .queue import Queue
    from .replies import DeadLetter

K = TypeVar("K")
V = TypeVar("V")


class Dirty(Generic[K, V]):
    """Rows of one table that differ from the last checkpoint.

    What came and went in between leaves nothing, so that the notes of a machine whose changes
    nobody takes do not outgrow its state.
    """

    __slots__ = ("_changed", "_fresh")

    def __init__(self) -> None:
        self._changed: dict[K, V | None] = {}
        self._fresh: set[K] = set()

    def add(self, key: K, value: V) -> None:
        """A row that the table did not have."""
        if key not in self._changed:
            self._fresh.add(key)
        self._changed[key] = value

    def change(self, key: K, value: V) -> None:
        """A row that the table has."""
        self._changed[key] = value

    def drop(self, key: K) -> None:
        """A row that the table no longer has."""
        if key in self._fresh:
            self._fresh.remove(key)
            del self._changed[key]
        else:
            self._changed[key] = None

    def is_fresh(self, key: K) -> bool:
        """Whether no checkpoint has this row yet."""
        return key in self._fresh

    def take(self) -> dict[K, V | None]:
        """All of it, and begin anew."""
        changed, self._changed = self._changed, {}
        self._fresh.clear()
        return changed


class Changes:
    """Notes about the objects that refer to each other; other tables keep their own.

    Attributes:
        queues: By number.
        groups: By number.
        partitions: By number. What an append changes is in the run's row, not here.
        cursors: By number.
        runs: By partition number and first offset.
        lost_payloads: Keys of payload rows that are to go; some may not be there.
        claims: By number.
        letters: Dead letters, by their ids.
    """

    __slots__ = (
        "claims",
        "cursors",
        "groups",
        "letters",
        "lost_payloads",
        "partitions",
        "queues",
        "runs",
    )

    def __init__(self) -> None:
        self.queues: Dirty[int, Queue] = Dirty()
        self.groups: Dirty[int, Group] = Dirty()
        self.partitions: Dirty[int, Partition] = Dirty()
        self.cursors: Dirty[int, Cursor] = Dirty()
        self.runs: Dirty[tuple[int, int], Run] = Dirty()
        self.lost_payloads: set[bytes] = set()
        self.claims: Dirty[int, Claim] = Dirty()
        self.letters: Dirty[str, DeadLetter] = Dirty()

    def departed(self, partition: Partition, run: Run) -> None:
        """A run has left the log; its transaction ids are still known."""
        place = (partition.number, run.first)
        if not self.runs.is_fresh(place):
            self.lost_payloads.add(placed(PAYLOADS, *place))

    def forgotten(self, partition: Partition, run: Run) -> None:
        """A run is no longer known at all."""
        self.runs.drop((partition.number, run.first))

    def take_lost_payloads(self) -> set[bytes]:
        """All of them, and begin anew."""
        lost, self.lost_payloads = self.lost_payloads, set()
        return lost
