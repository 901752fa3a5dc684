"""Tells the nemesis what happens in a run, for faults that wait for it."""

from __future__ import annotations

from typing import Final

import trio

from ..nemesis.events import FIRST_JOB_STARTED, LEADER_CHANGED, Events
from .progress import AttemptTail
from .watch import NodeWatch

_PAUSE_S: Final = 0.1


async def announce_events(events: Events, watch: NodeWatch, tail: AttemptTail) -> None:
    """Announce each event once it has happened; returns when there is none left.

    A leader has changed once the nodes name another one than at the first look.
    """
    first: str | None = None
    while not (events.has_happened(FIRST_JOB_STARTED) and events.has_happened(LEADER_CHANGED)):
        if tail.poll().started:
            events.announce(FIRST_JOB_STARTED)
        await watch.ask_all()
        leader = watch.leader()
        first = first or leader
        if leader is not None and leader != first:
            events.announce(LEADER_CHANGED)
        await trio.sleep(_PAUSE_S)
