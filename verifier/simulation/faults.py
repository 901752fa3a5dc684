"""Faults of a run, and how a seed becomes a schedule of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from .knobs import Knobs
from .streams import Stream

LEADER: Final = -1
"""As a target: whoever leads when the fault begins."""

KINDS: Final[dict[str, str]] = {
    "isolate": "cut every link of the target",
    "deafen": "the target hears nobody, but is heard",
    "mute": "nobody hears the target, but it hears",
    "split": "cut the links between the nodes in the bit mask `target` and the others",
    "bounce": "crash the target, restart it after the duration",
    "snipe": "crash the target on its next un-synced write; level 1: just after it became "
    "durable; level 2: only on a write of a term or vote",
    "power": "crash all nodes, restart each within the duration",
    "pause": "stop the target's process, continue it after the duration",
    "slow-disk": "syncs of the target take up to `level` ms",
    "noise": "lose, double and delay messages, up to 2.5 s; level 1 to 3",
    "transfer": "ask the target to hand its leadership over",
    "kill-chain": "crash the leader, then each new one in the duration, within `level` ms",
    "wipe": "crash the target and take its disk away, restart it empty after the duration",
}


class Fault(msgspec.Struct, frozen=True, array_like=True):
    """One fault; it begins at an absolute time and ends itself, so faults can be left out freely.

    Attributes:
        at_us: When it begins.
        kind: One of `KINDS`.
        target: A node's number, `LEADER`, or a bit mask of nodes for a split.
        duration_us: How long it lasts.
        level: Its strength; the meaning depends on the kind.
    """

    at_us: int
    kind: str
    target: int
    duration_us: int
    level: int = 0


def random_schedule(
    stream: Stream, knobs: Knobs, kinds: Sequence[str] = (), density: int = 5
) -> tuple[Fault, ...]:
    """Draw a run's faults.

    Each run gets its own small set of kinds (a swarm), so that it survives long enough for each
    of them to matter; the fleet of runs covers all.

    Args:
        stream: Where to draw from.
        knobs: The run they are for.
        kinds: Draw from these kinds only, all of them; by default a random set of all kinds.
        density: Faults of one kind at the most.
    """
    chosen = list(kinds) or [kind for kind in KINDS if stream.chance(0.35)]
    if not chosen:
        chosen = [stream.pick(tuple(KINDS))]
    faults = [
        _random_fault(stream, knobs, kind)
        for kind in chosen
        for _ in range(stream.between(1, density))
    ]
    return tuple(sorted(faults, key=lambda fault: (fault.at_us, fault.kind, fault.target)))


def _random_fault(stream: Stream, knobs: Knobs, kind: str) -> Fault:
    at_us = stream.between(100_000, knobs.length_us - 500_000)
    target = LEADER if stream.chance(0.5) else stream.between(0, knobs.nodes - 1)
    duration_us = stream.between(20_000, 2_000_000)
    level = 0
    if kind == "split":
        target = stream.between(1, 2**knobs.nodes - 2)
    elif kind == "snipe":
        level = stream.between(0, 2)
        duration_us = stream.between(1_000, 800_000)
    elif kind in ("bounce", "wipe"):
        duration_us = stream.between(1_000, 1_500_000)
    elif kind == "power":
        target = LEADER
        duration_us = stream.between(1_000, 1_000_000)
    elif kind == "slow-disk":
        level = stream.pick((30, 200, 1_500))
    elif kind == "noise":
        target = LEADER
        level = stream.between(1, 3)
        duration_us = stream.between(200_000, 4_000_000)
    elif kind == "transfer":
        target = LEADER
        duration_us = 0
    elif kind == "kill-chain":
        target = LEADER
        level = stream.pick((0, 2, 4, 20, 100))
        duration_us = stream.between(500_000, 4_000_000)
    return Fault(at_us, kind, target, duration_us, level)
