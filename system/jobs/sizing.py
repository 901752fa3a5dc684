"""How much a queue holds, and whether that is more than it should."""

from __future__ import annotations

from dataclasses import dataclass

from ..client import SyncClient
from ..client import calls as broker


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

    Raises:
        BrokerError: No node answered.
    """
    depth = client.depth(queue, group).value
    delayed = client.call(broker.count_timers(queue)).value
    return QueueSize(queue, depth.ready, depth.processing, delayed)
