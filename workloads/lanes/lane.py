"""What a lane is made of. Times are those of the reference design; a run scales them all alike.

The reference's settings are a timeout of 20 s, a lease of 30 s and a grace of 35 s. A scale of 0.2
keeps their proportions and makes a lane of minutes one of seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from ...checkers.lane_contract import Ends

When = Literal["first", "down", "after"]
Act = Literal[
    "work",
    "throw",
    "throw-bytes",
    "release",
    "fail",
    "kill",
    "abort",
    "exit",
    "fork",
    "grow",
]

ACTS: Final[Mapping[Act, str]] = {
    "work": "works for its time and completes",
    "throw": "throws",
    "throw-bytes": "throws an error whose text no UTF-8 can hold",
    "release": "releases itself",
    "fail": "calls fail()",
    "kill": "kills its own process with SIGKILL",
    "abort": "aborts its own process, as a fatal error does",
    "exit": "ends its own process with _exit",
    "fork": "forks a child that returns at once, then works for its time and completes",
    "grow": "takes memory and keeps it, then completes",
}
ANY_PARTITION: Final = ""
ONE_PARTITION: Final = "p-0000"
OWN_PARTITIONS: Final = "*"
"""For jobs that have to run at once: by their ids two may fall into one partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Jobs that behave alike, and what is expected of each; see `JobsExpected` for the latter.

    Attributes:
        name: Its jobs are `name-0-…`, `name-1-…` and so on.
        jobs: How many.
        acts: What its first, second, … attempt does; the last one repeats.
        work_s: How long `work` and `fork` last.
        grow_mib: How much memory `grow` takes.
        release_s: Delay of `release`.
        tries: Tries of each.
        backoff_s: Pause after a throw.
        timeout_s: Timeout of each; None for the lane's.
        text_timeout: The timeout travels as text, such as `"3"`.
        partition: Where all of them go; empty for anywhere, `*` for a partition of its own each.
        payloads: What travels instead of jobs, as JSON; one message each.
        when: Dispatched first, while the fault is open, or after it has healed.
        awaits_start: Dispatched only when all jobs before it have started.
        every_s: Pause between two dispatches.
        ends: See `JobsExpected`.
        starts: Fewest and most runs.
        runs: See `JobsExpected`.
        pickups: See `JobsExpected`.
        cause: See `JobsExpected`.
        gap_s_min: See `JobsExpected`.
        again_s_short: A run that its timeout ended starts again no sooner than one lease less this
            after its start, where no other job waited behind it; None for no bound.
        twice: See `JobsExpected`.
        burst: `burst_max` and `burst_s` of `JobsExpected`.
    """

    name: str
    jobs: int
    acts: tuple[Act, ...] = ("work",)
    work_s: float = 0.0
    grow_mib: int = 0
    release_s: float = 0.0
    tries: int = 3
    backoff_s: float = 0.0
    timeout_s: float | None = None
    text_timeout: bool = False
    partition: str = ANY_PARTITION
    payloads: tuple[str, ...] = ()
    when: When = "first"
    awaits_start: bool = False
    every_s: float = 0.0
    ends: Ends = "completed"
    starts: tuple[int, int] = (1, 1)
    runs: tuple[int, ...] = ()
    pickups: tuple[int, ...] = ()
    cause: str = ""
    gap_s_min: float = 0.0
    again_s_short: float | None = None
    twice: bool = False
    burst: tuple[int, float] = (0, 0.0)


PLUG: Final = Group(name="plug", jobs=1, work_s=5, runs=(1,))
"""Keeps the only worker busy while what comes after it is dispatched, so that it is one batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """The observed moment at which the fault begins: all of it must have been seen.

    Attributes:
        starts: So many runs were recorded.
        started: Jobs whose run was recorded, as `group/number`.
        ended: Jobs one of whose runs was recorded to have ended.
        after_s: And then so long, counted from the last of the first dispatches.
    """

    starts: int = 0
    started: tuple[str, ...] = ()
    ended: tuple[str, ...] = ()
    after_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneFault:
    """What breaks.

    Attributes:
        kind: A name of `NEMESES`.
        down_s: How long it lasts.
        when: The moment.
        each: Every supervisor is hit in its turn; else the one whose worker ran the first job.
    """

    kind: str
    down_s: float
    when: Trigger
    each: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """One lane: jobs, a fault, and what must come of them.

    Attributes:
        name: What `verify run --lane` takes.
        sentence: What happens in it.
        groups: The jobs; group by group they are dispatched.
        fault: What breaks; None where the jobs themselves do.
        also: What breaks beside it, `after_s` of its trigger later; None for nothing.
        restart: When the supervisor is asked to put new code in place; None for never.
        silent_s: The supervisor is asked about itself all the time, and says so long after the
            fault began that its workers get no jobs. None where it is not asked.
        scale: Share of the reference's times that it runs at, unless told otherwise.
        workers: Worker processes of each supervisor.
        replicas: Supervisors.
        nodes: Nodes of the broker.
        timeout_s: Timeout of a job that has no other.
        retry_after_s: Lease of a delivery.
        grace_s: What a stopping supervisor gives its workers.
        settings: Further settings of `verify run`, as text; they are not scaled.
        lane_s: Longest time from first dispatch to last act, at scale 1.
        idle_s: Longest time without a run while some job is still to be done, at scale 1.
        margin_s: What both have beyond that at any scale: starts of processes, elections.
        again_min: See `LaneContract`.
        pids_min: See `LaneContract`.
        deaths_max: See `LaneContract`.
        pops_per_job_max: See `LaneContract`.
        killed_max: See `LaneContract`.
        waives: Rules of the delivery contract that do not hold here, and why.
        refuses_at_once: What is not a job is given up without a run.
        counts: Jobs processed and jobs failed that the broker is to have counted when the first
            jobs are over, and at the end; empty where it is not asked.
        strangers: Once a job has started, a supervisor is started in a state directory of each of
            these kinds, and is to be refused; what comes after is dispatched then.
        not_in: Profiles that it does not run in, and why.
    """

    name: str
    sentence: str
    groups: tuple[Group, ...]
    fault: LaneFault | None = None
    also: LaneFault | None = None
    restart: Trigger | None = None
    silent_s: float | None = None
    scale: float = 0.2
    workers: int = 2
    replicas: int = 1
    nodes: int = 1
    timeout_s: float = 20.0
    retry_after_s: float = 30.0
    grace_s: float = 35.0
    settings: tuple[str, ...] = ()
    lane_s: float
    idle_s: float = 0.0
    margin_s: float = 6.0
    again_min: int = 0
    pids_min: int = 0
    deaths_max: int | None = None
    pops_per_job_max: float | None = None
    killed_max: int | None = None
    waives: Mapping[str, str] = field(default_factory=dict)
    refuses_at_once: bool = False
    counts: tuple[tuple[int, int], ...] = ()
    strangers: tuple[str, ...] = ()
    not_in: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Profile:
    """How the workers take jobs.

    Attributes:
        name: What `--profile` takes.
        sentence: What it means.
        settings: Settings of `verify run`.
    """

    name: str
    sentence: str
    settings: tuple[str, ...]


PROFILES: Final[dict[str, Profile]] = {
    profile.name: profile
    for profile in (
        Profile(
            "plain",
            "one job at a time, each ack awaited",
            ("prefetch=1", "ack_async=false", "pop_ahead=false"),
        ),
        Profile(
            "fast",
            "four jobs at a time, acks while the next job runs, batches asked for ahead",
            ("prefetch=4", "ack_async=true", "pop_ahead=true"),
        ),
    )
}
