"""What a pop brought, made a batch."""

from __future__ import annotations

from ..client import Popped
from .batch import Batch
from .delivery import read_delivery
from .session import WorkerSession


def make_batch(session: WorkerSession, popped: Popped, requested_ns: int) -> Batch:
    """Read what was delivered, at least one message.

    A repeated pop is answered with the claim that the first one made, which says itself from which
    queue it is.
    """
    deliveries = tuple(read_delivery(session.app, message) for message in popped.messages)
    queue = popped.messages[0].queue or session.queue
    return Batch(popped.lease_id, session.settings.lease_s, requested_ns, deliveries, queue)
