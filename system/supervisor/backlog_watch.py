"""Hearing of new messages: long polls that wait at the high watermarks of many partitions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from ..client import AsyncClient, BrokerError, Fetched, FetchFrom
from ..client.fetching import fetch
from ..jobs.payload import stripe
from .logbook import Logbook

LANES_MAX: Final = 1024
"""Partitions that one long poll waits for."""

PARK_S: Final = 20.0
AGAIN_S: Final = 5.0
PROBE_S: Final = 30.0
PAUSE_S: Final = 1.0
_BEYOND: Final = (1 << 62) - 1
_TURNED_AWAY: Final = (401, 403, 404)
_UNKNOWN: Final = "UNKNOWN_TOPIC_OR_PARTITION"

Lane = tuple[str, str]
"""A queue and one of its partitions."""


def lanes_of(queues: Sequence[str], partitions: int) -> list[Lane]:
    """Return the stripes of these queues, each queue once."""
    return [(queue, stripe(n)) for queue in dict.fromkeys(queues) for n in range(partitions)]


class BacklogWatch:
    """Watches lanes, and tells when one grew. It reads only: no lease, no cursor.

    Args:
        client: Asks the broker; each of its tries ends within the time for one node.
        lanes: What to watch.
        deadline_s: Longest wait for an answer, beyond what the long poll waits on purpose.
        grew: Called with the queues that have new messages.
        log: The master's log.
    """

    def __init__(
        self,
        client: AsyncClient,
        lanes: Sequence[Lane],
        deadline_s: float,
        grew: Callable[[set[str]], None],
        log: Logbook,
    ) -> None:
        self._client = client
        self._lanes = tuple(lanes)
        self._deadline_s = deadline_s
        self._grew = grew
        self._log = log

    async def keep(self) -> None:
        """Watch for ever, or until the broker turns this away."""
        async with trio.open_nursery() as nursery:
            for first in range(0, len(self._lanes), LANES_MAX):
                nursery.start_soon(self._watch, self._lanes[first : first + LANES_MAX])

    async def _watch(self, lanes: Sequence[Lane]) -> None:
        marks: dict[Lane, int] = {}
        probe_s = trio.current_time()
        is_first = True
        while True:
            try:
                if trio.current_time() >= probe_s:
                    missing = [lane for lane in lanes if lane not in marks]
                    grown = await self._ask(missing, marks, 0.0)
                    # What was there before anybody looked is for the polls.
                    self._tell(set() if is_first else grown)
                    is_first = False
                    probe_s = trio.current_time() + PROBE_S
                left_s = probe_s - trio.current_time()
                # While every queue is there, nothing has to be looked for.
                park_s = PARK_S if len(marks) == len(lanes) else min(PARK_S, max(0.0, left_s))
                if not marks:
                    await trio.sleep(park_s)
                    continue
                grown = await self._ask(list(marks), marks, park_s)
            except BrokerError as error:
                if error.status in _TURNED_AWAY:
                    self._log.error("backlogs cannot be watched", error=str(error))
                    return
                self._log.warning("watch interrupted", error=str(error))
                await trio.sleep(AGAIN_S)
                continue
            if grown:
                self._tell(grown)
                # Pools are sized once a second at most; what comes meanwhile is seen then.
                await trio.sleep(PAUSE_S)

    async def _ask(self, lanes: Sequence[Lane], marks: dict[Lane, int], wait_s: float) -> set[str]:
        """Fetch from the marks on, bring them up to date, and return the queues that grew.

        A lane without a mark is asked far beyond its end, which tells where that is.
        """
        if not lanes:
            return set()
        wanted = [
            FetchFrom(queue, partition, marks.get((queue, partition), _BEYOND), bytes_max=1)
            for queue, partition in lanes
        ]
        answer = await self._client.call(fetch(wanted, wait_s=wait_s), deadline_s=self._deadline_s)
        return note_marks(answer.value, lanes, marks)

    def _tell(self, queues: set[str]) -> None:
        if queues:
            self._grew(queues)


def note_marks(fetched: Fetched, lanes: Sequence[Lane], marks: dict[Lane, int]) -> set[str]:
    """Bring marks up to date with an answer; return the queues that grew.

    A mark may fall: the node that answers is behind, or the queue was made anew. A lane that was
    unknown and holds messages has grown.
    """
    grown = set()
    for lane, entry in zip(lanes, fetched.entries, strict=True):
        if entry.error == _UNKNOWN:
            marks.pop(lane, None)
            continue
        before = marks.get(lane, 0)
        marks[lane] = entry.high_watermark
        if entry.high_watermark > before:
            grown.add(lane[0])
    return grown
