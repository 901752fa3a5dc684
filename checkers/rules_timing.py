"""Rules about when runs start and end: overlap, early, timeout."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..histories.table import THREW
from .facts import NEVER_NS
from .findings import Finding, seconds
from .jobs import Delivery, Dispatch, Job
from .world import World


def judge_overlap(job: Job, world: World) -> Iterator[Finding]:
    """Two runs of one job that intersect; death closes a run."""
    runs = sorted(job.runs, key=lambda run: run.start_ns)
    longest: Delivery | None = None
    for run in runs:
        if longest is not None and run.start_ns < longest.end_ns:
            end = "is still open" if longest.end_ns == NEVER_NS else "ended later"
            yield Finding(
                "overlap",
                job.number,
                f"attempt {run.attempt} started while attempt {longest.attempt} was running in "
                f"another process, which {end}",
                longest.start_ns,
                run.start_ns,
                _long_pause(longest, run, world),
                doubt=world.lease_doubt(longest.t_ns, run.t_ns),
            )
        if longest is None or run.end_ns > longest.end_ns:
            longest = run


def _long_pause(first: Delivery, second: Delivery, world: World) -> str | None:
    if not world.contract.clauses.overlap_under_long_pause:
        return None
    lease_ns = world.ns("lease_s")
    for window in world.windows.pause:
        if window.healed_ns - window.from_ns > lease_ns and window.touches(
            first.start_ns, second.start_ns
        ):
            return f"{window.fault.kind} outlasted the lease"
    return None


def judge_early(job: Job, world: World) -> Iterator[Finding]:
    """Started before its due time, or before the back-off after a run that threw."""
    slack_ns, slew = world.ns("clock_slack_s"), world.contract.bounds.clock_slew
    due_ns = min((d.not_before_ns for d in job.dispatches if d.not_before_ns >= 0), default=-1)
    pickups = [delivery for delivery in job.deliveries if delivery.is_pickup]
    cut_ns = slack_ns + slew * max(0, due_ns - job.first_invoke_ns)
    if pickups and due_ns >= 0 and pickups[0].start_ns < due_ns - cut_ns:
        ahead = seconds(due_ns - pickups[0].start_ns)
        yield Finding(
            "early",
            job.number,
            f"it started {ahead} before its due time",
            pickups[0].start_ns,
            due_ns,
        )
    for previous, following in pairwise(pickups):
        if previous.outcome != THREW or world.ack_could_fail(previous):
            continue
        wait_ns = backoff_ns(job.dispatches[0], previous.attempt) if job.dispatches else 0
        due_ns = previous.ended_ns + wait_ns
        if following.start_ns < due_ns - slack_ns - slew * wait_ns:
            after = seconds(following.start_ns - previous.ended_ns)
            yield Finding(
                "early",
                job.number,
                f"attempt {following.attempt} started {after} after attempt {previous.attempt} "
                f"threw; its back-off is {seconds(wait_ns)}",
                previous.ended_ns,
                following.start_ns,
                doubt=world.ack_doubt(previous),
            )


def backoff_ns(dispatch: Dispatch, attempt: int) -> int:
    """Back-off after the attempt with this number threw; the last wait of the list repeats."""
    waits = dispatch.backoff_s
    return round(waits[min(attempt, len(waits)) - 1] * 1e9) if waits else 0


def judge_timeout(job: Job, world: World) -> Iterator[Finding]:
    """A run that outlived its timeout plus grace, or is still open past it."""
    timeout_ns = job.dispatches[0].timeout_ns if job.dispatches else -1
    if timeout_ns < 0:
        return
    for run in job.runs:
        end_ns = min(run.end_ns, world.facts.end_ns)
        grace_ns = world.ns("timeout_grace_s")
        if end_ns - run.start_ns > timeout_ns + grace_ns:
            how = "and is still open" if run.end_ns == NEVER_NS else "and then ended"
            yield Finding(
                "timeout-not-enforced",
                job.number,
                f"attempt {run.attempt} ran {seconds(end_ns - run.start_ns)} {how}; its timeout is "
                f"{seconds(timeout_ns)} and the grace {world.contract.bounds.timeout_grace_s:g} s",
                run.start_ns,
                end_ns,
                doubt=world.starvation.doubt((run.start_ns + timeout_ns, end_ns), grace_ns),
            )
