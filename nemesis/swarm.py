"""Swarm: each seed draws which faults there are at all, and how often each comes.

A run that has everything in it all the time hides what only few faults bring out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .draws import stream_of

KINDS_MAX: Final = 5
_SLOWER: Final = (1.0, 1.5, 2.0, 3.0)


def draw_swarm(names: Sequence[str], seed: int) -> dict[str, float]:
    """Draw some of these nemeses, and by how much each comes more rarely than the interval says.

    Args:
        names: All that fit the run.
        seed: The same one draws the same ones from the same names.

    Returns:
        One to five names in their order, each with its factor, from 1 on.
    """
    stream = stream_of(seed, "swarm")
    count = stream.randint(1, min(KINDS_MAX, len(names)))
    chosen = set(stream.sample(list(names), count))
    return {name: stream.choice(_SLOWER) for name in names if name in chosen}
