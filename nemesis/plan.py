"""Plans: which faults happen when, made from a seed and nothing else.

Every fault draws from a stream of its own, keyed by the seed, its nemesis and its number, so that
leaving one out moves nothing of the others.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Final

import msgspec

from .events import UnknownEventError, fault_of
from .fault import Fault
from .options import check_options
from .registry import NEMESES, NONE, NemesisSpec, UnknownNemesisError, check_names
from .selectors import is_of_nodes, names_in
from .settings import DEFAULTS, NemesisSettings
from .spec import AT_ONCE
from .turns import need_turns, take_turns

# Spreads several nemeses over one interval; the golden ratio keeps any number of them apart.
_SPREAD: Final = 0.618034
_CHOICES: Final = 1 << 16
_FAULTS_MAX: Final = 100_000

__all__ = [
    "DEFAULTS",
    "NemesisSettings",
    "decode_plan",
    "encode_plan",
    "make_plan",
]


def make_plan(
    names: Sequence[str],
    seed: int,
    time_limit_s: float,
    interval_s: float = 5.0,
    settings: NemesisSettings = DEFAULTS,
) -> tuple[Fault, ...]:
    """Draw a plan whose last fault heals before the time limit.

    Each nemesis has a fault about every `interval_s`, and never a second one before the first is
    healed. Several nemeses are spread over the interval and may overlap; only what hits all nodes
    takes turns with what hits one (see `turns`), and then both come later than the interval says.

    Args:
        names: Nemeses, each once; `none` alone gives an empty plan.
        seed: The same seed gives the same plan on every machine.
        time_limit_s: Of the run.
        interval_s: From one fault's begin to the next one's.
        settings: Durations.

    Returns:
        The faults in order of `at_s`.

    Raises:
        ValueError: A name or number is not allowed, or the time limit is too short for one fault
            of each nemesis; the line names the value and what would work.
    """
    check_names(names)
    for name, value in (("time limit", time_limit_s), ("interval", interval_s)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} {value:g} s is not allowed; it must be above 0")
    if list(names) == [NONE]:
        return ()
    starts_s = {
        name: settings.first_s + interval_s * (position * _SPREAD % 1.0)
        for position, name in enumerate(names)
    }
    plan = _drawn(starts_s, seed, time_limit_s, interval_s, settings)
    for name in names:
        if not any(fault.kind == name for fault in plan):
            least_s = _least_limit(name, starts_s, seed, interval_s, settings)
            raise ValueError(
                f"time limit {time_limit_s:g} s is too short for one {name} fault; "
                f"use at least {least_s:g}"
            )
    return tuple(sorted(plan, key=_order))


def _drawn(
    starts_s: Mapping[str, float],
    seed: int,
    time_limit_s: float,
    interval_s: float,
    settings: NemesisSettings,
) -> list[Fault]:
    """All faults that heal in time, each in its turn."""
    plan = [
        fault
        for name, start_s in starts_s.items()
        for fault in _faults(NEMESES[name], seed, start_s, interval_s, settings, time_limit_s)
    ]
    holding = [fault for fault in plan if not NEMESES[fault.kind].overlaps]
    if need_turns(holding):
        beside = [fault for fault in plan if NEMESES[fault.kind].overlaps]
        plan = beside + take_turns(sorted(holding, key=_order), _healed_s)
    return [fault for fault in plan if _healed_s(fault) <= time_limit_s]


def _order(fault: Fault) -> tuple[float, str]:
    return fault.at_s, fault.id


def _faults(
    spec: NemesisSpec,
    seed: int,
    start_s: float,
    interval_s: float,
    settings: NemesisSettings,
    time_limit_s: float,
) -> Iterator[Fault]:
    free_s = 0.0
    for number in range(1, _FAULTS_MAX):
        fault = _fault(spec, seed, number, start_s + (number - 1) * interval_s, settings)
        if _healed_s(fault) > time_limit_s:
            return
        if fault.at_s >= free_s:
            yield fault
            free_s = _healed_s(fault)


def _healed_s(fault: Fault) -> float:
    # Whole milliseconds, like its parts: a sum of floats may lie a hair above the limit it names.
    return round(fault.at_s + fault.duration_s + NEMESES[fault.kind].healing_s, 3)


def _least_limit(
    name: str,
    starts_s: Mapping[str, float],
    seed: int,
    interval_s: float,
    settings: NemesisSettings,
) -> float:
    """When the first fault of a nemesis is healed, had the run no end."""
    limit_s = max(
        _healed_s(_fault(NEMESES[other], seed, 1, start_s, settings))
        for other, start_s in starts_s.items()
    )
    while True:
        drawn = _drawn(starts_s, seed, limit_s, interval_s, settings)
        healed_s = [_healed_s(fault) for fault in drawn if fault.kind == name]
        if healed_s:
            return math.ceil(min(healed_s) * 10) / 10
        limit_s += interval_s


def _fault(
    spec: NemesisSpec, seed: int, number: int, slot_s: float, settings: NemesisSettings
) -> Fault:
    stream = _stream(seed, spec.name, number)
    # Milliseconds as integers: the same on every machine and Python.
    at_ms = round(slot_s * 1000) + stream.randrange(500)
    duration_ms = _duration_ms(spec, stream, settings)
    choice = stream.randrange(_CHOICES)
    return Fault(
        id=f"{spec.name}-{number}",
        kind=spec.name,
        target=spec.target,
        at_s=at_ms / 1000,
        duration_s=duration_ms / 1000,
        choice=choice,
        options={} if spec.draw is None else spec.draw(stream, settings),
    )


def _duration_ms(spec: NemesisSpec, stream: random.Random, settings: NemesisSettings) -> int:
    if spec.duration_s == AT_ONCE:
        return 0
    if spec.duration_s is not None:
        least, most = (round(bound_s * 1000) for bound_s in spec.duration_s)
    elif spec.pauses:
        least, most = round(settings.pause_s_min * 1000), round(settings.pause_s_max * 1000)
    else:
        down_ms = round(settings.down_s * 1000)
        least = down_ms - down_ms // 4
        most = least + down_ms // 2
    return least + stream.randrange(most - least + 1)


def _stream(seed: int, name: str, number: int) -> random.Random:
    key = blake2b(f"{seed}/{name}/{number}".encode(), digest_size=8)
    return random.Random(int.from_bytes(key.digest(), "big"))


def encode_plan(plan: Sequence[Fault]) -> bytes:
    """Write a plan as JSON."""
    return msgspec.json.encode([fault.plain() for fault in plan])


def decode_plan(data: bytes | str) -> tuple[Fault, ...]:
    """Read a plan from JSON and check it.

    Raises:
        ValueError: One line that says what is wrong in it.
    """
    try:
        plan = msgspec.json.decode(data, type=tuple[Fault, ...])
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a plan: {error}") from None
    check_plan(plan)
    return tuple(sorted(plan, key=_order))


def check_plan(plan: Sequence[Fault]) -> None:
    """Refuse faults of unknown kinds, with targets, options or events that they cannot have.

    Raises:
        ValueError: One line that names the fault, the field, its value and what is allowed.
    """
    seen: set[str] = set()
    for fault in plan:
        spec = NEMESES.get(fault.kind)
        if spec is None or spec.name == NONE:
            choices = ", ".join(name for name in NEMESES if name != NONE)
            raise UnknownNemesisError(
                f"fault {fault.id}: unknown kind {fault.kind!r}; choose from: {choices}"
            )
        _check_target(spec, fault)
        check_options(spec, fault)
        if fault.id in seen:
            raise ValueError(f"two faults have the id {fault.id!r}")
        seen.add(fault.id)
    for fault in plan:
        _check_event(fault, seen)


def _check_target(spec: NemesisSpec, fault: Fault) -> None:
    if fault.target in (spec.target, *spec.targets):
        return
    if spec.named and is_of_nodes(fault.target) and all(names_in(fault.target) or [""]):
        return
    if not spec.targets and not spec.named:
        raise ValueError(
            f"fault {fault.id}: {fault.kind} hits {spec.target!r}, not {fault.target!r}"
        )
    choices = ", ".join(dict.fromkeys((spec.target, *spec.targets)))
    named = ", or nodes by name, such as n1+n3" if spec.named else ""
    raise ValueError(
        f"fault {fault.id}: target {fault.target!r} is not one of {fault.kind}; "
        f"choose from: {choices}{named}"
    )


def _check_event(fault: Fault, ids: Collection[str]) -> None:
    if not fault.after:
        return
    try:
        awaited = fault_of(fault.after)
    except UnknownEventError as error:
        raise UnknownEventError(f"fault {fault.id}: after {error}") from None
    if awaited is not None and (awaited not in ids or awaited == fault.id):
        others = ", ".join(sorted(set(ids) - {fault.id})) or "there is no other"
        raise ValueError(
            f"fault {fault.id}: after {fault.after!r} names no other fault; choose from: {others}"
        )
