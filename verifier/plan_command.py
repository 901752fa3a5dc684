"""What `verify plan` prints: the plan as a file that can be edited, and as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from ..nemesis.fault import Fault
from ..nemesis.plan_file import write_plan_file
from .scenario import Scenario
from .tables import table


def plan_text(scenario: Scenario) -> str:
    """Return the text of a plan file for `verify run --plan`."""
    return write_plan_file(scenario.plan, scenario.seed, scenario.time_limit_s, scenario.nemeses)


def plan_lines(scenario: Scenario) -> Iterator[str]:
    """Yield the plan as a table, one fault a line, in order of time."""
    told = f"seed {scenario.seed}, {scenario.time_limit_s:g} s, {len(scenario.plan)} faults"
    yield f"{scenario.workload} under {scenario.nemesis}: {told}"
    yield from scenario.notes
    if scenario.plan:
        yield ""
        yield from table(
            ("at", "fault", "target", "lasts", "options"), _rows(scenario.plan), "><<><"
        )


def _rows(plan: Sequence[Fault]) -> list[tuple[str, ...]]:
    return [
        (
            f"{'+' if fault.after else ''}{fault.at_s:.1f} s",
            fault.id,
            fault.target,
            f"{fault.duration_s:.1f} s",
            " ".join([*_options(fault), *([f"after {fault.after}"] if fault.after else [])]),
        )
        for fault in plan
    ]


def _options(fault: Fault) -> Iterator[str]:
    for name, value in fault.options.items():
        yield f"{name}={msgspec.json.encode(value).decode()}"
