"""How fast faults take effect and heal, from the evidence that the nemesis left."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from ..histories.faults import Fault

ONSET = "onset_ms"
HEAL = "heal_ms"


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds that the faults of one kind took.

    Attributes:
        kind: Of the faults.
        count: How many bit.
        onset_ms: From the first act to the proof of its effect: median and worst.
        heal_ms: From the first act of healing to its proof: median and worst; None if none healed.
    """

    kind: str
    count: int
    onset_ms: tuple[float, float]
    heal_ms: tuple[float, float] | None


def onset_of(fault: Fault) -> float | None:
    """Milliseconds until a fault was seen in effect; None where nobody measured."""
    return _number(fault.evidence.get("effect", {}).get(ONSET))


def heal_of(fault: Fault) -> float | None:
    """Milliseconds until a fault was seen healed; None where nobody measured."""
    return _number(fault.evidence.get("healed", {}).get(HEAL))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def measure(faults: Iterable[Fault]) -> list[Latency]:
    """Summarise faults that bit and were measured, by kind, sorted by name."""
    onsets: dict[str, list[float]] = {}
    heals: dict[str, list[float]] = {}
    for fault in faults:
        onset, heal = onset_of(fault), heal_of(fault)
        if onset is not None:
            onsets.setdefault(fault.kind, []).append(onset)
        if onset is not None and heal is not None:
            heals.setdefault(fault.kind, []).append(heal)
    return [
        Latency(
            kind,
            len(found),
            (median(found), max(found)),
            (median(heals[kind]), max(heals[kind])) if kind in heals else None,
        )
        for kind, found in sorted(onsets.items())
    ]
