"""The nemeses by name, composed of their families."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from .acts import MakeAct
from .families import (
    backends,
    clock,
    disk,
    limits,
    machine,
    membership,
    network,
    packets,
    process,
)
from .spec import NONE, NemesisSpec

__all__ = [
    "ACTS",
    "NEMESES",
    "NONE",
    "NemesisSpec",
    "UnknownNemesisError",
    "check_names",
    "parse_names",
]

_FAMILIES: Final = (
    process,
    limits,
    backends,
    network,
    packets,
    disk,
    machine,
    clock,
    membership,
)

NEMESES: Final[dict[str, NemesisSpec]] = {
    spec.name: spec
    for spec in (
        NemesisSpec(name=NONE, sentence="no fault at all"),
        *(spec for family in _FAMILIES for spec in family.SPECS),
    )
}

ACTS: Final[dict[str, MakeAct]] = {
    name: act for family in _FAMILIES for name, act in family.ACTS.items()
}


class UnknownNemesisError(ValueError):
    """A name that no nemesis has, or a combination that makes no sense."""


def check_names(names: Sequence[str], packages: Collection[str] = ()) -> tuple[str, ...]:
    """Return the names, of nemeses or of these packages, if they exist and fit together.

    Raises:
        UnknownNemesisError: One line that names the value and the choices.
    """
    for name in names:
        if name not in NEMESES and name not in packages:
            choices = ", ".join((*NEMESES, *packages))
            raise UnknownNemesisError(f"unknown nemesis {name!r}; choose from: {choices}")
    if not names:
        raise UnknownNemesisError(f"no nemesis named; choose from: {', '.join(NEMESES)}")
    if NONE in names and len(names) > 1:
        raise UnknownNemesisError(f"nemesis {','.join(names)!r}: none stands alone")
    if len(set(names)) < len(names):
        raise UnknownNemesisError(f"nemesis {','.join(names)!r}: name each one once")
    return tuple(names)


def parse_names(text: str) -> tuple[str, ...]:
    """Split `NAME[,NAME…]`; errors as `check_names`."""
    return check_names([name.strip() for name in text.split(",") if name.strip()])
