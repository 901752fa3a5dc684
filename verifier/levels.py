"""The level of a run: what this machine passed, what the run's faults need, what is chosen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ..nemesis.levels import (
    AUTO,
    CHOICES,
    NETWORK_POWERS,
    POWERS,
    SWITCH_POWERS,
    Finding,
    LackingPowerError,
    Level,
    UnknownPowerError,
    choose_level,
    wanted_level,
)
from ..nemesis.registry import NEMESES
from .errors import Exit, UsageError, VerifyError


class LevelError(VerifyError):
    """A fault of the run needs what its level lacks; nothing was started."""

    status = Exit.UNKNOWN


@dataclass(frozen=True, slots=True)
class ChosenLevel:
    """What a run may use.

    Attributes:
        level: The level with its powers.
        has_network: Whether each node gets a network of its own.
        is_switched: Whether the packet switch joins these, and not the kernel's bridge.
    """

    level: Level
    has_network: bool = False
    is_switched: bool = False


def probe_machine(names: Iterable[str] | None = None, *, extras: bool = False) -> list[Finding]:
    """Try everything that levels rest on; about 0.2 s, nothing is left of it.

    Args:
        names: Only these probes; all if left out.
        extras: Also what no fault needs.
    """
    from .level_probes import PROBES
    from .probing import try_all
    from .root_probes import EXTRA
    from .root_probes import PROBES as ROOT_PROBES

    probes = (*PROBES, *ROOT_PROBES)
    wanted = {probe.name for probe in probes} if names is None else set(names)
    chosen = [probe for probe in probes if probe.name in wanted]
    return try_all((*chosen, *EXTRA) if extras else chosen)


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
        level = choose_level(
            asked, needs, probe_machine(_hangs_on(all_needs) if is_plain else None)
        )
    except (LackingPowerError, UnknownPowerError) as error:
        raise LevelError(str(error)) from None
    has_network = level.number > 0 and (asked == "1" or bool(all_needs & NETWORK_POWERS))
    return ChosenLevel(level, has_network, has_network and bool(all_needs & SWITCH_POWERS))


def _hangs_on(powers: Iterable[str]) -> frozenset[str]:
    """Name the probes of these powers at level 0."""
    return frozenset(name for power in powers for name in POWERS[power].probes_at(0))
