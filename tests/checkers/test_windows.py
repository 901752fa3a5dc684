"""When a fault may explain what happened."""

from __future__ import annotations

import pytest

from atleastonce.checkers.contract import load_contract
from atleastonce.checkers.windows import NS, Windows
from atleastonce.histories.faults import Fault


def _fault(kind: str) -> Fault:
    """Opened at 10 s, seen in effect at 20, healed at 22, recovered at 23."""
    return Fault("f1", kind, "target", 7, 10 * NS, 20 * NS, 22 * NS, 23 * NS)


@pytest.mark.parametrize(
    ("kind", "from_s"),
    [("term-supervisor", 10), ("kill-supervisor", 10), ("pause-leader", 20), ("kill-worker", 20)],
)
def test_window_of_a_supervisor_begins_when_it_is_asked_to_stop(kind: str, from_s: int) -> None:
    (window,) = Windows([_fault(kind)], load_contract(recovery_s=3), 90 * NS).all

    assert (window.from_ns, window.until_ns) == (from_s * NS, 26 * NS)
