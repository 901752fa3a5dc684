"""Values of the operations of the workload `log`: what its clients write and its checker reads.

A *key* is one partition, an append-only list of *values* that count up from 0. Keys alternate
between two queues.
"""

from __future__ import annotations

from typing import Final

import msgspec

SEND: Final = "send"
SEND_AGAIN: Final = "send-again"
POLL: Final = "poll"
ASSIGN: Final = "assign"
CRASH: Final = "crash"
FINAL_READ: Final = "final-read"


class SentRecord(msgspec.Struct, frozen=True, array_like=True):
    """`[key, value]`."""

    key: int
    value: int


class Send(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `send`, and of `send-again`, which sends the same records once more.

    Attributes:
        records: What to append, in this order.
        txn: Whether they are one transaction, of one to four records; else it is one record.
    """

    records: tuple[SentRecord, ...]
    txn: bool = False


class Sent(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of either.

    Attributes:
        offsets: One for each record; empty for a transaction, whose answer has none.
        duplicates: Records of which the broker said that it had them already.
    """

    offsets: tuple[int, ...] = ()
    duplicates: int = 0


class Poll(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation of `poll`: one fetch of all assigned keys from the client's own positions.

    Attributes:
        positions: `[key, offset]`, the first offset that the client has not read.
        wait_ms: How long the node may wait for a record.
        final: Whether it belongs to the final reads.
    """

    positions: tuple[tuple[int, int], ...]
    wait_ms: int
    final: bool = False


class ReadRecord(msgspec.Struct, frozen=True, array_like=True):
    """`[offset, id, key, value]`; key and value come from the payload, None if it has none."""

    offset: int
    id: str
    key: int | None
    value: int | None


class ReadEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one key's partition answered.

    Attributes:
        key: The key.
        start: The offset that was asked for.
        hwm: The high watermark: the offset that the next record will get.
        records: From `start` on.
        error: The broker's word for why there is nothing.
    """

    key: int
    start: int
    hwm: int
    records: tuple[ReadRecord, ...] = ()
    error: str = ""


class Polled(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of `poll`: one entry for each key that was asked for."""

    entries: tuple[ReadEntry, ...]


class Assigned(msgspec.Struct, frozen=True, kw_only=True):
    """Invocation and completion of `assign`: the keys that the client polls from now on.

    Attributes:
        keys: Its positions in keys that it knew before stay; in new ones it begins at 0.
        final: Whether it begins the final reads of a node.
    """

    keys: tuple[int, ...]
    final: bool = False


class FinalRead(msgspec.Struct, frozen=True, kw_only=True):
    """Completion `ok` of `final-read`: this node's records were read up to their end.

    Attributes:
        records: How many were read.
        missing: Acknowledged records that were not among them.
    """

    records: int
    missing: int


def record_id(key: int, value: int) -> str:
    """Return the id of the message that carries a value of a key."""
    return f"k{key}-{value}"
