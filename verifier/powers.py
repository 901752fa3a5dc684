"""The powers that a run may have, for those that choose nemeses by themselves."""

from __future__ import annotations

import os
from typing import Final

from ..nemesis.levels import AUTO, highest, level_here
from .levels import check_level, probe_machine

VARIABLE: Final = "ATLEASTONCE_POWERS"
"""Keeps the answer for the private world in which a command may begin anew: probes differ there."""


def levels_of(asked: str) -> list[frozenset[str]]:
    """Return the powers of each level that a run may choose on this machine.

    Raises:
        UsageError: There is no such level.
    """
    check_level(asked)
    findings = probe_machine()
    numbers = range(highest(findings) + 1) if asked == AUTO else [int(asked)]
    return [level_here(number, findings).powers for number in numbers]


def powers_of(asked: str) -> frozenset[str]:
    """Return the powers of a level on this machine; of the highest that is had, for `auto`.

    Probes the machine once, 0.2 s.

    Raises:
        UsageError: There is no such level.
    """
    check_level(asked)
    level, colon, known = os.environ.get(VARIABLE, "").partition(":")
    if colon and level == asked:
        return frozenset(known.split(",")) - {""}
    findings = probe_machine()
    powers = level_here(highest(findings) if asked == AUTO else int(asked), findings).powers
    os.environ[VARIABLE] = f"{asked}:{','.join(sorted(powers))}"
    return powers
