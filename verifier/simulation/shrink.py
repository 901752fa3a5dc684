"""Make a failing schedule small: delta debugging over its faults."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from .faults import Fault
from .simulation import Scenario, run


class Shrunk(NamedTuple):
    """A smaller run with the same violation, and how many runs finding it took."""

    scenario: Scenario
    runs: int


def shrink(scenario: Scenario, oracle: str, runs_max: int = 300) -> Shrunk:
    """Leave out faults as long as the same oracle is violated.

    This is ddmin (Zeller and Hildebrandt 2002): no single fault of the result can be left out,
    unless `runs_max` ended the search first. The scenario itself must violate `oracle`.
    """
    faults = scenario.schedule
    runs = 0
    parts = 2
    while len(faults) > 1 and runs < runs_max:
        size = -(-len(faults) // parts)
        for start in range(0, len(faults), size):
            rest = faults[:start] + faults[start + size :]
            runs += 1
            if _violates(scenario, rest, oracle):
                faults = rest
                parts = max(2, parts - 1)
                break
        else:
            if size == 1:
                break
            parts = min(len(faults), parts * 2)
    if len(faults) == 1 and _violates(scenario, (), oracle):
        faults = ()
    return Shrunk(msgspec.structs.replace(scenario, schedule=faults), runs)


def _violates(scenario: Scenario, faults: tuple[Fault, ...], oracle: str) -> bool:
    outcome = run(msgspec.structs.replace(scenario, schedule=faults))
    return outcome.violation is not None and outcome.violation.oracle == oracle
