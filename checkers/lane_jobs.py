"""Rules of a failure lane about single jobs: dispatch, ends, starts, cause, gaps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from ..histories.dispatches import OK
from .facts import NEVER_NS, RAN
from .findings import Finding, seconds
from .jobs import Delivery, Job
from .lane_contract import JobsExpected
from .windows import NS
from .world import World


def judge_lane_job(job: Job, expected: JobsExpected, world: World) -> Iterator[Finding]:
    """Yield what one job did otherwise than its lane expects."""
    yield from _judge_dispatch(job, expected, world)
    if expected.ends != "refused":
        yield from _judge_end(job, expected, world)
        yield from _judge_cause(job, expected, world)
    yield from _judge_starts(job, expected, world)
    yield from _judge_gaps(job, expected)


def _judge_dispatch(job: Job, expected: JobsExpected, world: World) -> Iterator[Finding]:
    is_refused = expected.ends == "refused"
    accepted = [dispatch for dispatch in job.dispatches if dispatch.result == OK]
    if bool(accepted) != is_refused:
        return
    at_ns = job.first_invoke_ns if job.dispatches else world.facts.end_ns
    at_ns = min(at_ns, world.facts.end_ns)
    text = (
        "its dispatch was acknowledged though the broker was down"
        if is_refused
        else "its dispatch was never acknowledged"
    )
    yield Finding("lane-dispatch", job.number, text, at_ns, at_ns)


def _judge_end(job: Job, expected: JobsExpected, world: World) -> Iterator[Finding]:
    completed, given_up = len(job.completed), len(job.given_up)
    if expected.ends == "completed":
        most = completed if expected.twice else 1
        if completed and completed <= most and not given_up:
            return
    elif not completed and given_up == 1:
        return
    wanted = "complete once" if expected.ends == "completed" else "be given up once, uncompleted"
    yield Finding(
        "lane-ends",
        job.number,
        f"it completed {completed} times and was given up {given_up} times; it should {wanted}",
        job.deliveries[0].t_ns if job.deliveries else world.facts.end_ns,
        world.facts.end_ns,
        doubt=_lease_doubt(job, world) if completed > 1 else None,
    )


def _judge_cause(job: Job, expected: JobsExpected, world: World) -> Iterator[Finding]:
    if not expected.cause or expected.ends != "failed":
        return
    letters = world.stores.rows is not None
    told = {entry.told.cause for entry in job.given_up}
    told |= {row.why for row in job.rows} if letters else set()
    for cause in sorted(told - {expected.cause}):
        yield Finding(
            "lane-cause",
            job.number,
            f"it was given up because of {cause!r}; the lane expects {expected.cause!r}",
            job.given_up[0].t_ns if job.given_up else world.facts.end_ns,
            world.facts.end_ns,
        )


def _judge_starts(job: Job, expected: JobsExpected, world: World) -> Iterator[Finding]:
    runs = sorted(job.runs, key=lambda run: run.start_ns)
    least = 0 if expected.ends == "refused" else expected.starts_min
    most = 0 if expected.ends == "refused" else expected.starts_max
    first_ns = runs[0].start_ns if runs else world.facts.end_ns
    last_ns = runs[-1].start_ns if runs else world.facts.end_ns
    last_end_ns = max((run.end_ns for run in runs), default=NEVER_NS)
    if not least <= len(runs) <= most:
        span = f"{least}" if least == most else f"{least} to {most}"
        text = f"it started {len(runs)} times; the lane expects {span}"
        doubt = _lease_doubt(job, world) if len(runs) > most else late_fault(world, last_end_ns)
        yield Finding("lane-starts", job.number, text, first_ns, last_ns, doubt=doubt)
        return
    numbers = tuple(run.attempt for run in runs)
    if expected.runs and numbers != expected.runs:
        text = f"its runs carry the numbers {_list(numbers)}; the lane expects "
        yield Finding("lane-starts", job.number, text + _list(expected.runs), first_ns, last_ns)
        return
    pickups = tuple(each.attempt for each in job.deliveries if each.is_pickup)
    if expected.pickups and pickups != expected.pickups:
        text = f"its pickups carry the numbers {_list(pickups)}; the lane expects "
        yield Finding("lane-starts", job.number, text + _list(expected.pickups), first_ns, last_ns)


def late_fault(world: World, ended_ns: int) -> str | None:
    """Say that every fault came only after what it was to hit had ended, or None."""
    windows = world.windows.all
    opened_ns = min((w.fault.opened_ns or w.from_ns for w in windows), default=ended_ns)
    if opened_ns <= ended_ns:
        return None
    late_s = (opened_ns - ended_ns) / 1e9
    return f"the fault came {late_s:.3g} s after the last run had ended, too late to hit it"


def _lease_doubt(job: Job, world: World) -> str | None:
    """Say why the lease of one of its deliveries may have run out unrenewed, or None."""
    pairs = pairwise(job.deliveries)
    doubts = (world.lease_doubt(before.t_ns, after.t_ns) for before, after in pairs)
    return next((doubt for doubt in doubts if doubt), None)


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers)) or "none"


def _judge_gaps(job: Job, expected: JobsExpected) -> Iterator[Finding]:
    runs = sorted(job.runs, key=lambda run: run.start_ns)
    for before, after in pairwise(runs):
        gap_ns = after.start_ns - before.end_ns
        text = _gap_text(before, gap_ns, after.start_ns - before.start_ns, expected)
        if text:
            told = f"attempt {after.attempt} started {text}"
            yield Finding("lane-gap", job.number, told, before.start_ns, after.start_ns)


def _gap_text(before: Delivery, gap_ns: int, again_ns: int, expected: JobsExpected) -> str | None:
    """Say how the time between two runs is outside its bounds; None if it is inside."""
    ended = before.kind == RAN and before.end_ns != NEVER_NS
    if ended and gap_ns < expected.gap_s_min * NS:
        bound = f"the lane expects {expected.gap_s_min:g} s at least"
        return f"{seconds(gap_ns)} after attempt {before.attempt} ended; {bound}"
    if ended and expected.gap_s_max is not None and gap_ns > expected.gap_s_max * NS:
        bound = f"the lane allows {expected.gap_s_max:g} s"
        return f"{seconds(gap_ns)} after attempt {before.attempt} ended; {bound}"
    if again_ns < expected.again_s_min * NS:
        bound = f"the lane expects {expected.again_s_min:g} s at least"
        return f"{seconds(again_ns)} after attempt {before.attempt} started; {bound}"
    return None
