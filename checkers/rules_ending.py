"""Rules about how jobs end: lost, phantom, twice, both ways, and what the stores say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, pairwise

from ..histories.dispatches import OK, STATUSES
from ..histories.ops import READ_DEAD_LETTERS
from ..histories.table import COMPLETED
from .facts import NEVER_NS
from .findings import Finding
from .jobs import Delivery, Dispatch, Job
from .windows import first_touching
from .world import World

_QUEUED = STATUSES.index("queued")


def judge_lost(job: Job, world: World) -> Iterator[Finding]:
    """An acknowledged dispatch that neither completed nor was given up."""
    if not job.is_acknowledged or job.completed or job.was_given_up:
        return
    runs = len(job.runs)
    done = next(dispatch for dispatch in job.dispatches if dispatch.result == OK)
    yield Finding(
        "lost",
        job.number,
        f"its dispatch was acknowledged, and after heal and drain it had run {runs} times without "
        "completing or being given up",
        done.invoke_ns,
        world.facts.end_ns if runs == 0 else job.runs[-1].start_ns,
    )


def judge_phantom(job: Job, world: World) -> Iterator[Finding]:
    """A run of a job that nobody dispatched."""
    del world
    early = [run for run in job.runs if run.start_ns < job.first_invoke_ns]
    if not early:
        return
    if not job.dispatches:
        why = "nobody dispatched it"
    elif not job.may_exist:
        why = "its dispatch certainly failed"
    else:
        why = "it ran before it was dispatched"
    yield Finding("phantom", job.number, why, early[0].start_ns, early[0].start_ns)


def judge_duplicate_dispatch(job: Job, world: World) -> Iterator[Finding]:
    """One dispatch that became two queued jobs."""
    for first, second in combinations(job.dispatches, 2):
        if _both_queued(job, first, second):
            before, after = _told(first), _told(second)
            yield Finding(
                "duplicate-dispatch",
                job.number,
                f"two dispatches under the same ids were answered {before} and {after}; "
                "deduplication should have folded them",
                first.invoke_ns,
                second.done_ns,
            )
            return
    pair = _twins(job, world)
    if pair and not world.was_handed_back(job):
        yield Finding(
            "duplicate-dispatch",
            job.number,
            f"two runs carry attempt number {pair[0].attempt}, the first completed and its ack "
            "could not fail, and no worker held the job unstarted: it was queued twice",
            pair[0].start_ns,
            pair[1].start_ns,
            doubt=world.ack_doubt(pair[0]),
        )


def _both_queued(job: Job, first: Dispatch, second: Dispatch) -> bool:
    """Whether the second was queued although the first had been.

    A job that was scheduled is queued when its timer fires. A push may come before that, and the
    timer then folds into it; once the job was delivered, the timer has fired.
    """
    if first.result != OK or second.result != OK or second.status != _QUEUED:
        return False
    if first.status != _QUEUED:
        return bool(job.deliveries) and job.deliveries[0].t_ns < second.invoke_ns
    return second.offset < 0 or first.offset != second.offset


def _told(dispatch: Dispatch) -> str:
    where = f" at offset {dispatch.offset}" if dispatch.offset >= 0 else ""
    return f"`{STATUSES[dispatch.status]}`{where}"


def _twins(job: Job, world: World) -> tuple[Delivery, Delivery] | None:
    """Two runs with one number, the first of which completed; its ack could not fail."""
    runs = job.runs
    pairs = [
        (first, second)
        for at, first in enumerate(runs)
        if first.outcome == COMPLETED and not world.ack_could_fail(first)
        for second in runs[at + 1 :]
        if second.attempt == first.attempt
    ]
    return min(pairs, key=lambda pair: world.ack_doubt(pair[0]) is not None, default=None)


def judge_completed_twice(job: Job, world: World) -> Iterator[Finding]:
    """More than one completed run, each beyond the first needing a lost ack before it."""
    completed = job.completed
    for first, second in pairwise(completed):
        explained = world.ack_could_fail(first)
        if first.acked_ns >= 0:
            why = "the engine had confirmed the first completion"
        else:
            why = (
                f"neither did its worker die nor was a node's fault open within {_ack(world)} "
                "after the first completion"
            )
        yield Finding(
            "completed-twice",
            job.number,
            f"attempts {first.attempt} and {second.attempt} both completed, and {why}",
            first.ended_ns,
            second.ended_ns,
            explained,
            doubt=world.ack_doubt(first),
        )


def _ack(world: World) -> str:
    return f"{world.contract.bounds.ack_s:g} s"


def judge_both_ended(job: Job, world: World) -> Iterator[Finding]:
    """Completed and given up."""
    completed = job.completed
    if not completed or not job.was_given_up:
        return
    reasons = [world.ack_could_fail(run) for run in completed]
    sure = [run for run, reason in zip(completed, reasons, strict=True) if reason is None]
    doubts = [world.ack_doubt(run) for run in sure]
    given_ns = job.given_up[0].t_ns if job.given_up else completed[-1].ended_ns
    yield Finding(
        "both-ended",
        job.number,
        f"attempt {(sure or completed)[0].attempt} completed, its ack could not have failed, and "
        "the job was given up as well",
        min(completed[0].ended_ns, given_ns),
        max(completed[-1].ended_ns, given_ns),
        None if sure else reasons[0],
        doubt=doubts[0] if doubts and all(doubts) else None,
    )


def judge_store_mismatch(job: Job, world: World) -> Iterator[Finding]:
    """Give-up records, dead letters and failed-job store that differ about a job."""
    if world.stores.letters is None or world.stores.rows is None:
        return
    told = (len(job.given_up), len(job.letters), len(job.rows))
    if any(told) and told != (1, 1, 1) and told[0] <= 1:
        yield _missing(job, world)
    elif told[0] > 1:
        yield _finding(job, world, f"it was given up {told[0]} times")
    elif any(told):
        for name, digest in _digests(job):
            if digest and job.dispatches and digest != job.dispatches[0].digest:
                text = f"its payload in the {name} is not the one that was dispatched"
                yield _finding(job, world, text)


def _digests(job: Job) -> Iterator[tuple[str, str]]:
    yield from (("dead letters", stored.digest) for stored in job.letters)
    yield from (("failed-job store", stored.digest) for stored in job.rows)
    yield from (("give-up record", entry.told.digest or "") for entry in job.given_up)


def _missing(job: Job, world: World) -> Finding:
    places = (
        ("give-up records", len(job.given_up)),
        ("dead letters", len(job.letters)),
        ("failed-job store", len(job.rows)),
    )
    text = "it stands " + ", ".join(f"{count} times in the {name}" for name, count in places)
    return _finding(job, world, text, *_cut_short(job, world))


def _cut_short(job: Job, world: World) -> tuple[str | None, str | None]:
    """A worker that died between filing the dead letter and its own record or row.

    Returns:
        What explains the difference, and why it may prove nothing all the same.
    """
    if len(job.letters) != 1 or job.rows or not job.deliveries:
        return None, None
    last = job.deliveries[-1]
    acted_ns = (
        job.given_up[-1].t_ns if job.given_up else max(last.ended_ns, last.start_ns, last.t_ns)
    )
    death_ns = world.death_ns(last)
    if death_ns == NEVER_NS or death_ns < acted_ns:
        return None, None
    if death_ns <= acted_ns + world.ns("ack_s") or first_touching(
        world.windows.path, acted_ns, death_ns
    ):
        return "its worker died between the dead letter and the failed-job row", None
    return None, world.starvation.doubt((acted_ns, death_ns), world.ns("ack_s"))


def _finding(
    job: Job, world: World, text: str, explained: str | None = None, doubt: str | None = None
) -> Finding:
    times = [entry.t_ns for entry in job.given_up]
    times += [delivery.over_ns for delivery in job.deliveries if delivery.over_ns != NEVER_NS]
    at = max(times, default=world.facts.end_ns)
    return Finding("store-mismatch", job.number, text, at, at, explained, doubt)


def judge_strangers(world: World) -> Iterator[Finding]:
    """Entries of a store that no record of the run names."""
    for f, name in world.stores.strangers:
        place = "dead letters" if f == READ_DEAD_LETTERS else "failed-job store"
        end_ns = world.facts.end_ns
        text = f"job {name} stands in the {place}, and nobody dispatched it"
        yield Finding("store-mismatch", None, text, end_ns, end_ns)
