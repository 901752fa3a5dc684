"""First answers by request id, for commands that nothing else makes idempotent."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple, TypeVar

from .changes import Dirty
from .replies import Reply

OUTCOME_US: Final = 600 * 1_000_000
"""How long a first answer is kept, in stamped time."""

SomeReply = TypeVar("SomeReply", bound=Reply)


class Outcome(NamedTuple):
    """One remembered reply."""

    now_us: int
    kind: str
    request_id: str
    reply: Reply


class Outcomes:
    """Remembered replies; each leaves 600 stamped seconds after it was given.

    Attributes:
        changed: By a rising number that only orders them.
    """

    __slots__ = ("_last", "_order", "_replies", "changed")

    def __init__(self) -> None:
        self._last = 0
        self._replies: dict[tuple[str, str], Reply] = {}
        self._order: deque[tuple[int, int, str, str]] = deque()
        self.changed: Dirty[int, Outcome] = Dirty()

    def first(self, kind: str, request_id: str) -> Reply | None:
        """The first answer to this request of this kind of command."""
        return self._replies.get((kind, request_id)) if request_id else None

    def remember(self, kind: str, request_id: str, reply: Reply, now_us: int) -> None:
        """Keep a first answer."""
        if request_id:
            outcome = Outcome(now_us, kind, request_id, reply)
            self.put(self._last + 1, outcome)
            self.changed.add(self._last, outcome)

    def put(self, number: int, outcome: Outcome) -> None:
        """Keep an outcome behind all others."""
        assert number > self._last, f"outcome {number} behind {self._last}"
        self._last = number
        self._replies[outcome.kind, outcome.request_id] = outcome.reply
        self._order.append((number, outcome.now_us, outcome.kind, outcome.request_id))

    def forget(self, now_us: int) -> None:
        """Drop what is too old."""
        order = self._order
        while order and order[0][1] + OUTCOME_US <= now_us:
            number, _, kind, request_id = order.popleft()
            self.changed.drop(number)
            del self._replies[kind, request_id]

    def items(self) -> list[tuple[tuple[str, str], Reply]]:
        """All of them, oldest first."""
        return list(self._replies.items())
