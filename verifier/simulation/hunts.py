"""For each planted defect that the simulator must see: the runs that bring it out.

A hunt narrows faults and knobs to what the defect needs. The swarm finds most of them too, only
later; `commit-old-term` it practically never finds.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from ...system.bugs import BUGS
from .faults import LEADER, Fault, random_schedule
from .knobs import Knobs, random_knobs
from .simulation import Outcome, Scenario, run
from .streams import Stream


class Hunt(NamedTuple):
    """How to look for one defect.

    Attributes:
        kinds: Kinds of faults, all in every run.
        density: Faults of one kind at the most.
        knobs: Knobs that differ from the drawn ones, by name.
        schedule: Faults to use as they are, instead of drawn ones.
    """

    kinds: tuple[str, ...] = ()
    density: int = 5
    knobs: tuple[tuple[str, int], ...] = ()
    schedule: tuple[Fault, ...] = ()


PLAIN: Final = {"spares": 0, "checkpoint_every": 0, "change_pause_us": 0}
"""Knobs of a hunt that needs neither snapshots nor changes of the membership."""

HUNTS: Final[dict[str, Hunt]] = {
    "vote-not-persisted": Hunt(("snipe", "bounce"), density=12),
    "double-vote": Hunt(("bounce", "isolate", "noise")),
    "no-up-to-date-check": Hunt(("bounce", "isolate")),
    "quorum-off-by-one": Hunt(("split",), knobs=(("nodes", 3),)),
    "always-truncate": Hunt(("noise",), knobs=(("max_inflight_appends", 64),)),
    "ack-wrong-term": Hunt(("isolate", "pause"), knobs=(("read_percent", 0),)),
    "no-noop-on-win": Hunt(("bounce",), knobs=(("read_percent", 60),)),
    # Figure 8 of the Raft paper: leaders that die right after they won, having sent entries of
    # earlier terms one by one, and no entry of their own.
    "commit-old-term": Hunt(
        knobs=(
            ("nodes", 3),
            ("max_append_entries", 1),
            ("max_inflight_appends", 1),
            ("election_ms_min", 100),
            ("heartbeat_ms", 40),
            ("sync_us", 150),
            ("think_us", 2_000),
            ("clients", 4),
            ("read_percent", 0),
            ("payloads_max", 3),
        ),
        schedule=(Fault(300_000, "kill-chain", LEADER, 7_500_000, 4),),
    ),
    "commit-by-minority": Hunt(("isolate", "pause")),
    # A snapshot that is seconds late meets a log that has gone on without it.
    "snapshot-overwrites-newer-log": Hunt(
        ("bounce", "isolate", "pause"),
        knobs=(
            ("checkpoint_every", 3),
            ("snapshot_us_max", 2_000_000),
            ("read_percent", 0),
            ("think_us", 5_000),
        ),
    ),
    # A leader that is cut off takes voter after voter out until it is a majority by itself.
    "config-change-before-commit": Hunt(
        ("isolate", "split"),
        density=8,
        knobs=(("change_pause_us", 2_000), ("nodes", 3), ("read_percent", 0)),
    ),
}


class Catch(NamedTuple):
    """What a hunt caught.

    Attributes:
        scenario: The run.
        outcome: Its outcome, with a violation.
        seeds: Runs it took.
        simulated_us: Simulated time it took.
    """

    scenario: Scenario
    outcome: Outcome
    seeds: int
    simulated_us: int


def hunt_scenario(bug: str, seed: int) -> Scenario:
    """Return the run of a hunt that a seed stands for."""
    assert bug in BUGS, f"no planted defect {bug!r}"
    hunt = HUNTS[bug]
    drawn = msgspec.structs.asdict(random_knobs(Stream(seed, "knobs")))
    knobs = msgspec.convert({**drawn, **PLAIN, **dict(hunt.knobs)}, Knobs)
    schedule = hunt.schedule or random_schedule(
        Stream(seed, "schedule"), knobs, hunt.kinds, hunt.density
    )
    return Scenario(seed, knobs, schedule, (bug,))


def hunt(bug: str, seeds: int, first_seed: int = 0) -> Catch | None:
    """Run a hunt until a violation; None when all seeds stay clean."""
    simulated_us = 0
    for seed in range(first_seed, first_seed + seeds):
        scenario = hunt_scenario(bug, seed)
        outcome = run(scenario)
        simulated_us += outcome.simulated_us
        if outcome.violation is not None:
            return Catch(scenario, outcome, seed - first_seed + 1, simulated_us)
    return None
