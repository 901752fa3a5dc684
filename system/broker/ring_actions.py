"""What clients ask of ephemeral queues; the node that leads carries it out in its memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PushRing:
    """Add messages (JSON bytes), all or none."""

    queue: str
    partition: str
    payloads: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class PopRing:
    """Take messages.

    Attributes:
        queue: Made when absent.
        partition: The only one to look at, or None.
        group: Empty for queue mode.
        batch: At most so many messages.
        is_final: Settled at delivery.
    """

    queue: str
    partition: str | None
    group: str
    batch: int
    is_final: bool


@dataclass(frozen=True, slots=True)
class AckRing:
    """Settle messages: (id, whether it is done) each."""

    queue: str
    group: str
    acks: tuple[tuple[str, bool], ...]


@dataclass(frozen=True, slots=True)
class ResetRing:
    """Drop what a queue holds."""

    queue: str


@dataclass(frozen=True, slots=True)
class DeleteRing:
    """Drop what a queue holds, and its declaration."""

    request_id: str
    queue: str


@dataclass(frozen=True, slots=True)
class ListRings:
    """All queues and their gauges."""


@dataclass(frozen=True, slots=True)
class RingDepth:
    """One queue and its gauges, as one group sees it; None means the slowest."""

    queue: str
    group: str | None


RingAction = PushRing | PopRing | AckRing | ResetRing | DeleteRing | ListRings | RingDepth
