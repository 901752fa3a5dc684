"""How fast faults take effect and heal is read from their evidence."""

from __future__ import annotations

from atleastonce.checkers.latency import Latency, heal_of, measure, onset_of
from atleastonce.histories.faults import Fault


def fault(kind: str, onset_ms: float | None, heal_ms: float | None) -> Fault:
    effect = {} if onset_ms is None else {"onset_ms": onset_ms}
    healed = {} if heal_ms is None else {"heal_ms": heal_ms}
    evidence = {"effect": effect, "healed": healed}
    return Fault("f", kind, "n1", 1, 1, 2, 3, 4, evidence)  # type: ignore[arg-type]


def test_median_and_worst_are_told_by_kind() -> None:
    faults = [fault("b", 3, 30), fault("b", 1, 10), fault("b", 2, 20), fault("a", 5, None)]
    assert measure(faults) == [
        Latency("a", 1, (5, 5), None),
        Latency("b", 3, (2, 3), (20, 30)),
    ]


def test_a_fault_that_nobody_measured_is_left_out() -> None:
    unmeasured = fault("a", None, 3)
    assert measure([unmeasured]) == []
    assert onset_of(unmeasured) is None
    assert heal_of(unmeasured) == 3
