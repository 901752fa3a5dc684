"""What only planted defects do to the state."""

from __future__ import annotations

import msgspec

from .lease import Position
from .message import Message


def without_payload(message: Message) -> Message:
    """A dead letter's message under `dead-letter-without-payload`."""
    return msgspec.structs.replace(message, payload=b"null")


def without_memory(position: Position) -> Position:
    """A new leader's position under `ack-forgotten-on-failover`: no released lease is known."""
    return msgspec.structs.replace(position, released=None)
