"""Plans: which faults happen when, made from a seed and nothing else.

Every fault draws from a stream of its own, keyed by the seed, its nemesis and its number, so that
leaving one out moves nothing of the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from .draws import draw_fault, healed_s, stream_of
from .fault import Fault
from .plan_check import check_plan
from .registry import NEMESES, NONE, check_names
from .settings import DEFAULTS, NemesisSettings
from .turns import need_turns, take_turns

__all__ = [
    "DEFAULTS",
    "NemesisSettings",
    "Order",
    "decode_plan",
    "encode_plan",
    "make_order",
    "make_plan",
]

# Spreads several nemeses over one interval; the golden ratio keeps any number of them apart.
_SPREAD: Final = 0.618034
_FAULTS_MAX: Final = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a plan is drawn from.

    Attributes:
        names: Nemeses or packages, each once; `none` alone gives an empty plan.
        seed: The same seed gives the same plan on every machine.
        time_limit_s: Of the run.
        interval_s: From one fault's begin to the next one's.
        settings: Durations.
        packages: The nemeses that each package among the names stands for.
        targets: The selector of a nemesis's faults in place of the one that is drawn, by its name.
        slower: By how much the faults of a name come more rarely; 1 where it names none.
        all_of_them: Whether a time limit that is too short for a fault of each name is an error.
    """

    names: Sequence[str]
    seed: int
    time_limit_s: float
    interval_s: float = 5.0
    settings: NemesisSettings = DEFAULTS
    packages: Mapping[str, Sequence[str]] = field(default_factory=dict)
    targets: Mapping[str, str] = field(default_factory=dict)
    slower: Mapping[str, float] = field(default_factory=dict)
    all_of_them: bool = True


def make_plan(
    names: Sequence[str],
    seed: int,
    time_limit_s: float,
    interval_s: float = 5.0,
    settings: NemesisSettings = DEFAULTS,
) -> tuple[Fault, ...]:
    """Draw a plan of nemeses; see `make_order`."""
    return make_order(
        Order(
            names=names,
            seed=seed,
            time_limit_s=time_limit_s,
            interval_s=interval_s,
            settings=settings,
        )
    )


def make_order(order: Order) -> tuple[Fault, ...]:
    """Draw a plan whose last fault heals before the time limit.

    Each name has a fault about every `interval_s`, and never a second one before the first is
    healed. Several names are spread over the interval and may overlap; only what hits many nodes
    takes turns with what hits one (see `turns`), and then both come later than the interval says.

    Returns:
        The faults in order of `at_s`.

    Raises:
        ValueError: A name or number is not allowed, or the time limit is too short for one fault
            of each name; the line names the value and what would work.
    """
    check_names(order.names, order.packages)
    for name, value in (("time limit", order.time_limit_s), ("interval", order.interval_s)):
        if not 0 < value < math.inf:
            raise ValueError(f"{name} {value:g} s is not allowed; it must be above 0")
    if list(order.names) == [NONE]:
        return ()
    plan = _drawn(order, order.time_limit_s)
    if order.all_of_them:
        for name in order.names:
            if not any(_name_of(fault) == name for fault in plan):
                raise ValueError(
                    f"time limit {order.time_limit_s:g} s is too short for one {name} fault; "
                    f"use at least {_least_limit(name, order):g}"
                )
    return tuple(sorted(plan, key=_order))


def _starts_s(order: Order) -> dict[str, float]:
    return {
        name: order.settings.first_s + order.interval_s * (position * _SPREAD % 1.0)
        for position, name in enumerate(order.names)
    }


def _drawn(order: Order, time_limit_s: float) -> list[Fault]:
    """All faults that heal in time, each in its turn."""
    plan = [
        fault
        for name, start_s in _starts_s(order).items()
        for fault in _faults(name, order, start_s, time_limit_s)
    ]
    holding = [fault for fault in plan if not NEMESES[fault.kind].overlaps]
    if need_turns(holding):
        beside = [fault for fault in plan if NEMESES[fault.kind].overlaps]
        plan = beside + take_turns(sorted(holding, key=_order), healed_s)
    return [fault for fault in plan if healed_s(fault) <= time_limit_s]


def _order(fault: Fault) -> tuple[float, str]:
    return fault.at_s, fault.id


def _name_of(fault: Fault) -> str:
    return fault.id.rpartition("-")[0]


def _faults(name: str, order: Order, start_s: float, time_limit_s: float) -> Iterator[Fault]:
    free_s = 0.0
    interval_s = order.interval_s * order.slower.get(name, 1.0)
    for number in range(1, _FAULTS_MAX):
        slot_s = start_s + (number - 1) * interval_s
        if slot_s > time_limit_s:
            return
        fault = _fault(name, order, number, slot_s)
        if healed_s(fault) > time_limit_s:
            if name in NEMESES:
                return
            continue  # Another nemesis of the package may be shorter.
        if fault.at_s >= free_s:
            yield fault
            free_s = healed_s(fault)


def _least_limit(name: str, order: Order) -> float:
    """When the first fault of a name is healed, had the run no end."""
    limit_s = max(
        healed_s(_fault(other, order, 1, start_s)) for other, start_s in _starts_s(order).items()
    )
    while True:
        drawn = _drawn(order, limit_s)
        found_s = [healed_s(fault) for fault in drawn if _name_of(fault) == name]
        if found_s:
            return math.ceil(min(found_s) * 10) / 10
        limit_s += order.interval_s


def _fault(name: str, order: Order, number: int, slot_s: float) -> Fault:
    kind = name
    if name not in NEMESES:
        kind = stream_of(order.seed, name, number, "kind").choice(list(order.packages[name]))
    stream = stream_of(order.seed, name, number)
    at_ms = round(slot_s * 1000) + stream.randrange(500)
    fault = draw_fault(NEMESES[kind], f"{name}-{number}", at_ms, stream, order.settings)
    chosen = order.targets.get(name)
    return fault if chosen is None else msgspec.structs.replace(fault, target=chosen)


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
