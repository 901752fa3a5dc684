"""What the command line asked for, before it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..nemesis.levels import AUTO
from ..nemesis.plan_file import PlanFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What the command line asked for, unchecked; an empty workload is one that fits the bugs.

    A lane has nodes of its own number unless `lane_nodes` says otherwise.

    Attributes:
        targets: What a nemesis hits in place of what is drawn, by its name.
        plan: A plan file, which stands in for the nemeses.
        plan_path: Where the plan file is, for people.
        swarm: Whether the seed draws which of the nemeses there are; of all that fit, if none is
            named.
        level: Of the machine; packages and swarms take what it lets them.
        capture: Whether what goes over the links is recorded.
    """

    workload: str
    nemeses: tuple[str, ...]
    nodes: int
    workers: int
    time_limit_s: float
    rate: float | None
    interval_s: float
    seed: int | None
    settings: tuple[str, ...]
    bugs: tuple[str, ...]
    lane: str = ""
    profile: str = ""
    lane_nodes: int | None = None
    targets: Mapping[str, str] = field(default_factory=dict)
    plan: PlanFile | None = None
    plan_path: str = ""
    swarm: bool = False
    level: str = AUTO
    capture: bool = False
