"""The checker of soaks: the delivery contract, how each job ended, and memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..histories.dispatches import FAIL, OK
from ..histories.folder import RunRecords
from ..histories.ops import RESTART
from ..histories.table import COMPLETED
from .attempts import conclude, find_all
from .evidence import weigh_evidence
from .facts import RAN, derive_facts
from .findings import Finding
from .growth import measure_growth, thirds_of
from .jobs import Job
from .joined import join_findings
from .soak_contract import SOAK_RULES, SoakContract
from .verdict import Json, Verdict
from .world import World

_NAMED_MAX: Final = 5
_ENDING: Final = ("soak-jobs", "soak-ends", "soak-failed")
"""Rules that need a drained system and its stores."""

Counts = NDArray[np.int64]


def check_soak(run: RunRecords, soak: SoakContract) -> Verdict:
    """Judge a soak by every rule of its delivery contract, and by its own.

    Raises:
        OSError: A file of the run disappeared while its witnesses were read.
    """
    world = World(run, derive_facts(run), soak.attempts)
    evidence = weigh_evidence(world)
    tally = Tally(world, soak)
    thirds = thirds_of(tally.begun_ns, soak.load_s)
    growth = measure_growth(run.memory, thirds, soak.growth, soak.samples_min)
    evidence.reasons += [*growth.missing, *_missing(world, soak, tally)]
    verdict = conclude(world, evidence, find_all(world, evidence))
    findings = list(growth.findings(thirds))
    unjudged = {"growth"} if growth.missing else set[str]()
    if "lost" in evidence.unjudged:
        unjudged |= set(_ENDING)  # It was broken off: what has not ended may be on its way.
    else:
        findings += [*_judge_seen(tally), *_judge_ends(tally), *_judge_failed(tally)]
    return join_findings(
        world,
        evidence,
        verdict,
        findings,
        SOAK_RULES,
        unjudged,
        soak=tally.to_json(),
        memory=growth.to_json(),
    )


class Tally:
    """How often each job started, completed and was given up.

    Attributes:
        world: The run.
        begun_ns: When the first dispatch was made.
        accepted: Whether a dispatch of it was acknowledged, by the number of the job.
        possible: Whether one was, or may have taken effect.
        bad: Whether it is one that always fails.
        completed: How often it completed.
        given_up: How often it was given up.
        started: How often it started.
    """

    def __init__(self, world: World, soak: SoakContract) -> None:
        run, facts = world.run, world.facts.deliveries
        names, count = run.attempts.jobs, len(run.attempts.jobs)
        self.world = world
        self.begun_ns = int(run.dispatches.invoke_ns.min(initial=world.facts.end_ns))
        self.accepted = np.zeros(count, np.bool_)
        self.accepted[run.dispatches.job[run.dispatches.result == OK]] = True
        self.possible = np.zeros(count, np.bool_)
        self.possible[run.dispatches.job[run.dispatches.result != FAIL]] = True
        self.bad = np.zeros(count, np.bool_)
        known = (names.find(name) for name in soak.bad)
        self.bad[[number for number in known if number is not None]] = True
        self.completed = _count(facts.job[facts.outcome == COMPLETED], count)
        self.started = _count(facts.job[facts.kind == RAN], count)
        rows = np.fromiter(run.attempts.gave_up, np.int64, len(run.attempts.gave_up))
        self.given_up = _count(run.attempts.job[rows], count)

    def names(self, numbers: Sequence[int]) -> str:
        """Name the first of some jobs, and count the rest."""
        jobs = self.world.run.attempts.jobs
        shown = ", ".join(jobs[number] for number in numbers[:_NAMED_MAX])
        rest = len(numbers) - _NAMED_MAX
        return f"{shown} and {rest} more" if rest > 0 else shown

    def to_json(self) -> dict[str, Json]:
        """Say how many jobs there were and what became of them."""
        return {
            "jobs": int(self.accepted.sum()),
            "bad": int((self.accepted & self.bad).sum()),
            "starts": int(self.started.sum()),
            "completed": int(self.completed.sum()),
            "given_up": int(self.given_up.sum()),
        }


def _count(numbers: NDArray[np.int32], count: int) -> Counts:
    return np.bincount(numbers, minlength=count).astype(np.int64)


def _missing(world: World, soak: SoakContract, tally: Tally) -> Iterator[str]:
    accepted = int(tally.accepted.sum())
    if accepted != soak.jobs:
        yield f"{accepted} jobs were dispatched and acknowledged of {soak.jobs} that were planned"
    restarts = sum(op.f == RESTART and op.type == "ok" for op in world.run.ops)
    if restarts < soak.restarts:
        yield f"new code was put in place {restarts} times of {soak.restarts}"


def _judge_seen(tally: Tally) -> Iterator[Finding]:
    seen = (tally.started + tally.given_up) > 0
    end_ns = tally.world.facts.end_ns
    for what, wrong in (
        ("was dispatched and never seen by a worker", tally.accepted & ~seen),
        ("was seen by a worker though no dispatch can have taken effect", seen & ~tally.possible),
    ):
        for number in np.flatnonzero(wrong).tolist():
            yield Finding("soak-jobs", number, f"it {what}", tally.begun_ns, end_ns)


def _judge_ends(tally: Tally) -> Iterator[Finding]:
    """Yield jobs that did not end exactly once and as their kind does."""
    bad, done, given = tally.bad, tally.completed, tally.given_up
    as_bad = bad & (given == 1) & (done == 0)
    as_good = ~bad & (given == 0) & (done == 1)
    for number in np.flatnonzero(tally.accepted & ~as_bad & ~as_good).tolist():
        job = tally.world.job(number)
        kind, due = ("bad", "given up once") if bad[number] else ("good", "completed once")
        yield Finding(
            "soak-ends",
            number,
            f"a {kind} job is to be {due}; it completed {int(done[number])} times and was given "
            f"up {int(given[number])} times",
            job.first_invoke_ns,
            max((run.over_ns for run in job.deliveries), default=job.first_invoke_ns),
            explained=_explanation(job, tally.world, is_bad=bool(bad[number])),
        )


def _explanation(job: Job, world: World, *, is_bad: bool) -> str | None:
    """Say why a job may have ended otherwise, or None."""
    if not is_bad and not job.was_given_up and len(job.completed) > 1:
        reasons = [world.ack_could_fail(run) for run in job.completed[:-1]]
        return reasons[0] if all(reasons) else None
    if is_bad and not job.completed:
        return _died_at_its_end(job, world)
    return None


def _died_at_its_end(job: Job, world: World) -> str | None:
    """Whether a worker died while it gave the job up: what is left to do is then done again."""
    ack_ns = world.ns("ack_s")
    for delivery in job.deliveries:
        last_ns = max(delivery.ended_ns, delivery.start_ns, delivery.t_ns)
        acts = [last_ns, *(e.t_ns for e in job.given_up if e.process == delivery.process)]
        if 0 <= world.death_ns(delivery) - max(acts) <= ack_ns:
            return "its worker died while it gave the job up"
    return None


def _judge_failed(tally: Tally) -> Iterator[Finding]:
    world = tally.world
    expected = set(np.flatnonzero(tally.accepted & tally.bad).tolist())
    allowed = set(np.flatnonzero(tally.possible & tally.bad).tolist())
    places = [("give-up records", set(np.flatnonzero(tally.given_up > 0).tolist()))]
    for place, stored in (("dead letters", world.stores.letters), ("rows", world.stores.rows)):
        if stored is not None:
            places.append((place, set(stored)))
    for place, found in places:
        for what, wrong in (("lack", expected - found), ("also name", found - allowed)):
            if not wrong:
                continue
            numbers = sorted(wrong)
            reasons = [
                _explanation(world.job(number), world, is_bad=bool(tally.bad[number]))
                for number in numbers
            ]
            yield Finding(
                "soak-failed",
                None,
                f"the {place} {what} {tally.names(numbers)}; {len(expected)} jobs always fail",
                tally.begun_ns,
                world.facts.end_ns,
                explained=reasons[0] if all(reasons) else None,
            )
