"""Ephemeral queues: what may be declared of one, and the commands that do.

Only declarations are replicated; the messages live in the memory of one node (see `rings`).
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

RING_BYTES_MAX: Final = 16 << 20
RING_LENGTH_MAX: Final = 10_000
LEASE_S: Final = 30
RETRY_LIMIT: Final = 5
WINDOW_MS_MAX: Final = 60_000


class Window(msgspec.Struct, array_like=True, frozen=True):
    """Let a waiting pop that finds fewer than `count` messages wait `ms` longer for more."""

    ms: int = 0
    count: int = 0


class RingOptions(msgspec.Struct, array_like=True, frozen=True):
    """The bounds of one ephemeral queue; a declaration names some of them.

    Attributes:
        max_bytes: Of all payloads of the queue.
        max_length: Messages in the queue.
        policy: What a push does that would exceed a bound: be refused, or drop the oldest.
        ttl_s: Messages go when they are older, read or not; 0 means never.
        lease_s: How long a delivered message may stay unsettled.
        retry_limit: Deliveries again before a message is dropped for its group.
        window: See `Window`.
    """

    max_bytes: int = RING_BYTES_MAX
    max_length: int = RING_LENGTH_MAX
    policy: Literal["reject", "dropOldest"] = "reject"
    ttl_s: int = 0
    lease_s: int = LEASE_S
    retry_limit: int = RETRY_LIMIT
    window: Window = Window()

    @property
    def in_force(self) -> RingOptions:
        """The same, within the broker's own limits."""
        return msgspec.structs.replace(
            self,
            max_bytes=min(self.max_bytes or RING_BYTES_MAX, RING_BYTES_MAX),
            max_length=min(self.max_length or RING_LENGTH_MAX, RING_LENGTH_MAX),
            lease_s=max(1, self.lease_s),
        )


class DeclareRing(msgspec.Struct, array_like=True, frozen=True, tag="declare-ring"):
    """Declare an ephemeral queue, or declare it anew; a repeat changes nothing.

    Attributes:
        queue: Its name.
        options: What it is to be.
        given: The options as the client wrote them, JSON, to be echoed.
    """

    queue: str
    options: RingOptions
    given: bytes


class RemoveRing(msgspec.Struct, array_like=True, frozen=True, tag="remove-ring"):
    """Forget a declaration. A repeat gets its first answer."""

    request_id: str
    queue: str


class RingDeclared(msgspec.Struct, frozen=True):
    """What was declared."""

    queue: str
    given: bytes


class RingRemoved(msgspec.Struct, frozen=True):
    """Whether there was a declaration."""

    queue: str
    was_declared: bool
