"""Lanes as data: each can be run as it stands, at any scale, and is the same for a seed."""

from __future__ import annotations

import dataclasses
import time

import msgspec
import pytest

from atleastonce.checkers.contract import RULES, load_contract
from atleastonce.checkers.lane_contract import LANE_RULES, lane_contract_from_json
from atleastonce.nemesis.registry import NEMESES
from atleastonce.system.bugs import BUGS
from atleastonce.system.jobs import JobContext, NotAJobError, decode_job
from atleastonce.workloads.lanes.application import LaneJobError, run_lane_job
from atleastonce.workloads.lanes.defects import CATCHES
from atleastonce.workloads.lanes.lane import ACTS, PROFILES, Lane
from atleastonce.workloads.lanes.plan import lane_settings, message_digest, plan_lane
from atleastonce.workloads.lanes.registry import LANES

PLAIN = PROFILES["plain"]
CONTEXT = JobContext("j", "lane", 1, 3, "run", "lease", "jobs", "p-0000")


def test_every_lane_of_the_reference_that_needs_one_supervisor_is_there() -> None:
    wanted = (
        "exception-retry exception-once release-and-fail job-timeout memory-limit memory-fatal "
        "worker-kill master-kill stop-short stop-long stop-long-batch backend-restart pause-short "
        "pause-long dispatch-backend-down death-timeout death-sigkill death-release-timeout "
        "death-release-sigkill poison-messages string-timeout binary-failure fork-in-job "
        "job-metrics install-owner"
    )

    assert set(wanted.split()) <= LANES.keys()


@pytest.mark.parametrize("lane", LANES.values(), ids=lambda each: each.name)
def test_a_lane_expects_something_of_every_job_that_it_sends(lane: Lane) -> None:
    plan = plan_lane(lane, PLAIN, 7, lane.scale)
    contract = plan.contract(load_contract(workers=lane.workers, lease_s=6))

    sent = [job.id for job in plan.jobs]
    assert sorted(sent) == sorted(job for group in contract.jobs for job in group.jobs)
    assert len(set(sent)) == len(sent)
    assert lane_contract_from_json(contract.to_json()) == contract
    assert (plan.fault is None) == (lane.fault is None)
    if plan.fault is not None:
        assert plan.fault.kind in NEMESES
        assert {*plan.fault.when.started, *plan.fault.when.ended} <= set(sent)


@pytest.mark.parametrize("lane", LANES.values(), ids=lambda each: each.name)
def test_jobs_that_have_to_run_at_once_have_partitions_of_their_own(lane: Lane) -> None:
    plan = plan_lane(lane, PLAIN, 7, lane.scale)
    moments = [each.when for each in (plan.fault, plan.also) if each is not None]
    at_once = {id_ for moment in moments for id_ in moment.started}
    if lane.name in ("memory-fatal", "exit-fatal"):
        # They wait for the leases of dead workers, and its time is that of two leases.
        at_once = {job.id for job in plan.jobs}

    partitions = [job.partition for job in plan.jobs if job.id in at_once]

    if len(at_once) > 1:
        assert "" not in partitions
        assert len(set(partitions)) == len(partitions)


def test_a_seed_makes_the_ids() -> None:
    lane = LANES["worker-kill"]

    first, same, other = (plan_lane(lane, PLAIN, seed, 0.2) for seed in (1, 1, 2))

    assert first == same
    assert {job.id for job in first.jobs}.isdisjoint(job.id for job in other.jobs)


def test_times_keep_their_proportions_at_any_scale() -> None:
    lane = LANES["exception-retry"]
    small, whole = (plan_lane(lane, PLAIN, 1, scale) for scale in (0.2, 1.0))

    assert whole.jobs[0].backoff_s == 2
    assert small.jobs[0].backoff_s == pytest.approx(0.4)
    attempts = load_contract(workers=2, lease_s=30)
    assert whole.contract(attempts).jobs[0].gap_s_min == pytest.approx(1.8)
    assert small.contract(attempts).jobs[0].gap_s_min == pytest.approx(0.36)


