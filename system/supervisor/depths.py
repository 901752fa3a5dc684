"""How much each queue holds for a group, asked in waves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import trio

from ..client import AsyncClient, BrokerError
from ..client import calls as broker
from .logbook import Logbook

WAVE: Final = 16
"""Queues that are asked about at the same time."""


class DepthReader:
    """Reads depths: a group's messages without an ack, those that run included.

    Args:
        client: Asks the broker; each of its tries ends within the time for one node.
        deadline_s: Longest wait for one queue, all nodes asked.
        log: The master's log.
    """

    def __init__(self, client: AsyncClient, deadline_s: float, log: Logbook) -> None:
        self._client = client
        self._deadline_s = deadline_s
        self._log = log
        self._is_dead = False
        self._was_read = True

    def begin(self) -> None:
        """Begin a round: a broker that did not answer in the last one is asked again."""
        self._is_dead = False

    async def read(self, queues: Sequence[str], group: str) -> list[int] | None:
        """Return each queue's depth, 0 for one that does not exist.

        Returns:
            None when one cannot be read; in the same round nobody is asked again then.
        """
        found: dict[str, int] = {}
        for first in range(0, len(queues), WAVE):
            if self._is_dead:
                return None
            async with trio.open_nursery() as nursery:
                for queue in queues[first : first + WAVE]:
                    nursery.start_soon(self._ask, queue, group, found)
        if len(found) < len(queues):
            return None
        if not self._was_read:
            self._was_read = True
            self._log.info("depths are readable again")
        return [found[queue] for queue in queues]

    async def _ask(self, queue: str, group: str, found: dict[str, int]) -> None:
        try:
            answer = await self._client.call(
                broker.depth(queue, group), deadline_s=self._deadline_s
            )
        except BrokerError as error:
            self._is_dead = self._is_dead or error.status is None
            if self._was_read:
                self._was_read = False
                self._log.warning("depth unreadable", queue=queue, error=str(error))
            return
        found[queue] = answer.value.pending
