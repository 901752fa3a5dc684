"""Whether, when and how the jobs of a dead worker go back to the broker.

The worker left a journal: which of its leased jobs it had finished, started, or never begun. The
holder of the lease sends that as one transaction that the broker refuses as a whole unless the
lease still holds. It is one request: where no answer comes, it is asked again under its id, and the
broker gives its first answer. Only one that was refused for certain, because the worker's own last
request had arrived, is followed by what is left of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, cast

from ...bugs import NO_BUGS, Bugs

Json = dict[str, object]

_TAKEN_OVER_US: Final = 500_000


@dataclass(frozen=True, slots=True)
class DeadLease:
    """A lease whose worker is dead.

    Attributes:
        lease: Its id.
        expiry_us: When it ends by the master's count, which is never later than the broker's.
        is_fenced: Whether the worker was being stopped because the lease could not be kept.
    """

    lease: str
    expiry_us: int
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class Send:
    """Send the journal's transaction.

    Attributes:
        at_us: Not before this time.
        is_fenced: Whether the broker must refuse it when the lease no longer holds.
    """

    at_us: int
    is_fenced: bool = True


@dataclass(frozen=True, slots=True)
class Skip:
    """Send nothing; `reason` says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class HandBackPolicy:
    """Bounds: longest duration of the one attempt, and the margin before the lease's end."""

    budget_us: int
    margin_us: int


def decide_hand_back(
    now_us: int,
    lease: DeadLease,
    journal_lease: str | None,
    shutdown_said: bool,
    policy: HandBackPolicy,
    bugs: Bugs = NO_BUGS,
) -> Send | Skip:
    """Decide about one lease of a dead worker.

    Args:
        now_us: Now.
        lease: The lease and what the master knows of it.
        journal_lease: The lease that the worker's journal speaks of; None when it owes nothing.
        shutdown_said: Whether the worker said that it was settling by itself.
        policy: Bounds.
        bugs: Planted defects; `crash-charges-prefetched` and `hand-back-after-expiry` live here.
    """
    if "crash-charges-prefetched" in bugs:
        return Skip("never handed back")
    if shutdown_said:
        return Skip("the worker was handing back by itself")
    if journal_lease is None:
        return Skip("the journal owes nothing")
    if journal_lease != lease.lease:
        return Skip("the journal speaks of another lease")
    if "hand-back-after-expiry" in bugs:
        return Send(max(now_us, lease.expiry_us + _TAKEN_OVER_US), is_fenced=False)
    if lease.is_fenced:
        return Skip("the worker was fenced")
    return decide_rest(now_us, lease, policy)


def decide_rest(now_us: int, lease: DeadLease, policy: HandBackPolicy) -> Send | Skip:
    """Decide by the time that is left whether a transaction would certainly end in it."""
    if now_us + policy.budget_us + policy.margin_us >= lease.expiry_us:
        return Skip("too little of the lease is left")
    return Send(now_us)


def decide_repeat(sent: Send, now_us: int, bugs: Bugs = NO_BUGS) -> Send | None:
    """Decide what follows a hand-back that the broker confirmed: nothing.

    `hand-back-twice` lives here: the same jobs once more, past the fence of the lease.
    """
    if "hand-back-twice" in bugs and sent.is_fenced:
        return Send(now_us, is_fenced=False)
    return None


def without_fence(transaction: Json, fresh_id: Callable[[], str]) -> Json:
    """Return a copy of a transaction that no lost lease stops and no deduplication folds.

    Only planted defects send such a thing: lease ids are gone, and copies have ids of their own.
    """
    operations: list[Json] = []
    for operation in cast("list[Json]", transaction["operations"]):
        kept = {key: value for key, value in operation.items() if key != "leaseId"}
        if "items" in kept:
            items = cast("list[Json]", kept["items"])
            kept["items"] = [{**item, "transactionId": fresh_id()} for item in items]
        elif kept.get("type") == "push":
            kept["transactionId"] = fresh_id()
        operations.append(kept)
    rest = {k: v for k, v in transaction.items() if k not in ("operations", "requiredLeases")}
    return {**rest, "operations": operations}
