"""Counting voters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..bugs import NO_BUGS, Bugs

_MINORITY: Final = 1


def quorum_size(voters: int, bugs: Bugs = NO_BUGS) -> int:
    """Return how many of `voters` make a majority."""
    if "quorum-off-by-one" in bugs:
        return max(1, voters // 2)
    return voters // 2 + 1


def commit_quorum_size(voters: int, bugs: Bugs = NO_BUGS) -> int:
    """Return how many copies commit an entry, and how many voters a leader must hear from."""
    if "commit-by-minority" in bugs:
        return _MINORITY
    return quorum_size(voters, bugs)


def reached_by_quorum(values: Iterable[int], quorum: int) -> int:
    """Return the greatest value that at least `quorum` of the values reach."""
    return sorted(values, reverse=True)[quorum - 1]
