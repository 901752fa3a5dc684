"""Levels: how much of the machine a run may use, and so which faults it can have.

Level 0 needs no privilege. Level 1 is a private world of namespaces, which an ordinary user may
make on most machines. Level 2 is root. What a fault needs is called a power; a level is a set of
powers. Everything here is pure: what this machine can do is passed in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

AUTO: Final = "auto"
LEVEL_NUMBERS: Final = (0, 1, 2)
CHOICES: Final = (AUTO, *(str(number) for number in LEVEL_NUMBERS))


@dataclass(frozen=True, slots=True)
class Power:
    """Something that a level lets a fault do.

    Attributes:
        name: What a nemesis names in its `needs`.
        sentence: What it is.
        least: The lowest level that can have it.
        best: The level at which it is most like the real thing, which `auto` goes for.
        probes: By level, from the lowest that has it: the probes that must pass.
    """

    name: str
    sentence: str
    least: int
    best: int
    probes: tuple[tuple[int, tuple[str, ...]], ...]

    def probes_at(self, level: int) -> tuple[str, ...]:
        """Name what must pass for a level to have this power."""
        return next((names for least, names in reversed(self.probes) if level >= least), ())


SIGNALS: Final = "signals"
LINKS: Final = "links"
SHAPES: Final = "shapes"
MESSAGES: Final = "messages"
PACKETS: Final = "packets"
RST: Final = "rst"
SYNC_GATE: Final = "sync-gate"
DISK_HOOKS: Final = "disk-hooks"
CLOCK_HOOKS: Final = "clock-hooks"
CLOCK_SHIM: Final = "clock-shim"
LIMITS: Final = "limits"
REAL_EXT4: Final = "real-ext4"
CGROUPS: Final = "cgroups"
TIME_NAMESPACE: Final = "time-namespace"

PRIVATE_WORLD: Final = "private world"
NETWORK: Final = "private network"
FILTER: Final = "bridge filter"
SWITCH: Final = "packet switch"
RESETS: Final = "socket destroy"
PIDFD: Final = "pidfd and signals"
SECCOMP: Final = "seccomp listener"
PRLIMIT: Final = "prlimit"
PRELOADED_CLOCK: Final = "preloaded clock"
LOOP_EXT4: Final = "loop-mounted ext4"
CONTROL_GROUPS: Final = "control groups"
TIME: Final = "time namespace"

_WORLD: Final = (PRIVATE_WORLD, NETWORK)


def _power(name: str, sentence: str, least: int, *probes: str) -> Power:
    return Power(name, sentence, least, least, ((least, probes),))


POWERS: Final[dict[str, Power]] = {
    power.name: power
    for power in (
        _power(SIGNALS, "kill, stop and continue processes", 0, PIDFD),
        Power(
            LINKS,
            "cut, reset or refuse what goes over one directed link",
            0,
            1,
            ((0, ()), (1, (*_WORLD, FILTER, RESETS))),
        ),
        Power(
            SHAPES,
            "delay or narrow what goes over one directed link",
            0,
            1,
            ((0, ()), (1, (*_WORLD, SWITCH))),
        ),
        Power(
            MESSAGES,
            "tell what a message or packet on a link holds, and drop one kind alone",
            0,
            0,
            ((0, ()), (1, (*_WORLD, SWITCH))),
        ),
        _power(PACKETS, "lose, repeat, reorder and corrupt packets", 1, *_WORLD, SWITCH),
        _power(RST, "reset one end of a connection with a crafted segment", 1, *_WORLD),
        _power(SYNC_GATE, "hold or fail the sync calls of a process", 0, SECCOMP),
        _power(DISK_HOOKS, "have a node's own disk layer fail", 0),
        _power(CLOCK_HOOKS, "have a node's own clock be wrong", 0),
        _power(CLOCK_SHIM, "move the time of day of a program from outside", 0, PRELOADED_CLOCK),
        _power(LIMITS, "lower the limits of a running process", 0, PRLIMIT),
        _power(TIME_NAMESPACE, "shift a process's monotonic clock", 1, PRIVATE_WORLD, TIME),
        _power(REAL_EXT4, "cut the power of a real file system", 2, PRIVATE_WORLD, LOOP_EXT4),
        _power(CGROUPS, "bound the memory and CPU time of a group", 2, CONTROL_GROUPS),
    )
}
"""Every power by its name."""

NETWORK_POWERS: Final = frozenset({LINKS, SHAPES, MESSAGES, PACKETS, RST})
"""Those for which level 1 and above give each node a network of its own."""

SWITCH_POWERS: Final = frozenset({SHAPES, PACKETS, MESSAGES})
"""Those for which the packet switch takes the place of the bridge."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level as this machine has it.

    Attributes:
        number: 0, 1 or 2.
        powers: What it lets a fault do here.
    """

    number: int
    powers: frozenset[str]


@dataclass(frozen=True, slots=True)
class Finding:
    """What a probe found.

    Attributes:
        name: Of the probe.
        passed: Whether the machine can do it.
        found: What was seen.
        meaning: What a run can or cannot have.
        remedy: What to do about it; empty when it passed.
    """

    name: str
    passed: bool
    found: str
    meaning: str
    remedy: str = ""


class LackingPowerError(Exception):
    """A fault needs what the level does not have; the message is one line for the user."""


class UnknownPowerError(ValueError):
    """A nemesis names a power that does not exist."""


_BASES: Final[Mapping[int, tuple[str, ...]]] = {
    0: (PIDFD,),
    1: (PIDFD, PRIVATE_WORLD, NETWORK, FILTER),
    2: (PIDFD, PRIVATE_WORLD, LOOP_EXT4, CONTROL_GROUPS),
}
"""Without these a level is not had at all: level 2 is as good as level 1 plus ext4 and groups."""


def level_here(number: int, findings: Sequence[Finding]) -> Level:
    """Return a level with the powers that the probes allow it."""
    passed = {finding.name for finding in findings if finding.passed}
    return Level(
        number,
        frozenset(
            power.name
            for power in POWERS.values()
            if power.least <= number and passed.issuperset(power.probes_at(number))
        ),
    )


def missing_of(number: int, findings: Sequence[Finding]) -> list[Finding]:
    """Return the failed probes without which a level is not had; empty if it is."""
    wanted = {name for base in range(number + 1) for name in _BASES[base]}
    return [finding for finding in findings if finding.name in wanted and not finding.passed]


def highest(findings: Sequence[Finding]) -> int:
    """Return the highest level that is had here."""
    return max((n for n in LEVEL_NUMBERS if not missing_of(n, findings)), default=0)


def wanted_level(needs: Collection[str]) -> int:
    """Return the level at which faults with these needs are most like the real thing.

    Raises:
        UnknownPowerError: There is no such power.
    """
    for name in needs:
        if name not in POWERS:
            raise UnknownPowerError(f"unknown power {name!r}; choose from: {', '.join(POWERS)}")
    return max((POWERS[name].best for name in needs), default=0)


def choose_level(
    asked: str, needs: Mapping[str, frozenset[str]], findings: Sequence[Finding]
) -> Level:
    """Choose the level of a run.

    `auto` is the level at which the run's faults are most like the real thing, or else the
    highest below it that the machine has and that has every power: a run whose faults need
    nothing special stays at 0.

    Args:
        asked: One of `CHOICES`.
        needs: The powers that each nemesis of the run needs, by its name.
        findings: What the probes found.

    Raises:
        LackingPowerError: The level is not had here, or lacks a power that a fault needs.
        UnknownPowerError: A nemesis names a power that does not exist.
    """
    all_needs: frozenset[str] = frozenset().union(*needs.values())
    wanted = wanted_level(all_needs)
    if asked == AUTO:
        had = [n for n in range(wanted + 1) if not missing_of(n, findings)] or [0]
        fitting = [n for n in had if all_needs <= level_here(n, findings).powers]
        number = max(fitting or had)
    else:
        number = int(asked)
        if missing := missing_of(number, findings):
            raise LackingPowerError(
                f"level {number} cannot be had: {missing[0].name}: {missing[0].found}; "
                f"{missing[0].remedy}, or choose --level {highest(findings)}"
            )
    level = level_here(number, findings)
    for kind, powers in needs.items():
        for power in sorted(powers - level.powers):
            raise LackingPowerError(
                f"nemesis {kind!r} needs {power!r} ({POWERS[power].sentence}), which level "
                f"{number} lacks; {_remedy(power, number, findings)}"
            )
    return level


def _remedy(power: str, number: int, findings: Sequence[Finding]) -> str:
    """Say how to get a power that a level lacks."""
    for higher in LEVEL_NUMBERS[number + 1 :]:
        if not missing_of(higher, findings) and power in level_here(higher, findings).powers:
            return f"choose --level {higher}"
    at = max(number, POWERS[power].least)
    wanted = (*POWERS[power].probes_at(at), *(name for n in range(at + 1) for name in _BASES[n]))
    failed = {finding.name: finding for finding in findings if not finding.passed}
    for name in wanted:
        if name in failed:
            finding = failed[name]
            return f"level {at} would have it, but {name}: {finding.found}; {finding.remedy}"
    return "see verify doctor"
