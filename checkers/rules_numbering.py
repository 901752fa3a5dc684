"""Rules about attempt numbers: what raised them, and how many tries were really used."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ..histories.table import FAILED
from .facts import NEVER_NS, RAN, UNSTARTED
from .findings import Finding
from .jobs import Delivery, Job
from .windows import FaultWindow, first_touching
from .world import World, window_text


@dataclass(slots=True)
class Numbering:
    """How the attempt numbers of one job came about.

    Attributes:
        charges: Reasons of the charges that a rule of the contract explains.
        findings: What no rule explains.
        doubts: Why a step that no rule explains may be a lease that ran out on a starved machine.
    """

    charges: list[tuple[str, Delivery]] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)


def judge_numbers(job: Job, world: World) -> Iterator[Finding]:
    """`attempt-number` and `uncharged-hand-back`: a number is the one before plus its charges."""
    numbering = account_numbers(job, world)
    for reason, delivery in numbering.charges:
        yield Finding(
            "attempt-number", job.number, reason, delivery.t_ns, delivery.t_ns, explained=reason
        )
    yield from numbering.findings


def account_numbers(job: Job, world: World) -> Numbering:
    """Walk the deliveries of a job and account for every step of its attempt number.

    A number is between the one that its runs alone make due and the one before plus its charges: an
    engine may forget a charge of a delivery that never started, and never that of a run.
    """
    numbering = Numbering()
    previous: Delivery | None = None
    least = 1
    used: set[str] = set()
    for delivery in job.deliveries:
        expected = _expected(previous)
        if delivery.attempt < least:
            numbering.findings.append(_too_low(job, previous, delivery, least))
        if delivery.kind != UNSTARTED:
            least = delivery.attempt + 1
        for step in range(delivery.attempt - expected):
            reason = _charge(job, world, previous, delivery, step, used)
            if reason is None:
                since_ns = job.first_invoke_ns if previous is None else previous.t_ns
                doubt = world.lease_doubt(since_ns, delivery.t_ns)
                found = _too_high(job, world, previous, delivery, expected, doubt)
                numbering.findings.extend(found)
                numbering.doubts += [doubt] if doubt else []
                break
            numbering.charges.append((reason, delivery))
        previous = delivery
    return numbering


def _expected(previous: Delivery | None) -> int:
    if previous is None:
        return 1
    return previous.attempt if previous.kind == UNSTARTED else previous.attempt + 1


def _charge(
    job: Job,
    world: World,
    previous: Delivery | None,
    delivery: Delivery,
    step: int,
    used: set[str],
) -> str | None:
    """Find a charge rule that explains one step between two deliveries, each use counted once."""
    since_ns = job.first_invoke_ns if previous is None else previous.over_ns
    if previous is not None and previous.kind == UNSTARTED:
        since_ns = previous.t_ns
        window = _lost_in_lease(world, previous, delivery)
        if window and f"lease of {previous.index}" not in used:
            used.add(f"lease of {previous.index}")
            return f"its lease expired while {window_text(window)} was open"
    if world.unread.charge(job.number, delivery, step, since_ns):
        return "a worker died with a popped-ahead batch unread"
    if not world.contract.charges.lease_lost:
        return None
    for window in world.windows.lost:
        if window.fault.id not in used and window.touches(since_ns, delivery.t_ns):
            used.add(window.fault.id)
            return (
                f"a delivery that no worker recorded expired while {window_text(window)} was open"
            )
    return None


def _lost_in_lease(world: World, previous: Delivery, delivery: Delivery) -> FaultWindow | None:
    if not world.contract.charges.lease_lost:
        return None
    until_ns = delivery.t_ns
    death_ns = world.death_ns(previous)
    if death_ns != NEVER_NS:
        until_ns = min(until_ns, death_ns + world.ns("lease_s"))
    return first_touching(world.windows.lost, previous.t_ns, until_ns)


def _too_low(job: Job, previous: Delivery | None, delivery: Delivery, expected: int) -> Finding:
    before = "it is the first" if previous is None else f"attempt {previous.attempt} came before"
    return Finding(
        "attempt-number",
        job.number,
        f"a delivery carries number {delivery.attempt} where {expected} is due ({before}): a run "
        "that started was not counted, or the job exists twice",
        delivery.t_ns if previous is None else previous.t_ns,
        delivery.t_ns,
    )


def _too_high(
    job: Job,
    world: World,
    previous: Delivery | None,
    delivery: Delivery,
    expected: int,
    doubt: str | None,
) -> Iterator[Finding]:
    since_ns = delivery.t_ns if previous is None else previous.t_ns
    nothing = (
        "no run started in between, no lease expired while a node or the supervisor was lost, and "
        "no worker died with an unread batch"
    )
    if previous is not None and previous.kind == UNSTARTED and _is_gone(world, previous, delivery):
        yield Finding(
            "uncharged-hand-back",
            job.number,
            f"it was delivered as attempt {previous.attempt} and never started; its worker went, "
            f"and it came back as attempt {delivery.attempt}: {nothing}",
            since_ns,
            delivery.t_ns,
            doubt=doubt,
        )
    yield Finding(
        "attempt-number",
        job.number,
        f"a delivery carries number {delivery.attempt} where {expected} is due: {nothing}",
        since_ns,
        delivery.t_ns,
        doubt=doubt,
    )


def _is_gone(world: World, previous: Delivery, delivery: Delivery) -> bool:
    return previous.process != delivery.process and world.death_ns(
        previous
    ) <= delivery.t_ns + world.ns("lease_s")


def judge_too_few_tries(job: Job, world: World) -> Iterator[Finding]:
    """Given up before its tries were used up."""
    if not job.was_given_up or not job.dispatches:
        return
    runs = job.runs
    if any(run.outcome == FAILED for run in runs):
        return
    causes = {entry.told.cause for entry in job.given_up} | {row.why for row in job.rows}
    if causes & set(world.contract.clauses.early_give_up_causes):
        return
    if job.tries and len(runs) >= job.tries:
        return
    numbering = account_numbers(job, world)
    charges, doubts = numbering.charges, numbering.doubts
    explained = charges[0][0] if job.tries and len(runs) + len(charges) >= job.tries else None
    used_up = job.tries and max((d.attempt for d in job.deliveries), default=0) >= job.tries
    limit = str(job.tries) if job.tries else "without limit"
    at_ns = job.given_up[0].t_ns if job.given_up else world.facts.end_ns
    yield Finding(
        "too-few-tries",
        job.number,
        f"it was given up after {len(runs)} runs with tries {limit}; no run called fail(), and no "
        "charge that a rule explains used up the rest",
        job.deliveries[0].t_ns if job.deliveries else at_ns,
        at_ns,
        explained,
        doubt=doubts[0] if doubts and used_up else None,
    )


def judge_too_many_tries(job: Job, world: World) -> Iterator[Finding]:
    """More runs than tries plus redeliveries that a lost answer explains."""
    runs = [delivery for delivery in job.deliveries if delivery.kind == RAN]
    if not job.tries or len(runs) <= job.tries:
        return
    ended = [run for run in runs if run.ended_ns >= 0]
    reasons = [world.ack_could_fail(run) for run in ended]
    lost = [reason for reason in reasons if reason]
    sure = [run for run, reason in zip(ended, reasons, strict=True) if reason is None]
    doubts = [doubt for run in sure if (doubt := world.ack_doubt(run))]
    yield Finding(
        "too-many-tries",
        job.number,
        f"it ran {len(runs)} times with tries {job.tries}, and {len(lost)} lost answers explain "
        "no more than as many",
        runs[0].start_ns,
        runs[-1].start_ns,
        lost[0] if lost and len(runs) <= job.tries + len(lost) else None,
        doubt=doubts[0] if doubts and len(runs) <= job.tries + len(lost) + len(doubts) else None,
    )
