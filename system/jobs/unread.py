"""A claim whose answer its worker never read: asked for again by the pop's own id. Pure.

A broker answers a repeated pop with the claim that the first one made: same lease, same jobs, same
numbers. So whoever knows the id can hand back what a dead worker was sent and never saw.
"""

from __future__ import annotations

from ..client import Call, Popped, calls
from .application import Application
from .batch import Batch
from .debts import Debt
from .delivery import read_delivery
from .settings import WorkerSettings


def unread_call(settings: WorkerSettings, pop_id: str) -> Call[Popped]:
    """The pop that repeats another one and claims nothing anew.

    It is pinned to a partition that nobody fills, which only a pop that is no repeat looks at. It
    must be sent under the id `pop_id`.
    """
    return calls.pop(
        settings.queue,
        group=settings.consumer_group,
        partition=f"unread-{pop_id}",
        batch=settings.prefetch_max,
        lease_s=settings.lease_s,
    )


def unread_debt(settings: WorkerSettings, popped: Popped, requested_ns: int) -> Debt:
    """What is owed for such a claim: every job of it, with the number it had.

    Args:
        settings: How the worker consumed.
        popped: The claim, not empty.
        requested_ns: CLOCK_MONOTONIC when it was asked for again.
    """
    nothing = Application()
    deliveries = tuple(read_delivery(nothing, message) for message in popped.messages)
    batch = Batch(popped.lease_id, settings.lease_s, requested_ns, deliveries)
    # The claim says where it was made; which of its queues a worker asked last, nobody knows.
    queue = popped.messages[0].queue or settings.queue
    return Debt(batch.plan(queue, settings.consumer_group), tuple(batch.codes))
