"""Packages: names that stand for several nemeses, of which each fault is one, drawn by the seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .registry import NEMESES
from .spec import NONE, NemesisSpec

Fits = Callable[[NemesisSpec], bool]


def _named() -> dict[str, tuple[str, ...]]:
    """By family, and by the first word of their names where several share it."""
    found: dict[str, list[str]] = {}
    for name, spec in NEMESES.items():
        if name == NONE:
            continue
        for package in dict.fromkeys((spec.family, name.partition("-")[0])):
            if package and package not in NEMESES:
                found.setdefault(package, []).append(name)
    families = {spec.family for spec in NEMESES.values()}
    return {
        package: tuple(names)
        for package, names in sorted(found.items())
        if package in families or len(names) > 1
    }


PACKAGES: Final = _named()
"""The names of the nemeses in each package, by its name."""


def fitting(package: str, fits: Fits) -> tuple[str, ...]:
    """The nemeses of a package that fit; none if none does."""
    return tuple(name for name in PACKAGES[package] if fits(NEMESES[name]))
