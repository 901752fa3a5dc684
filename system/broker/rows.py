"""Rows: the machine's state as key/value pairs, for checkpoints and snapshots.

Each object of the state is one row: a key of one letter, a slash and the object's number or hash,
and a msgpack array. In key order an object comes behind everything that it refers to. Fields are
added at the end of an array, with a default; what an older program could not even ignore raises
`ROWS_VERSION`. Payloads have rows of their own, which a restore never looks at.
"""

from __future__ import annotations

import hashlib
from struct import Struct
from typing import Final, Protocol

Row = tuple[bytes, bytes | None]
"""Key and value; None deletes the key, which need not be there."""

ROWS_VERSION: Final = 1

COUNTERS: Final = b"a/"
QUEUES: Final = b"b/"
GROUPS: Final = b"c/"
PARTITIONS: Final = b"d/"
CURSORS: Final = b"e/"
RUNS: Final = b"f/"
CLAIMS: Final = b"g/"
DEAD_LETTERS: Final = b"h/"
COMPLETIONS: Final = b"i/"
TIMERS: Final = b"j/"
KV: Final = b"k/"
TRACES: Final = b"l/"
PAYLOADS: Final = b"m/"
STREAM_QUERIES: Final = b"n/"
STREAM_ROWS: Final = b"o/"
OUTCOMES: Final = b"p/"
RINGS: Final = b"q/"
NOTES: Final = b"r/"

PAYLOAD_PREFIX: Final = PAYLOADS

_NUMBER: Final = Struct(">2sQ").pack
_PLACE: Final = Struct(">2sQQ").pack
_NUMBERS: Final = Struct(">Q").unpack_from
_PLACES: Final = Struct(">QQ").unpack_from


class MessageStore(Protocol):
    """Where payloads are once a checkpoint carries them."""

    def read(self, key: bytes) -> bytes:
        """The value of a payload row, as last committed.

        Raises:
            KeyError: There is no such row.
        """
        ...


class DamagedRowError(ValueError):
    """A row that no state can be rebuilt from.

    Attributes:
        key: Of the row.
        reason: What is wrong with it.
    """

    def __init__(self, key: bytes, reason: str) -> None:
        super().__init__(f"row {key!r}: {reason}")
        self.key = key
        self.reason = reason


def numbered(table: bytes, number: int) -> bytes:
    """Key of a row that a rising number names."""
    return _NUMBER(table, number)


def number_of(key: bytes) -> int:
    """The number in such a key."""
    (number,) = _NUMBERS(key, 2)
    assert isinstance(number, int)
    return number


def placed(table: bytes, partition: int, offset: int) -> bytes:
    """Key of a row that belongs to an offset of a partition."""
    return _PLACE(table, partition, offset)


def place_of(key: bytes) -> tuple[int, int]:
    """Partition number and offset in such a key."""
    partition, offset = _PLACES(key, 2)
    return partition, offset


def hashed(table: bytes, *names: str) -> bytes:
    """Key of a row that texts name: 128 bits of BLAKE2b, for names may be longer than keys."""
    text = "\x00".join(f"{len(name)}:{name}" for name in names)
    return table + hashlib.blake2b(text.encode(), digest_size=16).digest()


def named(table: bytes, name: str) -> bytes:
    """Key of a row that a minted id names; such keys sort as the ids were minted."""
    return table + name.encode()