def test_at_scale_one_the_settings_are_those_of_the_reference() -> None:
    pairs = dict(pair.split("=") for pair in lane_settings(LANES["worker-kill"], PLAIN, 1.0))

    assert (pairs["job_timeout_s"], pairs["retry_after_s"], pairs["shutdown_grace_s"]) == (
        "20",
        "30",
        "35",
    )
    assert (pairs["prefetch"], pairs["ack_async"], pairs["pop_ahead"]) == ("1", "false", "false")


def test_a_run_that_timed_out_waits_for_its_lease_only_where_nothing_waited_behind_it() -> None:
    attempts = load_contract(workers=2, lease_s=6)
    waits = {
        profile.name: plan_lane(LANES["job-timeout"], profile, 1, 0.2)
        .contract(attempts)
        .jobs[0]
        .again_s_min
        for profile in PROFILES.values()
    }

    assert waits == {"plain": pytest.approx(5.6), "fast": 0.0}


def test_poison_is_no_job_or_one_that_nobody_knows_and_its_digest_is_that_of_the_stores() -> None:
    plan = plan_lane(LANES["poison-messages"], PLAIN, 1, 0.3)
    poison = [job.raw for job in plan.jobs if job.raw is not None]

    assert len(poison) == 3
    assert decode_job(poison[1]).id == plan.jobs[1].id
    for raw in (poison[0], poison[2]):
        with pytest.raises(NotAJobError):
            decode_job(raw)
    assert [message_digest(raw) for raw in poison] == [job.digest for job in plan.jobs[:3]]
    causes = plan.contract(load_contract()).attempts.clauses.early_give_up_causes
    assert "not_a_job" in causes


def test_a_timeout_in_a_string_is_read_as_a_number_and_nothing_else_about_the_job_changes() -> None:
    plan = plan_lane(LANES["string-timeout"], PLAIN, 1, 0.3)
    (raw, digest), (other, _) = ((job.raw or b"", job.digest) for job in plan.jobs)

    assert b'"timeout_s":"0.9"' in raw
    assert decode_job(raw).timeout_s == pytest.approx(0.9)
    assert decode_job(other).tries == 1
    assert message_digest(raw) == digest
    with pytest.raises(NotAJobError):
        decode_job(raw, strict=True)


@pytest.mark.parametrize("seconds", ['"nan"', '"inf"', "-1", '"soon"', "1e999"])
def test_a_timeout_that_is_no_time_makes_the_message_no_job(seconds: str) -> None:
    text = f'{{"_job":{{"job":"w","id":"x","data":1,"timeout_s":{seconds}}}}}'

    with pytest.raises(NotAJobError, match="not a job"):
        decode_job(text.encode())


def test_an_act_is_chosen_by_the_number_of_the_attempt() -> None:
    payload = {"acts": ["throw", "work"]}

    with pytest.raises(LaneJobError):
        run_lane_job(CONTEXT, payload)
    run_lane_job(dataclasses.replace(CONTEXT, attempt=2), payload)
    run_lane_job(dataclasses.replace(CONTEXT, attempt=3), payload)


def test_the_text_of_an_error_that_is_not_text_cannot_be_encoded() -> None:
    with pytest.raises(LaneJobError) as caught:
        run_lane_job(CONTEXT, {"acts": ["throw-bytes"]})

    with pytest.raises(UnicodeEncodeError):
        str(caught.value).encode()


def test_work_lasts_for_its_time() -> None:
    begun_s = time.monotonic()
    run_lane_job(CONTEXT, {"acts": ["work"], "work_ms": 20})

    assert time.monotonic() - begun_s >= 0.02


def test_an_act_that_nobody_knows_is_refused() -> None:
    assert "juggle" not in ACTS
    with pytest.raises(msgspec.ValidationError):
        run_lane_job(CONTEXT, {"acts": ["juggle"]})


def test_a_defect_that_only_a_lane_brings_out_has_a_lane_that_names_it() -> None:
    for name, bug in BUGS.items():
        if bug.workload == "lane":
            assert (CATCHES[name].lane, CATCHES[name].rule) == (bug.nemesis, bug.rule)
    for catch in CATCHES.values():
        assert catch.bug in BUGS
        assert catch.lane in LANES
        assert catch.profile in PROFILES
        assert catch.rule in {**RULES, **LANE_RULES}
