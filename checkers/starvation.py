"""Whether the machine let the system run: which seconds a rule of time may not count.

A bound of time is a promise about the system, and holds only while the system gets its share of
the machine. What the kernel measured of each process (`histories/scheduling.py`) tells when it did
not. Such time is taken out of a wait; what is left is judged. If the rest still breaks the bound,
the machine is no excuse. If it does not, nobody can know, and the rule is unknown, never valid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from ..histories.scheduling import SchedulingSample
from .contract import Bounds
from .findings import seconds
from .intervals import Interval, clip, intersect, length, merge, subtract
from .verdict import Json

_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Worst:
    """The process that waited most in one sample."""

    name: str
    waited: float
    ran: float


class Starvation:
    """The seconds of a run in which the machine starved it.

    A sample is *starved* when a process stood in line for a core for at least `starved_wait` of the
    time and got no more than one part in `starved_slowdown` of what it asked for. The verifier is
    one of them: its clients ask, and it sees faults bite and processes die. Not so where the run's
    own processes took `starved_own` of the machine or more: what is in its own way has no excuse.
    A sample of which the host of a virtual machine stole `starved_wait` or more is starved, too.

    A stretch of such samples reaches beyond its end by its own length, at most by `recovery_s`, as
    what piled up meanwhile has to be worked off.

    Args:
        samples: In order of time; none where nobody sampled.
        bounds: The contract's bounds.
        origin_ns: From when on seconds are told.
    """

    def __init__(self, samples: Sequence[SchedulingSample], bounds: Bounds, origin_ns: int):
        self._samples = samples
        self._bounds = bounds
        self._origin_ns = origin_ns
        starved = [sample for sample in samples if self._is_starved(sample)]
        self.measured: tuple[Interval, ...] = tuple(merge((s.from_ns, s.t_ns) for s in starved))
        recovery_ns = round(bounds.recovery_s * _NS)
        self.stretches: tuple[Interval, ...] = tuple(
            merge((start, end + min(end - start, recovery_ns)) for start, end in self.measured)
        )

    def _is_starved(self, sample: SchedulingSample) -> bool:
        if sample.stolen >= self._bounds.starved_wait:
            return True
        return sample.own < self._bounds.starved_own and any(
            wait.waited >= self._bounds.starved_wait
            and wait.ran * self._bounds.starved_slowdown <= wait.ran + wait.waited
            for wait in sample.waits.values()
        )

    def left_ns(self, interval: Interval) -> int:
        """Return how much of an interval the system had its share of the machine."""
        return sum(length(part) for part in subtract(interval, self.stretches))

    def doubt(self, interval: Interval, allowed_ns: int) -> str | None:
        """Say why a wait that was too long proves nothing; None where it does.

        Args:
            interval: What was waited.
            allowed_ns: The bound; what is not longer than that needs no excuse.
        """
        length_ns, left_ns = length(interval), self.left_ns(interval)
        if length_ns <= allowed_ns or left_ns > allowed_ns:
            return None
        return (
            f"{self.told(interval)}; of the {seconds(length_ns)} that are too long, "
            f"{seconds(left_ns)} lie outside of that, and {seconds(allowed_ns)} are allowed"
        )

    def lease_doubt(self, held: Interval, lease_ns: int) -> str | None:
        """Say why a lease may have run out unrenewed, or its ack may have come too late, or None.

        That may be so where the machine starved half of some time as long as the lease. What
        follows a starved stretch does not count here, as leases are renewed at once then.

        Args:
            held: From a delivery to the next one of the same job.
            lease_ns: The lease.
        """
        inside = clip(self.measured, held)
        starts = [start for start, _ in inside] + [
            max(held[0], end - lease_ns) for _, end in inside
        ]
        around = [(start, min(held[1], start + lease_ns)) for start in starts]
        starved_ns = [sum(length(part) for part in clip(inside, window)) for window in around]
        worst_ns, worst = max(zip(starved_ns, around, strict=True), default=(0, held))
        if worst_ns == 0 or 2 * worst_ns < lease_ns:
            return None
        return f"{self.told(worst)}; a lease of {seconds(lease_ns)} may run out unrenewed meanwhile"

    def told(self, interval: Interval) -> str:
        """Say, with figures, how the machine starved the system in a part of an interval."""
        samples = self._starved_in(interval)
        length_ns = sum(sample.t_ns - sample.from_ns for sample in samples)
        stolen = _mean(samples, lambda sample: sample.stolen)
        others = _mean(samples, lambda sample: sample.others) + stolen
        names = {name for sample in samples for name in sample.waits}
        waits = {name: _mean(samples, partial(_waited, name)) for name in names}
        how = f"its host took {stolen:.0%} of the cores away"
        if waits and max(waits.values()) >= stolen:
            name = max(waits, key=lambda name: (waits[name], name))
            how = f"{name} waited {waits[name]:.0%} of the time for a core"
        return (
            f"the machine was starved: {how} in {seconds(length_ns)} between "
            f"{self._second(samples[0].from_ns):.1f} s and {self._second(samples[-1].t_ns):.1f} s, "
            f"while others used {others:.0%} of the cores"
        )

    def _starved_in(self, interval: Interval) -> list[SchedulingSample]:
        """The starved samples of an interval; where it only has what follows them, those before."""
        touched = [part for part in self.stretches if intersect(part, interval)]
        assert touched, f"nothing was starved in {interval}"
        starved = [sample for sample in self._samples if self._is_starved(sample)]
        inside = [s for s in starved if s.from_ns < interval[1] and interval[0] < s.t_ns]
        start, end = touched[0]
        return inside or [s for s in starved if start <= s.from_ns < end]

    def _second(self, t_ns: int) -> float:
        return (t_ns - self._origin_ns) / _NS

    def to_json(self) -> dict[str, Json]:
        """State for a verdict what was measured: starved seconds, and the worst sample of all.

        Empty where nobody sampled.
        """
        if not self._samples:
            return {}
        starved_ns = sum(length(part) for part in self.measured)
        length_ns = sum(sample.t_ns - sample.from_ns for sample in self._samples)
        found: dict[str, Json] = {
            "sampled_s": round(length_ns / _NS, 1),
            "starved_s": round(starved_ns / _NS, 1),
        }
        sample, worst = max(
            ((sample, self._worst(sample)) for sample in self._samples),
            key=lambda pair: pair[1].waited,
        )
        found["worst_window"] = {
            "process": worst.name,
            "waited": worst.waited,
            "ran": worst.ran,
            "others": sample.others,
            "from_s": round(self._second(sample.from_ns), 1),
            "until_s": round(self._second(sample.t_ns), 1),
        }
        return found

    def _worst(self, sample: SchedulingSample) -> _Worst:
        waits = [_Worst(name, wait.waited, wait.ran) for name, wait in sample.waits.items()]
        return max(waits, key=lambda worst: worst.waited, default=_Worst("none", 0.0, 0.0))


def _mean(
    samples: Sequence[SchedulingSample], figure: Callable[[SchedulingSample], float]
) -> float:
    """Return the mean of a figure over the time of some samples."""
    length_ns = sum(sample.t_ns - sample.from_ns for sample in samples)
    weighed = (figure(sample) * (sample.t_ns - sample.from_ns) for sample in samples)
    return sum(weighed) / length_ns


def _waited(name: str, sample: SchedulingSample) -> float:
    return sample.waits[name].waited if name in sample.waits else 0.0
