"""A lane made concrete: scaled times, jobs with ids, and what is expected of each."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from ...checkers.contract import Contract
from ...checkers.lane_contract import (
    CountsExpected,
    JobsExpected,
    LaneContract,
    ProbesExpected,
)
from ...histories.attempts import payload_digest
from ...histories.ops import Json
from .application import LANE_JOB, LanePayload
from .lane import OWN_PARTITIONS, Group, Lane, LaneFault, Profile, Trigger, When

DRAIN_S: Final = 25.0
"""A lane that is not done this long after its time and one lease is not waited for any more."""

SILENT_CODE: Final = "not-consuming"
"""Reason that a supervisor gives whose workers get no jobs."""

_ID: Final = "$ID"
_NOT_A_JOB: Final = "not_a_job"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneJob:
    """One message that a lane sends.

    Attributes:
        id: Id of the job and of the message.
        group: Name of its group.
        when: See `Group`.
        every_s: Pause before the next one.
        payload: What its body will read; None for what is not a job.
        raw: The message itself, where it is not as the driver would write it.
        tries: Tries; 0 for what is not a job.
        backoff_s: Pause after a throw.
        timeout_s: Longest run.
        partition: Where it goes; empty for anywhere.
        digest: Of the payload, as the stores will tell it.
    """

    id: str
    group: str
    when: When
    every_s: float
    payload: Mapping[str, Json] | None
    raw: bytes | None
    tries: int
    backoff_s: float
    timeout_s: float
    partition: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LanePlan:
    """A lane that is about to run.

    Attributes:
        lane: The lane.
        profile: Its profile.
        scale: Share of the reference's times.
        jobs: What is sent, in order.
        fault: What breaks, as it will be: jobs by id, times scaled; None for nothing.
        also: What breaks beside it, likewise.
        restart: When new code is put in place, likewise.
    """

    lane: Lane
    profile: Profile
    scale: float
    jobs: tuple[LaneJob, ...]
    fault: LaneFault | None
    also: LaneFault | None = None
    restart: Trigger | None = None

    @property
    def name(self) -> str:
        """Name of lane and profile."""
        return f"{self.lane.name}-{self.profile.name}"

    def contract(self, attempts: Contract) -> LaneContract:
        """Return what is expected, with a delivery contract whose bounds are those of the run."""
        lane, scale = self.lane, self.scale
        if lane.refuses_at_once:
            causes = (*attempts.clauses.early_give_up_causes, _NOT_A_JOB)
            clauses = msgspec.structs.replace(attempts.clauses, early_give_up_causes=causes)
            attempts = msgspec.structs.replace(attempts, clauses=clauses)
        waivers = {**attempts.waivers, **lane.waives}
        attempts = msgspec.structs.replace(attempts, waivers=waivers)
        return LaneContract(
            lane=lane.name,
            profile=self.profile.name,
            attempts=attempts,
            jobs=tuple(self._expected(group, attempts.bounds.lease_s) for group in lane.groups),
            again_min=lane.again_min,
            pids_min=lane.pids_min,
            deaths_max=lane.deaths_max,
            lane_s_max=round(lane.lane_s * scale + lane.margin_s, 3),
            idle_s_max=round(lane.idle_s * scale + lane.margin_s, 3),
            pops_per_job_max=lane.pops_per_job_max,
            killed_max=lane.killed_max,
            restarts=int(lane.restart is not None),
            probes=self._probes(),
            counts=tuple(CountsExpected(processed=p, failed=f) for p, f in lane.counts),
            strangers=lane.strangers,
        )

    def _probes(self) -> ProbesExpected | None:
        if self.lane.silent_s is None:
            return None
        return ProbesExpected(
            code=SILENT_CODE,
            # A pop is first waited for, and a status is written now and then.
            after_s=round(self.lane.silent_s * self.scale + self.lane.margin_s, 3),
            again_s=round(self.lane.silent_s * self.scale + self.lane.margin_s, 3),
        )

    def _expected(self, group: Group, lease_s: float) -> JobsExpected:
        again_s = 0.0
        if group.again_s_short is not None and "prefetch=1" in self.profile.settings:
            again_s = max(0.0, lease_s - group.again_s_short * self.scale)
        return JobsExpected(
            jobs=tuple(job.id for job in self.jobs if job.group == group.name),
            ends=group.ends,
            starts_min=group.starts[0],
            starts_max=group.starts[1],
            runs=group.runs,
            pickups=group.pickups,
            cause=group.cause,
            gap_s_min=round(group.gap_s_min * self.scale, 4),
            again_s_min=round(again_s, 4),
            twice=group.twice,
            burst_max=group.burst[0],
            burst_s=round(group.burst[1] * self.scale, 4),
        )


def lane_settings(lane: Lane, profile: Profile, scale: float) -> tuple[str, ...]:
    """Return the settings of a lane as `KEY=VALUE`; what is named last holds.

    The scaled timeout is rounded up to whole seconds, as the workers' setting wants it, and stays
    below the lease.
    """
    retry_after_s = max(3.0, lane.retry_after_s * scale)
    timeout_s = max(1, min(round(lane.timeout_s * scale + 0.49), int(retry_after_s - 0.01)))
    grace_s = max(timeout_s + 1.0, lane.grace_s * scale)
    drain_s = lane.lane_s * scale + lane.margin_s + retry_after_s + DRAIN_S
    return (
        f"lane_scale={scale:g}",
        f"retry_after_s={retry_after_s:g}",
        f"job_timeout_s={timeout_s}",
        f"shutdown_grace_s={grace_s:g}",
        f"drain_deadline_s={drain_s:g}",
        *(() if lane.silent_s is None else (f"not_consuming_after_s={lane.silent_s * scale:g}",)),
        *profile.settings,
        *lane.settings,
    )


def plan_lane(lane: Lane, profile: Profile, seed: int, scale: float) -> LanePlan:
    """Make a lane concrete; the seed makes the ids, and so the partitions, of its jobs."""
    stream = random.Random(f"{seed}/lane/{lane.name}")
    jobs = tuple(job for group in lane.groups for job in _jobs(lane, group, scale, stream))
    ids = {job.id.rsplit("-", 1)[0]: job.id for job in jobs}

    def named(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(ids[name.replace("/", "-")] for name in names)

    def moment(when: Trigger) -> Trigger:
        return Trigger(
            starts=when.starts,
            started=named(when.started),
            ended=named(when.ended),
            after_s=when.after_s * scale,
        )

    def scaled(fault: LaneFault | None) -> LaneFault | None:
        if fault is None:
            return None
        return replace(fault, down_s=round(fault.down_s * scale, 3), when=moment(fault.when))

    return LanePlan(
        lane=lane,
        profile=profile,
        scale=scale,
        jobs=jobs,
        fault=scaled(lane.fault),
        also=scaled(lane.also),
        restart=None if lane.restart is None else moment(lane.restart),
    )


def _jobs(lane: Lane, group: Group, scale: float, stream: random.Random) -> Iterator[LaneJob]:
    timeout_s = lane.timeout_s if group.timeout_s is None else group.timeout_s
    body = LanePayload(
        acts=group.acts,
        work_ms=round(group.work_s * scale * 1000),
        grow_mib=group.grow_mib,
        release_s=round(group.release_s * scale, 4),
    )
    plain: dict[str, Json] = msgspec.to_builtins(body)
    for number in range(group.jobs):
        id_ = f"{group.name}-{number}-{stream.getrandbits(32):08x}"
        payload: dict[str, Json] | None = {**plain, "mark": id_}
        raw: bytes | None = None
        if group.payloads:
            payload, raw = None, group.payloads[number].replace(_ID, id_).encode()
        job = LaneJob(
            id=id_,
            group=group.name,
            when=group.when,
            every_s=group.every_s * scale,
            payload=payload,
            raw=raw,
            tries=0 if raw is not None else group.tries,
            backoff_s=round(group.backoff_s * scale, 4),
            timeout_s=round(timeout_s * scale, 4),
            partition=f"p-{number:04d}" if group.partition == OWN_PARTITIONS else group.partition,
            digest=message_digest(raw) if raw is not None else payload_digest(payload),
        )
        yield _with_text_timeout(job) if group.text_timeout else job


def _with_text_timeout(job: LaneJob) -> LaneJob:
    """Return a job whose message carries its timeout as text."""
    body = {
        "job": LANE_JOB,
        "id": job.id,
        "data": job.payload,
        "partition": job.partition or None,
        "tries": job.tries,
        "timeout_s": f"{job.timeout_s:g}",
    }
    raw = msgspec.json.encode({"_job": {key: value for key, value in body.items() if value}})
    return replace(job, raw=raw)


class _Named(msgspec.Struct):
    job: str
    id: str
    data: msgspec.Raw


class _Envelope(msgspec.Struct):
    body: _Named = msgspec.field(name="_job")


def message_digest(payload: bytes) -> str:
    """Return the digest by which a message is compared: of its job's data, or else of all of it."""
    try:
        data = msgspec.json.decode(payload, type=_Envelope).body.data
    except msgspec.MsgspecError:
        return hashlib.sha256(payload).hexdigest()[:32]
    return payload_digest(msgspec.json.decode(data))
