"""What a serving leader does from time to time although nobody asks: retention by time.

Ephemeral queues are swept here, too, and waiting pops counted.
"""

from __future__ import annotations

from typing import Final

import trio

from ..broker.machine import Machine
from .desk import LeaderDesk
from .leadership import Leadership

PAUSE_S_MIN: Final = 0.1
PAUSE_S_MAX: Final = 1.0


async def run_upkeep(desk: LeaderDesk, machine: Machine, leadership: Leadership) -> None:
    """Look for what is too old and propose to let go of it, until cancelled."""
    while True:
        pause_s = PAUSE_S_MAX
        if leadership.is_serving:
            desk.attend_retention()
            desk.ephemeral.sweep(desk.stamp_us())
            desk.activity.sample(desk.lot.by_queue(), desk.stamp_us())
            ahead_s = (machine.next_retention_us - desk.stamp_us()) / 1_000_000
            pause_s = min(max(ahead_s, PAUSE_S_MIN), PAUSE_S_MAX)
        await trio.sleep(pause_s)
