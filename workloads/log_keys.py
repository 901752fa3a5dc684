"""Which keys the workload `log` writes: a few at a time, each to a fixed length."""

from __future__ import annotations

import random
from typing import Final

import msgspec

from ..histories.log_ops import SentRecord

ACTIVE: Final = 12
WRITES_PER_KEY: Final = 256
QUEUES: Final = ("log-even", "log-odd")


class Keys:
    """Hands out what to write next: the next value of a key, until that key retires.

    Attributes:
        active: Keys that are written now.
        made: How many keys there have been; they are numbered from 0.
    """

    def __init__(self, active: int = ACTIVE, writes: int = WRITES_PER_KEY) -> None:
        self.active = list(range(active))
        self.made = active
        self._writes = writes
        self._next: dict[int, int] = {}

    def take(self, stream: random.Random) -> SentRecord:
        """Return a random active key's next value; a key that is full gives way to a new one."""
        place = stream.randrange(len(self.active))
        key = self.active[place]
        value = self._next.get(key, 0)
        self._next[key] = value + 1
        if value + 1 == self._writes:
            self.active[place] = self.made
            self.made += 1
        return SentRecord(key, value)

    def some(self, stream: random.Random) -> tuple[int, ...]:
        """Return a random choice of active keys, at least one."""
        chosen = stream.sample(self.active, stream.randint(1, len(self.active)))
        return tuple(sorted(chosen))

    def every(self) -> tuple[int, ...]:
        """Return all keys that there have been."""
        return tuple(range(self.made))


def queue_of(key: int) -> str:
    """Return the queue that holds a key."""
    return QUEUES[key % 2]


def partition_of(key: int) -> str:
    """Return the partition that is a key."""
    return f"k{key}"


class _Payload(msgspec.Struct):
    k: int
    v: int


def payload_of(record: SentRecord) -> bytes:
    """Return the JSON that carries a value of a key."""
    return msgspec.json.encode(_Payload(record.key, record.value))


def read_payload(payload: bytes) -> tuple[int | None, int | None]:
    """Return the key and the value in a payload; None for both if it carries none."""
    try:
        read = msgspec.json.decode(payload, type=_Payload)
    except msgspec.MsgspecError:
        return None, None
    return read.k, read.v
