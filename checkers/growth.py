"""The rule `growth`: does a process hold more and more memory?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ..histories.memory import WORKER, Held, MemorySample
from .findings import Finding
from .soak_contract import GrowthBound
from .verdict import Json
from .windows import NS

MEASURES: Final = ("rss", "pss")
_KIB_PER_MIB: Final = 1024
_DIGITS: Final = 2


@dataclass(frozen=True, slots=True)
class Grown:
    """One measure of one kind of process in the first and the last third of a load, MiB.

    Attributes:
        kind: Name of the process; `worker` for the median worker.
        measure: `rss` or `pss`.
        first: Median of the first third.
        last: Median of the last third.
        allowed: Most that the last may be.
    """

    kind: str
    measure: str
    first: float
    last: float
    allowed: float


@dataclass(frozen=True, slots=True)
class Thirds:
    """A load, cut in three.

    Attributes:
        from_ns: Its begin.
        length_ns: Its length.
    """

    from_ns: int
    length_ns: int

    def cut(self, samples: Sequence[MemorySample]) -> tuple[list[MemorySample], list[MemorySample]]:
        """Return the samples of the first and of the last third."""
        parts: tuple[list[MemorySample], list[MemorySample]] = ([], [])
        for sample in samples:
            third = 3 * (sample.t_ns - self.from_ns) / self.length_ns
            if 0 <= third < 1:
                parts[0].append(sample)
            elif 2 <= third <= 3:
                parts[1].append(sample)
        return parts


@dataclass(frozen=True, slots=True)
class Growth:
    """What the samples of a load say.

    Attributes:
        grown: Every kind and measure that could be judged.
        missing: Why others could not be, a sentence each.
    """

    grown: tuple[Grown, ...]
    missing: tuple[str, ...]

    def findings(self, thirds: Thirds) -> Iterator[Finding]:
        """Yield what grew beyond its bound."""
        for each in self.grown:
            if each.last > each.allowed:
                yield Finding(
                    "growth",
                    None,
                    f"{_told(each.kind)}: {each.measure.upper()} median {each.first:.1f} MiB in "
                    f"the first third of the load, {each.last:.1f} MiB in the last; "
                    f"{each.allowed:.1f} MiB is allowed",
                    thirds.from_ns,
                    thirds.from_ns + thirds.length_ns,
                )

    def to_json(self) -> dict[str, Json]:
        """Return the medians by kind and measure."""
        told: dict[str, dict[str, Json]] = {}
        for each in self.grown:
            told.setdefault(each.kind, {})[each.measure] = {
                "first": round(each.first, _DIGITS),
                "last": round(each.last, _DIGITS),
                "allowed": round(each.allowed, _DIGITS),
            }
        return {**told}


def measure_growth(
    samples: Sequence[MemorySample],
    thirds: Thirds,
    bounds: Mapping[str, GrowthBound],
    samples_min: int,
) -> Growth:
    """Compare the last third of a load with the first, for each kind of process.

    Args:
        samples: In order of time.
        thirds: The load.
        bounds: By kind.
        samples_min: A kind that was seen less often in a third is not judged.
    """
    first, last = thirds.cut(samples)
    grown: list[Grown] = []
    missing: list[str] = []
    for kind, bound in bounds.items():
        seen = [sum(1 for s in part if _held(s, kind)) for part in (first, last)]
        if min(seen) < samples_min:
            missing.append(
                f"memory of {_told(kind)} was sampled {seen[0]} times in the first third of the "
                f"load and {seen[1]} times in the last; {samples_min} of each are needed"
            )
            continue
        for measure in MEASURES:
            before, after = (_median(part, kind, measure) for part in (first, last))
            allowed = before * bound.factor + bound.extra_mib + bound.window_mib
            grown.append(Grown(kind, measure, before, after, allowed))
    return Growth(tuple(grown), tuple(missing))


def _told(kind: str) -> str:
    return "the median worker" if kind == WORKER else kind


def _held(sample: MemorySample, kind: str) -> list[Held]:
    if kind != WORKER:
        return [sample.held[kind]] if kind in sample.held else []
    return [held for name, held in sample.held.items() if name.split(" ")[0] == WORKER]


def _median(samples: Sequence[MemorySample], kind: str, measure: str) -> float:
    """Return the median over all samples of the median over the processes of each, MiB."""
    each = [[getattr(held, measure) for held in _held(sample, kind)] for sample in samples]
    return float(median(median(found) for found in each if found)) / _KIB_PER_MIB


def thirds_of(from_ns: int, load_s: float) -> Thirds:
    """Cut a load that began at `from_ns` and lasted `load_s`."""
    return Thirds(from_ns, round(load_s * NS))
