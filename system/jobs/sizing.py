"""How much a queue holds, and whether that is more than it should."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..client import SyncClient
from ..client import calls as broker
from .application import Application
from .events import QueueBusy

COUNTS_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class QueueSize:
    """Jobs of a queue that are not settled.

    Attributes:
        queue: Its name.
        ready: Those that a worker could have now.
        running: Those under a lease.
        delayed: Those that wait for their time.
    """

    queue: str
    ready: int
    running: int
    delayed: int

    @property
    def total(self) -> int:
        """All of them."""
        return self.ready + self.running + self.delayed


def queue_size(client: SyncClient, queue: str, group: str) -> QueueSize:
    """Count the jobs of a queue; one that does not exist has none.

    Messages and timers are two questions: timers are counted before and after, and again if that
    differs, so that a job on its way from one to the other is not missed.

    Raises:
        BrokerError: No node answered.
    """
    delayed = client.call(broker.count_timers(queue)).value
    for _ in range(COUNTS_MAX):
        before = delayed
        depth = client.depth(queue, group).value
        delayed = client.call(broker.count_timers(queue)).value
        if delayed == before:
            break
    return QueueSize(queue, depth.ready, depth.processing, delayed)


def busy_queues(
    client: SyncClient,
    queues: Sequence[str],
    group: str,
    size_max: int,
    app: Application | None = None,
) -> tuple[tuple[QueueSize, ...], tuple[QueueBusy, ...]]:
    """Count queues and find those that hold more than they should.

    Args:
        client: Whom to ask.
        queues: Their names.
        group: Group of their workers.
        size_max: How many jobs a queue may hold.
        app: Its listeners of `QueueBusy` hear of each busy queue.

    Returns:
        The size of every queue, and the busy ones.

    Raises:
        BrokerError: No node answered.
    """
    sizes = tuple(queue_size(client, queue, group) for queue in queues)
    busy = tuple(
        QueueBusy(size.queue, size.total, size_max) for size in sizes if size.total > size_max
    )
    if app is not None:
        for event in busy:
            app.notify(event)
    return sizes, busy
