"""Randomness that one entity's draws never share with another's."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from random import Random
from typing import TypeVar

_Item = TypeVar("_Item")


class Stream:
    """A random stream of its own for each (seed, entity).

    Taking one entity out of a run leaves all other draws as they were, which is what makes a
    failing schedule shrink. Only `Random.random` is used: its sequence is fixed across Python
    versions and platforms.
    """

    __slots__ = ("random",)

    def __init__(self, seed: int, entity: str) -> None:
        digest = blake2b(f"{seed}/{entity}".encode(), digest_size=16).digest()
        self.random = Random(int.from_bytes(digest, "big")).random

    def between(self, low: int, high: int) -> int:
        """Return an integer from `low` to `high`, both included."""
        return low + int(self.random() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """Return True with the given probability."""
        return self.random() < probability

    def pick(self, items: Sequence[_Item]) -> _Item:
        """Return one of the items, each as likely."""
        return items[int(self.random() * len(items))]
