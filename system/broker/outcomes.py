"""First answers by request id, for commands that nothing else makes idempotent."""

from __future__ import annotations

from collections import deque
from typing import Final, TypeVar

from .replies import Reply

OUTCOME_US: Final = 600 * 1_000_000
"""How long a first answer is kept, in stamped time."""

SomeReply = TypeVar("SomeReply", bound=Reply)


class Outcomes:
    """Remembered replies; each leaves 600 stamped seconds after it was given."""

    __slots__ = ("_order", "_replies")

    def __init__(self) -> None:
        self._replies: dict[tuple[str, str], Reply] = {}
        self._order: deque[tuple[int, str, str]] = deque()

    def first(self, kind: str, request_id: str) -> Reply | None:
        """The first answer to this request of this kind of command."""
        return self._replies.get((kind, request_id)) if request_id else None

    def remember(self, kind: str, request_id: str, reply: Reply, now_us: int) -> None:
        """Keep a first answer."""
        if request_id:
            self._replies[kind, request_id] = reply
            self._order.append((now_us, kind, request_id))

    def forget(self, now_us: int) -> None:
        """Drop what is too old."""
        order = self._order
        while order and order[0][0] + OUTCOME_US <= now_us:
            _, kind, request_id = order.popleft()
            del self._replies[kind, request_id]

    def items(self) -> list[tuple[tuple[str, str], Reply]]:
        """All of them, oldest first."""
        return list(self._replies.items())
