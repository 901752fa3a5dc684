"""Ids derived from a batch's stamp, its seed and a counter: the same on every replica."""

from __future__ import annotations

from typing import Final

_SEQUENCE_BITS: Final = 32
_SEED_BITS: Final = 30
_LOW_BITS: Final = 48 - _SEED_BITS
_LOW_MASK: Final = (1 << _LOW_BITS) - 1
_SEED_MASK: Final = (1 << _SEED_BITS) - 1


class Mint:
    """Makes the UUIDv7s of one batch, in increasing order.

    Layout: 48 bits of milliseconds and 12 bits of the microsecond inside it (both of the stamp),
    then a 32-bit counter inside the batch and 30 bits of the leader's entropy. Stamps of batches
    increase strictly, so ids increase over the whole log and never repeat.

    A *mark* is the part that the stamp does not say: the counter above the seed. Marks of ids
    minted one after the other differ by `MARK_STEP`.
    """

    __slots__ = ("_next", "_now_us", "_prefix", "_seed")

    def __init__(self, now_us: int, seed: bytes) -> None:
        self._now_us = now_us
        self._prefix = ""
        self._seed = int.from_bytes(seed, "big") & _SEED_MASK
        self._next = 0

    def new_id(self) -> str:
        """Return the next id. Cost: about half a microsecond."""
        sequence = self._next
        assert sequence < 1 << _SEQUENCE_BITS, f"a batch mints at most 2^32 ids, asked {sequence}"
        self._next = sequence + 1
        if not self._prefix:
            self._prefix = _prefix(self._now_us)
        low = (sequence & _LOW_MASK) << _SEED_BITS | self._seed
        return f"{self._prefix}{0x8000 | sequence >> _LOW_BITS:04x}-{low:012x}"

    def new_ids(self, count: int) -> list[str]:
        """The next so many ids."""
        mark = self.next_mark
        self._next += count
        return marked_ids(self._now_us, mark, count)

    @property
    def next_mark(self) -> int:
        """The mark of the id that `new_id` would return."""
        return self._next << _SEED_BITS | self._seed


MARK_STEP: Final = 1 << _SEED_BITS


def marked_id(stamp_us: int, mark: int) -> str:
    """The id of a mark in the batch with this stamp."""
    return marked_ids(stamp_us, mark, 1)[0]


def marked_ids(stamp_us: int, mark: int, count: int) -> list[str]:
    """So many ids minted one after the other, from a mark on."""
    prefix, seed, first = _prefix(stamp_us), mark & _SEED_MASK, mark >> _SEED_BITS
    return [
        f"{prefix}{0x8000 | sequence >> _LOW_BITS:04x}-"
        f"{(sequence & _LOW_MASK) << _SEED_BITS | seed:012x}"
        for sequence in range(first, first + count)
    ]


def _prefix(now_us: int) -> str:
    high = f"{now_us // 1000 << 16 | 0x7000 | now_us % 1000 << 2:016x}"
    return f"{high[:8]}-{high[8:12]}-{high[12:]}-"
