"""The level of a run: what this machine passed, what the run's faults need, what is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from ..nemesis.levels import (
    AUTO,
    CHOICES,
    LEVEL_NUMBERS,
    NETWORK_POWERS,
    PIDFD,
    PRLIMIT,
    SECCOMP,
    Finding,
    LackingPowerError,
    Level,
    UnknownPowerError,
    choose_level,
    highest,
    missing_of,
    wanted_level,
)
from ..nemesis.registry import NEMESES
from .errors import Exit, UsageError, VerifyError

_CHEAP: Final = (PIDFD, PRLIMIT, SECCOMP)


class LevelError(VerifyError):
    """A fault of the run needs what its level lacks; nothing was started."""

    status = Exit.UNKNOWN


@dataclass(frozen=True, slots=True)
class ChosenLevel:
    """What a run may use.

    Attributes:
        level: The level with its powers.
        has_network: Whether each node gets a network of its own.
        note: What was chosen and why, for the user; empty if nothing is worth saying.
    """

    level: Level
    has_network: bool = False
    note: str = ""


def probe_machine(names: Iterable[str] | None = None) -> list[Finding]:
    """Try everything that levels rest on; about 0.2 s, nothing is left of it.

    Args:
        names: Only these probes; all if left out.
    """
    from .level_probes import PROBES
    from .probing import try_all
    from .root_probes import PROBES as ROOT_PROBES

    probes = (*PROBES, *ROOT_PROBES)
    wanted = {probe.name for probe in probes} if names is None else set(names)
    return try_all([probe for probe in probes if probe.name in wanted])


def probe_extras() -> list[Finding]:
    """Try what no fault needs."""
    from .probing import try_all
    from .root_probes import EXTRA

    return try_all(EXTRA)


def check_level(asked: str) -> str:
    """Return the name of a level.

    Raises:
        UsageError: There is no such level.
    """
    if asked not in CHOICES:
        raise UsageError(f"--level {asked!r} is not allowed; choose from: {', '.join(CHOICES)}")
    return asked


def needs_of(kinds: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the powers that each of these nemeses needs."""
    return {kind: NEMESES[kind].needs for kind in dict.fromkeys(kinds)}


def choose(asked: str, needs: Mapping[str, frozenset[str]]) -> ChosenLevel:
    """Choose the level of a run, trying out only what the choice hangs on.

    Args:
        asked: One of `CHOICES`.
        needs: The powers that each nemesis of the run needs.

    Raises:
        LevelError: The level is not had, or lacks a power; the line says what to do.
    """
    all_needs: frozenset[str] = frozenset().union(*needs.values())
    try:
        is_plain = wanted_level(all_needs) == 0 and asked in (AUTO, "0")
        findings = probe_machine(_CHEAP if is_plain else None)
        level = choose_level(asked, needs, findings)
    except (LackingPowerError, UnknownPowerError) as error:
        raise LevelError(str(error)) from None
    has_network = level.number > 0 and (
        bool(all_needs & NETWORK_POWERS) or (asked == "1" and not all_needs - NETWORK_POWERS)
    )
    note = f"level {level.number}" if level.number or asked != AUTO else ""
    return ChosenLevel(level, has_network, note)


def best_level(findings: Iterable[Finding]) -> int:
    """Return the highest level that the machine has."""
    return highest(list(findings))


def level_lines(findings: list[Finding]) -> list[str]:
    """Say of each level whether it is had, and what is missing."""
    lines = []
    for number in LEVEL_NUMBERS:
        missing = missing_of(number, findings)
        lacks = f"lacks {', '.join(finding.name for finding in missing)}" if missing else "ok"
        lines.append(f"level {number}: {lacks}")
    best = highest(findings)
    lines.append(
        f"auto takes what a run's faults need: 0 for processes, up to {best} for links, packets "
        "and file systems"
    )
    return lines
