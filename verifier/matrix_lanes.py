"""Lanes as part of a matrix: each is run with its own fault, in each of its profiles."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from ..nemesis.packages import PACKAGES
from ..nemesis.registry import NEMESES, NONE
from ..workloads.lanes.lane import PROFILES, Lane
from ..workloads.lanes.registry import LANES
from .matrix import Cell, Result
from .tables import table

LANES_WORKLOAD: Final = "lanes"
"""What stands for all lanes where a matrix names workloads."""

_NONE: Final = "-"


def kinds_of(lane: Lane) -> tuple[str, ...]:
    """Name the nemeses that a lane brings; `none` alone if its jobs are all that breaks."""
    kinds = [fault.kind for fault in (lane.fault, lane.also) if fault is not None]
    return tuple(dict.fromkeys(kinds)) or (NONE,)


def lane_cells(
    nemeses: Collection[str], seeds: Iterable[int], levels: Sequence[frozenset[str]]
) -> Iterator[Cell]:
    """Yield every lane in each of its profiles, seed by seed.

    Args:
        nemeses: Those lanes alone whose own fault is among these nemeses and packages.
        seeds: Of each lane.
        levels: The powers of each level that a run may choose.
    """
    wanted = {kind for name in nemeses for kind in PACKAGES.get(name, (name,))}
    for seed, lane, profile in itertools.product(seeds, LANES.values(), PROFILES):
        kinds = kinds_of(lane)
        needs = frozenset[str]().union(*(NEMESES[kind].needs for kind in kinds))
        if profile in lane.not_in or wanted.isdisjoint(kinds):
            continue
        if any(needs <= powers for powers in levels):
            yield Cell(LANES_WORKLOAD, ",".join(kinds), seed, lane=lane.name, profile=profile)


def lane_table(results: Sequence[Result]) -> Iterator[str]:
    """Yield a table: a line for each lane with its fault, a column for each profile."""
    found: dict[tuple[str, str], list[str]] = {}
    for result in results:
        found.setdefault((result.cell.lane, result.cell.profile), []).append(result.word)
    profiles = [name for name in PROFILES if any(name == profile for _, profile in found)]
    faults = {result.cell.lane: result.cell.nemesis for result in results}
    rows = [
        (lane, fault, *(words(found.get((lane, profile), ())) for profile in profiles))
        for lane, fault in faults.items()
    ]
    yield from table(("lane", "its fault", *profiles), rows, "<" * (2 + len(profiles)))


def words(found: Sequence[str]) -> str:
    """All verdicts of a field: the word alone if it is one run, else each word with its number."""
    if len(found) < 2:
        return found[0] if found else _NONE
    return ", ".join(f"{found.count(word)} {word}" for word in dict.fromkeys(sorted(found)))
