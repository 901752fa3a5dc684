"""What happens in a run that a fault may wait for."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import trio

FIRST_JOB_STARTED: Final = "first-job-started"
LEADER_CHANGED: Final = "leader-changed"
OF_RUNS: Final = (FIRST_JOB_STARTED, LEADER_CHANGED)

BIT: Final = "bit"
HEALED: Final = "healed"
RECOVERED: Final = "recovered"
OF_FAULTS: Final = (BIT, HEALED, RECOVERED)
"""These come with a fault's id: `healed:kill-leader-1`."""


class UnknownEventError(ValueError):
    """A name that no event has; the message names the choices."""


def event_of(stage: str, fault: str) -> str:
    """The name of the event that a fault with this id reached a stage of `OF_FAULTS`."""
    return f"{stage}:{fault}"


def fault_of(event: str) -> str | None:
    """The id of the fault that an event is about; None for an event of the run.

    Raises:
        UnknownEventError: There is no such event.
    """
    stage, colon, fault = event.partition(":")
    if not colon and event in OF_RUNS:
        return None
    if stage in OF_FAULTS and fault:
        return fault
    choices = ", ".join([*OF_RUNS, *(f"{name}:FAULT" for name in OF_FAULTS)])
    raise UnknownEventError(f"{event!r} is no event; choose from: {choices}")


class Events:
    """The events of one run, each kept once it has happened."""

    def __init__(self) -> None:
        self._seen: defaultdict[str, trio.Event] = defaultdict(trio.Event)

    def announce(self, name: str) -> None:
        """Say that it happened; a second time changes nothing."""
        self._seen[name].set()

    def has_happened(self, name: str) -> bool:
        """Whether it was announced."""
        return self._seen[name].is_set()

    async def wait(self, name: str) -> None:
        """Return once it has happened."""
        await self._seen[name].wait()
