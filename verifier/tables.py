"""Tables in plain text, and those of what the faults of a run hit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..checkers.verdict import Json

HITS: Final = "fault_hits"
JOBS: Final = "fault_coverage"
COVERAGE: Final = (HITS, JOBS)
"""Keys of a verdict's strength that are told as tables."""


def table(head: Sequence[str], rows: Sequence[Sequence[str]], sides: str) -> Iterator[str]:
    """Yield the lines of a table; `sides` holds `<` or `>` a column."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    for row in (head, ["-" * width for width in widths], *rows):
        cells = zip(row, sides, widths, strict=True)
        yield "  ".join(f"{cell:{side}{width}}" for cell, side, width in cells).rstrip()


def coverage_lines(strength: Mapping[str, Json]) -> Iterator[str]:
    """Yield what the faults hit: processes by kind, role and state; jobs by kind and state."""
    processes = [
        (kind, role, state, str(count))
        for kind, roles in _pairs(strength.get(HITS))
        for role, states in _pairs(roles)
        for state, count in _pairs(states)
    ]
    if processes:
        yield ""
        yield from table(("fault", "role hit", "state", "times"), processes, "<<<>")
    by_kind = [(kind, dict(_pairs(states))) for kind, states in _pairs(strength.get(JOBS))]
    names = list(dict.fromkeys(name for _, states in by_kind for name in states))
    if names:
        rows = [(kind, *(str(states.get(name, 0)) for name in names)) for kind, states in by_kind]
        yield ""
        yield from table(("jobs hit while", *names), rows, "<" + ">" * len(names))


def _pairs(value: Json) -> list[tuple[str, Json]]:
    return list(value.items()) if isinstance(value, dict) else []
