"""Fault windows: when a fault may explain what happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..histories.faults import Fault
from .contract import Contract, FaultKinds
from .intervals import merge
from .verdict import Json

NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class FaultWindow:
    """One fault that bit, from "seen in effect" to "seen at work again" plus the recovery bound.

    One of a supervisor begins when it was opened: a master that is asked to stop is seen in effect
    only when its last worker is done, and the others left long before. So does one of several
    steps.

    Attributes:
        fault: The fault.
        from_ns: Seen in effect, or opened.
        healed_ns: Seen healed; the end of the history where it never was.
        until_ns: End of the window.
    """

    fault: Fault
    from_ns: int
    healed_ns: int
    until_ns: int

    def touches(self, from_ns: int, until_ns: int) -> bool:
        """Whether it has a moment in common with [from_ns, until_ns]."""
        return self.from_ns <= until_ns and from_ns <= self.until_ns

    def to_json(self) -> dict[str, Json]:
        """Return it for a witness."""
        return {
            "fault": self.fault.id,
            "kind": self.fault.kind,
            "target": self.fault.target,
            "pid": self.fault.pid,
            "from_ns": self.from_ns,
            "healed_ns": self.healed_ns,
            "until_ns": self.until_ns,
        }


class Windows:
    """All fault windows of a run, by what they may explain.

    Attributes:
        all: Windows of all faults that bit.
        lost: Those that took away a node or the lease holder: they may charge a lease.
        path: Those that could cut a worker's way to the broker.
        pause: Those that stopped a process for a while.
        open: Times with any window open, disjoint and in order.
        open_beside_workers: The same without faults of single workers.
    """

    def __init__(self, faults: Iterable[Fault], contract: Contract, end_ns: int):
        kinds = contract.faults
        recovery_ns = round(contract.bounds.recovery_s * NS)
        self.all: tuple[FaultWindow, ...] = tuple(
            _window(fault, recovery_ns, end_ns, kinds) for fault in faults if fault.bit
        )
        self.lost = self._of(kinds.lost)
        self.path = self._of((*kinds.node, *kinds.pause))
        self.pause = self._of(kinds.pause)
        self.open = merge((window.from_ns, window.until_ns) for window in self.all)
        self.open_beside_workers = merge(
            (window.from_ns, window.until_ns)
            for window in self.all
            if window.fault.kind not in kinds.worker
        )

    def _of(self, kinds: Sequence[str]) -> tuple[FaultWindow, ...]:
        return tuple(window for window in self.all if window.fault.kind in kinds)

    def around(self, from_ns: int, until_ns: int) -> list[FaultWindow]:
        """Return the windows that touch an interval."""
        return [window for window in self.all if window.touches(from_ns, until_ns)]


def first_touching(
    windows: Sequence[FaultWindow], from_ns: int, until_ns: int
) -> FaultWindow | None:
    """Return the first window that touches an interval, or None."""
    return next((window for window in windows if window.touches(from_ns, until_ns)), None)


def _window(fault: Fault, recovery_ns: int, end_ns: int, kinds: FaultKinds) -> FaultWindow:
    assert fault.effect_ns is not None, f"fault {fault.id} never bit"
    healed = fault.healed_ns
    if healed is None:
        healed = fault.recovered_ns
    if healed is None:
        healed = fault.effect_ns if fault.kind in kinds.worker else end_ns
    recovered = healed if fault.recovered_ns is None else max(healed, fault.recovered_ns)
    begun = fault.effect_ns
    if fault.kind in (*kinds.supervisor, *kinds.stepwise) and fault.opened_ns is not None:
        begun = min(begun, fault.opened_ns)
    return FaultWindow(fault, begun, healed, recovered + recovery_ns)
