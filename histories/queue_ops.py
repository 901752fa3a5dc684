"""Values of the operations of the workload `queue`: its clients write, its checker reads them."""

from __future__ import annotations

from typing import Final, Literal
from zlib import crc32

import msgspec

ENQUEUE: Final = "enqueue"
ENQUEUE_AGAIN: Final = "enqueue-again"
DEQUEUE: Final = "dequeue"
ACK_AGAIN: Final = "ack-again"

AckOutcome = Literal["acked", "noop", "rejected", "missing", "unknown"]
"""What became of one delivery's ack.

`acked`: carried out. `noop`: the broker said that it had been done before. `rejected`: certainly
not carried out. `missing`: the answer has no line for it. `unknown`: there was no answer.
"""

MAY_HOLD: Final[frozenset[AckOutcome]] = frozenset({"acked", "noop", "missing", "unknown"})
"""The outcomes after which the message may be settled."""
SETTLED: Final[frozenset[AckOutcome]] = frozenset({"acked", "noop"})
"""The outcomes after which the message is settled for certain."""


class Enqueue(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `enqueue`, and of `enqueue-again`, which sends the same message once more.

    Attributes:
        id: The message's id, unique in the run.
        partition: Where it goes.
        digest: Of its payload, see `digest_of`.
    """

    id: str
    partition: str
    digest: str


class Enqueued(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of either; `status` is `queued` or `duplicate`."""

    status: str
    offset: int | None


class Dequeue(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `dequeue`: one pop, then one ack of all that it delivered.

    Attributes:
        partition: The only partition to look at, or None.
        batch: Messages at most.
        wait_ms: How long the broker may wait for a message.
        lease_s: Lease of what is delivered.
        final: Whether it belongs to the final drain.
        hang_up_ms: After so long the client hangs up; None if it waits to the end. Such a pop that
            ended ok without deliveries was not answered, and the node knew so.
    """

    partition: str | None
    batch: int
    wait_ms: int
    lease_s: int
    final: bool = False
    hang_up_ms: int | None = None


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """One delivered message.

    Attributes:
        id: As the broker named it.
        partition: Where it came from.
        offset: Where it lies there.
        lease: Under which it was delivered.
        attempt: Its delivery attempt, as the broker counts.
        digest: Of the payload as it arrived.
        ack: What became of its ack.
    """

    id: str
    partition: str
    offset: int
    lease: str
    attempt: int
    digest: str
    ack: AckOutcome


class Dequeued(msgspec.Struct, frozen=True, kw_only=True):
    """Completion of `dequeue`: `ok`, or `info` where the ack had no answer.

    Attributes:
        popped_ns: CLOCK_MONOTONIC when the pop's answer was there.
        deliveries: In the order of the answer.
    """

    popped_ns: int
    deliveries: tuple[Delivery, ...]


class AckAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `ack-again`: an ack that was carried out, asked for a second time.

    Attributes:
        partition: Whose messages it settles.
        lease: The lease that it names.
        ids: The messages.
    """

    partition: str
    lease: str
    ids: tuple[str, ...]


class AckedAgain(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of `ack-again`: one outcome for each message."""

    acks: tuple[AckOutcome, ...]


def digest_of(payload: bytes) -> str:
    """Return eight hex digits for a payload's bytes (CRC-32)."""
    return f"{crc32(payload):08x}"
