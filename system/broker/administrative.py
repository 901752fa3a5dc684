"""Commands of operators: consumer groups, dead letters, traces."""

from __future__ import annotations

import msgspec


class DeleteGroup(msgspec.Struct, array_like=True, frozen=True, tag="delete-group"):
    """Remove a group's cursors, so that its next pop is a first contact again.

    Attributes:
        request_id: A repeat gets its first answer.
        group: The group.
        queue: Only in this queue; None means everywhere.
        forgets: Whether the registration goes too; otherwise its instant still decides where the
            new cursors begin.
    """

    request_id: str
    group: str
    queue: str | None = None
    forgets: bool = True


class SeekGroup(msgspec.Struct, array_like=True, frozen=True, tag="seek-group"):
    """Move a group's cursors and void its leases. A repeat gets its first answer.

    Attributes:
        request_id: See above.
        group: Made when absent.
        queue: Its queue.
        since_us: To the first message created at or after this instant; None means the end.
        partition: Only this one; None means all.
    """

    request_id: str
    group: str
    queue: str
    since_us: int | None = None
    partition: str | None = None


class Resubscribe(msgspec.Struct, array_like=True, frozen=True, tag="resubscribe"):
    """Change a group's subscription instant; moves only cursors that delivered nothing yet."""

    request_id: str
    group: str
    since_us: int


class ReplayDeadLetter(msgspec.Struct, array_like=True, frozen=True, tag="replay-dead-letter"):
    """Push a dead letter's message again, behind all others, and remove the dead letter.

    Attributes:
        request_id: A repeat gets its first answer.
        dead_letter_id: Which; empty means the newest one at the address below.
        partition_id: Of the address.
        transaction_id: Of the address.
        queue: Where to push it instead of its own queue.
        partition: Where to push it instead of its own partition.
    """

    request_id: str
    dead_letter_id: str
    partition_id: str = ""
    transaction_id: str = ""
    queue: str | None = None
    partition: str | None = None


class PurgeDeadLetters(msgspec.Struct, array_like=True, frozen=True, tag="purge-dead-letters"):
    """Remove a queue's dead letters, of one group if one is named."""

    request_id: str
    queue: str
    group: str | None = None


class AddTrace(msgspec.Struct, array_like=True, frozen=True, tag="add-trace"):
    """Note what a consumer says about a message. A repeat gets its first answer.

    Attributes:
        request_id: See above.
        partition_id: Of the message.
        transaction_id: Of the message.
        group: The consumer's.
        names: Under which it is found.
        event: What happened.
        data: JSON bytes.
    """

    request_id: str
    partition_id: str
    transaction_id: str
    group: str
    names: tuple[str, ...]
    event: str
    data: bytes
