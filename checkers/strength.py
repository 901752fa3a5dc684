"""What a verdict rests on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from ..histories.dispatches import FAIL, OK, UNKNOWN
from .contract import RULES
from .coverage import fault_coverage
from .facts import RAN, REFUSED, UNSTARTED
from .verdict import Json, RuleResult
from .world import World

_PER_RUN = ("phantom", "overlap", "attempt-number", "early", "timeout-not-enforced", "stale-code")
_PER_FAULT_OR_TIME = ("process-leaked", "stall", "pace")


def state_strength(
    world: World, rules: Mapping[str, RuleResult], explained: Mapping[str, Counter[str]]
) -> dict[str, Json]:
    """State how much was judged, which faults bit, what they hit, and what was explained.

    `bounds_95` holds, for each rule without a violation, the upper 95 % bound on its rate: three
    divided by the number of attempts or jobs that it was judged on.
    """
    table, dispatches = world.facts.deliveries, world.run.dispatches
    pickups = int(np.count_nonzero(table.kind != UNSTARTED))
    seen = np.zeros(len(world.run.attempts.jobs), np.bool_)
    seen[table.job] = True
    seen[dispatches.job] = True
    jobs = int(np.count_nonzero(seen))
    kinds = Counter(window.fault.kind for window in world.windows.all)
    bounds: dict[str, Json] = {}
    for rule in RULES:
        judged = pickups if rule in _PER_RUN else jobs
        if rules[rule].valid is True and rule not in _PER_FAULT_OR_TIME and judged:
            bounds[rule] = min(1.0, 3 / judged)
    results = {"ok": OK, "fail": FAIL, "info": UNKNOWN}
    starvation = world.starvation.to_json()
    return {
        "attempts": pickups,
        "runs": int(np.count_nonzero(table.kind == RAN)),
        "refused": int(np.count_nonzero(table.kind == REFUSED)),
        "unstarted_deliveries": int(np.count_nonzero(table.kind == UNSTARTED)),
        "jobs": jobs,
        "dispatches": {
            name: int(np.count_nonzero(dispatches.result == code)) for name, code in results.items()
        },
        "processes": len(world.run.attempts.processes),
        "fault_windows": dict(kinds),
        "fault_coverage": {kind: dict(hits) for kind, hits in fault_coverage(world).items()},
        "explained": {rule: dict(reasons) for rule, reasons in explained.items() if reasons},
        "explained_duplicates": explained["completed-twice"].total(),
        "torn_files": len(world.run.torn),
        **({"starvation": starvation} if starvation else {}),
        "bounds_95": bounds,
    }
