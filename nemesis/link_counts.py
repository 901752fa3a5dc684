"""Sums and differences of what happened on a link."""

from __future__ import annotations

from typing import Final

import msgspec

from .links import LinkCounts

_FIELDS: Final = LinkCounts.__struct_fields__


def add(one: LinkCounts, other: LinkCounts) -> LinkCounts:
    """Add up two counts, field by field."""
    return LinkCounts(**{name: getattr(one, name) + getattr(other, name) for name in _FIELDS})


def subtract(whole: LinkCounts, part: LinkCounts) -> LinkCounts:
    """Take one count from another, field by field."""
    return LinkCounts(**{name: getattr(whole, name) - getattr(part, name) for name in _FIELDS})


def shown(counts: LinkCounts) -> dict[str, int]:
    """Return what is not 0."""
    told: dict[str, int] = msgspec.structs.asdict(counts)
    return {name: value for name, value in told.items() if value}
