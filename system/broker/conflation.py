"""Last-value delivery: a group that conflates gets only the newest visible message of a partition.

It is a property of the group in its queue, decided by the group's first pop and kept from then on,
whatever later pops say. The claim covers everything from the cursor to that newest message, so
that its ack retires what was skipped, and never what came later. Nothing else differs: one lease a
partition, the retry budget and the count of deliveries go on over all that is skipped, and a dead
letter is the message that was delivered.
"""

from __future__ import annotations

from typing import Final

from .commands import QUEUE_MODE, Pop
from .cursors import Cursor, Group, first_wanted
from .state import State

WIDTH_MAX: Final = 64
"""Partitions that a pop claims which names no number of its own."""


def decide(state: State, group: Group, command: Pop) -> None:
    """Let the group's first pop say whether it conflates."""
    if group.conflates is None:
        group.conflates = command.conflation is True and group.name != QUEUE_MODE
        state.changes.groups.change(group.number, group)


def newest_visible(state: State, cursor: Cursor) -> int:
    """Offset of the message that a conflating claim delivers."""
    delay_us = cursor.group.queue.options.delay_us
    newest = cursor.partition.visible_end(state.now_us, delay_us) - 1
    assert newest >= first_wanted(cursor), (
        f"partition {cursor.partition.partition_id} was ready with nothing visible"
    )
    return newest


def policy(command: Pop, groups: list[Group]) -> tuple[bool, bool]:
    """Whether a pop of these groups conflates, and whether it asked for something else.

    Without a group (or before its first pop) it is as the pop says.
    """
    asked = command.conflation
    stored = [group.conflates for group in groups if group.conflates is not None]
    if not stored:
        return asked is True, False
    return any(stored), asked is not None and any(each != asked for each in stored)
