"""What a failure lane expects beyond the delivery contract, as data."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from .contract import Contract, ContractError
from .verdict import Json

Ends = Literal["completed", "failed", "refused"]

LANE_RULES: Final[dict[str, str]] = {
    "lane-dispatch": "a dispatch was answered otherwise than the lane expects, or was never made",
    "lane-ends": "a job of the lane did not end as expected, or not exactly once",
    "lane-starts": "a job started more or less often, or under other numbers than expected",
    "lane-failed": "give-up records, dead letters or failed-job rows are not the expected ids",
    "lane-cause": "a job was given up for another cause than the lane expects",
    "lane-gap": "a job ran again sooner or later than the lane allows",
    "lane-workers": "more workers died, or fewer took part, than the lane expects",
    "lane-old-worker": "a worker outlived the run that its timeout ended",
    "lane-time": "the lane took longer than it may",
    "lane-idle": "no job ran for longer than the lane allows though some were still to be done",
    "lane-burst": "more runs began within a time than the lane allows",
    "lane-probe": "the supervisor's answers about itself were not as the lane expects",
    "lane-pops": "the workers asked for jobs more often than the lane allows",
    "lane-counts": "the broker's counts of done and failed jobs are not what was done",
    "lane-owner": "a supervisor was not refused a state directory that is not its own alone",
}


class JobsExpected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is expected of each of some jobs that behave alike.

    Attributes:
        jobs: Their ids.
        ends: `completed` once; `failed`, which is given up; `refused`, never dispatched.
        starts_min: Fewest runs.
        starts_max: Most runs.
        runs: Attempt number of each run, in order of time; empty where a range is enough.
        pickups: The same of each pickup, refused ones included.
        cause: Why it is given up; empty where any cause will do.
        gap_s_min: Shortest time from the end of a run to the next start.
        gap_s_max: Longest such time; None for no bound.
        again_s_min: Shortest time from the start of a run to the next start.
        twice: It may complete more than once, where the contract explains that.
        burst_max: So many runs of all of them at most begin within `burst_s` of their first one;
            0 for any number.
        burst_s: See `burst_max`.
    """

    jobs: tuple[str, ...]
    ends: Ends = "completed"
    starts_min: int = 1
    starts_max: int = 1
    runs: tuple[int, ...] = ()
    pickups: tuple[int, ...] = ()
    cause: str = ""
    gap_s_min: float = 0.0
    gap_s_max: float | None = None
    again_s_min: float = 0.0
    twice: bool = False
    burst_max: int = 0
    burst_s: float = 0.0


class ProbesExpected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a supervisor is to say of itself while its broker is silent.

    Attributes:
        code: Reason that it is to give for not being ready.
        after_s: It gives it so long after the fault began, at the latest, until the fault heals.
        again_s: So long after that it is ready, and stays so.
    """

    code: str
    after_s: float
    again_s: float


class CountsExpected(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the broker is to have counted at some moment.

    Attributes:
        processed: Jobs acknowledged as done.
        failed: Jobs given up, each of which is a dead letter.
    """

    processed: int
    failed: int


class LaneContract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contract of a lane; `scenario.json` stores it whole.

    Attributes:
        lane: Name of the lane.
        profile: Name of the profile.
        attempts: The delivery contract, which holds here too.
        jobs: What is expected of the jobs, group by group.
        again_min: So many jobs at least start more than once.
        pids_min: So many processes at least run jobs.
        deaths_max: So many workers at most die before the end; None for any number.
        lane_s_max: Longest time from the first dispatch to the last act.
        idle_s_max: Longest time in which no job runs though one is still to be done.
        pops_per_job_max: Most pops for each job; None where they are not counted.
        killed_max: So many workers at most are killed before the end, timeouts left out; None for
            any number.
        restarts: So many times new code was put in place.
        probes: What the supervisor is to say of itself; None where it is not asked.
        counts: What the broker is to have counted, each time that it is asked.
        strangers: What is wrong with each state directory that a supervisor is to be refused.
    """

    lane: str
    profile: str
    attempts: Contract
    jobs: tuple[JobsExpected, ...]
    lane_s_max: float
    idle_s_max: float
    again_min: int = 0
    pids_min: int = 0
    deaths_max: int | None = None
    pops_per_job_max: float | None = None
    killed_max: int | None = None
    restarts: int = 0
    probes: ProbesExpected | None = None
    counts: tuple[CountsExpected, ...] = ()
    strangers: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return the contract as the object that `scenario.json` holds."""
        plain: dict[str, Json] = msgspec.to_builtins(self)
        return plain


def lane_contract_from_json(plain: dict[str, Json]) -> LaneContract:
    """Turn the object that `scenario.json` holds back into a contract; raises ContractError."""
    try:
        return msgspec.convert(plain, LaneContract)
    except msgspec.ValidationError as error:
        raise ContractError(f"lane contract: {error}") from error
